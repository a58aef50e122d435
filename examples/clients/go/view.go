// A stream as a map that stays current.

package headgate

import (
	"context"
	"sync"
)

// View keeps the items of one stream, as its messages say. It may be used by many goroutines at once.
//
// Invariant: the position that a connection resumes from and the items belong together, so resuming misses nothing.
type View struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.RWMutex
	items    map[string]Item
	seen     map[string]bool // keys of the snapshot that is arriving; nil if none is
	id       string
	complete bool          // the whole content is known
	synced   bool          // this connection has said all there is
	late     bool          // the source went quiet
	changed  chan struct{} // closed at the next change
	err      error
}

// View opens a view of a stream, until the context ends or it is closed.
func (r *Reader) View(ctx context.Context, stream string) *View {
	ctx, cancel := context.WithCancel(ctx)
	v := &View{cancel: cancel, done: make(chan struct{}), items: map[string]Item{}, changed: make(chan struct{})}
	go func() {
		defer close(v.done)
		err := r.follow(ctx, FollowOptions{Streams: []string{stream}}, v.hear, v.lost)
		v.mu.Lock()
		v.err = err
		v.tell()
		v.mu.Unlock()
	}()
	return v
}

// Close ends it; the items stay.
func (v *View) Close() {
	v.cancel()
	<-v.done
}

// Get is an item, if there is one with this key.
func (v *View) Get(key string) (Item, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	item, ok := v.items[key]
	return item, ok
}

// Items is a copy of all, in no order.
func (v *View) Items() map[string]Item {
	v.mu.RLock()
	defer v.mu.RUnlock()
	all := make(map[string]Item, len(v.items))
	for key, item := range v.items {
		all[key] = item
	}
	return all
}

// Len is how many items there are.
func (v *View) Len() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.items)
}

// Complete says whether the whole content of the stream is known.
func (v *View) Complete() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.complete
}

// Stale says whether the items may be old: the connection is lost, or the stream's source went quiet.
func (v *View) Stale() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.late || !v.synced
}

// Changed is closed at the next change, of items or of Complete or Stale. Take it before you look.
func (v *View) Changed() <-chan struct{} {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.changed
}

// Err is what ended the view; nil while it follows.
func (v *View) Err() error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.err
}

func (v *View) tell() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// lost is the end of a connection. A snapshot that broke off counts for nothing, unless the position says that what was
// there before still holds.
func (v *View) lost() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.complete = (v.complete || v.seen != nil) && resumable(v.id)
	v.seen, v.synced = nil, false
	v.tell()
}

func (v *View) hear(m Message) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.id = m.ID
	switch m.Type {
	case "reset":
		// What is there is shown until the snapshot that follows replaces it.
		v.complete, v.synced, v.seen = false, false, nil
	case "heartbeat":
		v.synced = v.complete
	case "remove":
		for _, key := range m.Keys {
			delete(v.items, key)
		}
	case "snapshot":
		v.late = false
		if v.seen == nil {
			v.seen, v.complete = map[string]bool{}, false
		}
		v.set(m.Items)
		if m.Complete {
			v.finish()
		}
	case "update":
		v.late = false
		v.set(m.Items)
	case "stale":
		v.late = true
	case "fresh":
		v.late = false
	}
	v.tell()
}

func (v *View) set(items []Item) {
	for _, item := range items {
		v.items[item.Key] = item
		if v.seen != nil {
			v.seen[item.Key] = true
		}
	}
}

// finish forgets what the snapshot did not have.
func (v *View) finish() {
	for key := range v.items {
		if !v.seen[key] {
			delete(v.items, key)
		}
	}
	v.seen, v.complete, v.synced = nil, true, true
}
