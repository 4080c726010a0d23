//go:build !linux

package testbed

import "os"

// tempDir is where servers write.
func tempDir() string { return os.TempDir() }
