package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A texter makes the text of the i-th call, which nobody has seen before, as a program that puts its values into the
// text does: the text is new, and it is in the processor's cache because it has just been written.
type texter func(i int) string

// parts are what ordinary statements are made of, and lookAlikes what comes close to a lock function.
var (
	parts = strings.Fields(`id name email status total_cents created_at updated_at customer_id shipping_address
		version description category "order" "Orders"."id" count(id) max(created_at) lower(email) price*quantity
		coalesce(status,'new') 'it''s' 42 created_at::date is_locked released_at`)
	lookAlikes = strings.Fields(`locked_at is_locked block_id unlocked clock_in released_by advisory_note advisory
		count(lock_id) max(locked_until) "advisory_lock" get_locale category_lock`)
)

// plain makes statements of n bytes that have nothing to do with locks.
func plain(n int) texter { return mixed(parts, n) }

func mixed(parts []string, n int) texter {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	return listing(n, "SELECT ", " FROM orders WHERE id = ", func() string { return parts[r.IntN(len(parts))] + ", " })
}

// full makes statements of n bytes that consist of word, over and over.
func full(word string, n int) texter {
	return listing(n, "SELECT ", " FROM orders WHERE id = ", func() string { return word })
}

// bulk makes INSERTs of many rows.
func bulk(n int) texter {
	return listing(n, "INSERT INTO t VALUES ", "),(", func() string { return "(17,'paid',19.99)," })
}

// naming makes statements that name lock functions without calling them: no prefilter alone can pass these.
func naming(n int) texter {
	text := plain(n)
	return func(i int) string { return text(i) + " AND note <> 'pg_advisory_lock(1) GET_LOCK(1)'" }
}

// listing makes statements of exactly n bytes: head, parts, tail, and a number of their own.
func listing(n int, head, tail string, part func() string) texter {
	lists := make([]string, 64)
	for i := range lists {
		var list strings.Builder
		for list.WriteString(head); list.Len() < n; {
			list.WriteString(part())
		}
		lists[i] = list.String()[:n-len(tail)-8] + "0" + tail
	}
	return func(i int) string { return lists[i%len(lists)] + numbers[i%len(numbers)] }
}

var numbers = func() (all [1 << 16]string) {
	for i := range all {
		all[i] = fmt.Sprintf("%07d", i)
	}
	return all
}()
