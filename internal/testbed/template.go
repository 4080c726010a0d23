package testbed

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
)

// cacheDir is where data folders wait to be copied and where `make servers` unpacks MySQL.
func cacheDir() string {
	if dir := os.Getenv("SQLLOCK_CACHE"); dir != "" {
		return dir
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "sqllock")
	}
	return filepath.Join(os.TempDir(), ".cache", "sqllock") // no HOME: a bare environment
}

// copyTemplate makes data a copy of e's template. A template never changes, so it is copied without a lock.
func (e *engine) copyTemplate(bin, data string, dog *watchdog) error {
	template, err := e.template(bin, dog)
	if err != nil {
		return err
	}
	if err := os.CopyFS(data, os.DirFS(template)); err != nil {
		return err
	}
	return os.Chmod(data, 0o700) // PostgreSQL insists
}

// template returns e's cached data folder. It is made on first use: that takes seconds, copying it a fraction of one.
func (e *engine) template(bin string, dog *watchdog) (string, error) {
	dir := filepath.Join(cacheDir(), "templates", e.templateName(bin))
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := flock(dir + ".lock") // test processes run side by side
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fresh := filepath.Join(dog.folder, "template-"+randomName())
	defer os.RemoveAll(fresh)
	if err := e.fillNew(helper{bin, fresh, dog, e.user()}); err != nil {
		return "", err
	}
	return dir, publish(fresh, dir)
}

// fillNew makes the folder that e.fill fills.
func (e *engine) fillNew(h helper) error {
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		return err
	}
	if err := give(h.dir, h.as); err != nil {
		return err
	}
	return e.fill(h)
}

// templateName changes with the program and with the recipe.
func (e *engine) templateName(bin string) string {
	h := fnv.New64a()
	fmt.Fprint(h, bin, e.recipe)
	if info, err := os.Stat(bin); err == nil {
		fmt.Fprint(h, info.Size(), info.ModTime().UnixNano())
	}
	return fmt.Sprintf("%s-%x", e.kind, h.Sum64())
}

// publish copies fresh to dir so that nobody ever sees half of it.
func publish(fresh, dir string) error {
	half := dir + ".half"
	if err := os.RemoveAll(half); err != nil {
		return err
	}
	if err := os.CopyFS(half, os.DirFS(fresh)); err != nil {
		return err
	}
	return os.Rename(half, dir)
}
