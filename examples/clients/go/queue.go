// The items that wait for their batch, and the callers that wait for room.

package headgate

import (
	"container/list"
	"time"
)

// entry is an item on its way.
type entry struct {
	raw []byte
	key string        // the value of the item key, if the batcher has one
	seq uint64        // in the order in which items came
	at  time.Duration // by the clock that cannot be set
}

// waiter is a caller of Add whose item has no room yet.
type waiter struct {
	entry  *entry
	done   chan struct{}
	closed bool // the batcher was; the item is not in the queue
	place  *list.Element
}

// queue holds items in order, and their bytes.
type queue struct {
	entries []*entry
	bytes   int
	newest  map[string]*entry // by key, if only the latest of each counts
	waiters *list.List
}

func newQueue(latestOnly bool) queue {
	q := queue{waiters: list.New()}
	if latestOnly {
		q.newest = map[string]*entry{}
	}
	return q
}

// room is a limit, and what is held elsewhere of it.
type room struct{ limit, held int64 }

// takes says whether an item may go in: with what else waits it is within the limit, or nothing waits. Who came first is
// let in first.
func (q *queue) takes(e *entry, in room) bool {
	if old := q.newest[e.key]; old != nil {
		return int64(q.bytes-len(old.raw)+len(e.raw))+in.held <= in.limit
	}
	return q.waiters.Len() == 0 && q.fits(e, in)
}

func (q *queue) fits(e *entry, in room) bool {
	waiting := int64(q.bytes) + in.held
	return waiting == 0 || waiting+int64(len(e.raw)) <= in.limit
}

// push puts an item at the end, or in the place of an older one: then it is true.
func (q *queue) push(e *entry) bool {
	if old := q.newest[e.key]; old != nil {
		q.bytes += len(e.raw) - len(old.raw)
		old.raw = e.raw
		return true
	}
	if q.newest != nil {
		q.newest[e.key] = e
	}
	q.entries = append(q.entries, e)
	q.bytes += len(e.raw)
	return false
}

// pop takes items from the front.
func (q *queue) pop(count int) []*entry {
	taken := q.entries[:count:count]
	q.entries = q.entries[count:]
	if len(q.entries) == 0 {
		q.entries = nil
	}
	for _, e := range taken {
		q.bytes -= len(e.raw)
		if q.newest[e.key] == e {
			delete(q.newest, e.key)
		}
	}
	return taken
}

// prefix counts the items of the next batch, and says whether it is full.
func (q *queue) prefix(itemsMost, bytesMost int) (int, bool) {
	size := 1
	for i, e := range q.entries {
		if i == itemsMost {
			return i, true
		}
		size += len(e.raw) + 1
		if size > bytesMost && i > 0 {
			return i, true
		}
		if size >= bytesMost {
			return i + 1, true
		}
	}
	return len(q.entries), len(q.entries) == itemsMost
}

// line puts a caller at the end of those who wait.
func (q *queue) line(e *entry) *waiter {
	w := &waiter{entry: e, done: make(chan struct{})}
	w.place = q.waiters.PushBack(w)
	return w
}

// leave takes a caller out, unless its item was let in.
func (q *queue) leave(w *waiter) bool {
	if w.place == nil {
		return false
	}
	q.waiters.Remove(w.place)
	w.place = nil
	return true
}

// first is who has waited longest.
func (q *queue) first() *waiter {
	if front := q.waiters.Front(); front != nil {
		return front.Value.(*waiter)
	}
	return nil
}

// dismiss takes all callers out.
func (q *queue) dismiss() []*waiter {
	var all []*waiter
	for w := q.first(); w != nil; w = q.first() {
		q.leave(w)
		all = append(all, w)
	}
	return all
}
