// What a batcher knows of its items. Everything here is called with its lock held, but for drop.

package headgate

import "time"

// batch is the items of one request, or of one that was refused and cut.
type batch struct {
	key     string // idempotency key
	itemKey string // empty if the connector has one
	created time.Time
	entries []*entry
	file    string // its name in the spool; empty if it is in none
	ready   bool   // to be sent: with a spool, the file is written
	whole   string // of a part: the key of the batch that it was cut out of
	offset  int    // of a part: its first item's place there
}

func (b *batch) bytes() int {
	sum := 0
	for _, e := range b.entries {
		sum += len(e.raw)
	}
	return sum
}

func (b *batch) body() []byte {
	body := make([]byte, 0, b.bytes()+len(b.entries)+1)
	for i, e := range b.entries {
		body = append(body, "[,"[min(i, 1)])
		body = append(body, e.raw...)
	}
	return append(body, ']')
}

// put lets an item in.
func (b *Batcher) put(e *entry) {
	b.last++
	e.seq, e.at = b.last, time.Now()
	if b.queue.push(e) {
		b.stats.Replaced++
	}
	b.signal()
}

// admit lets in those who wait, as far as there is room.
func (b *Batcher) admit() {
	for w := b.queue.first(); w != nil; w = b.queue.first() {
		if !b.queue.fits(w.entry, b.o.QueueBytes, b.spooled) {
			return
		}
		b.queue.leave(w)
		b.put(w.entry)
		close(w.done)
	}
}

// makeRoom takes out the oldest, until an item has room.
func (b *Batcher) makeRoom(e *entry) []*entry {
	var dropped []*entry
	for !b.queue.takes(e, b.o.QueueBytes, b.spooled) {
		if len(b.pending) > 0 && b.pending[0].ready {
			oldest := b.unstack()
			b.spool.remove(oldest)
			dropped = append(dropped, oldest.entries...)
		} else if len(b.queue.entries) > 0 {
			dropped = append(dropped, b.queue.pop(1)...)
		} else {
			break
		}
	}
	b.stats.Dropped += uint64(len(dropped))
	b.stats.Rejected += uint64(len(dropped))
	b.tell()
	return dropped
}

// drop hands over what had to make room, each item by itself. Called without the lock.
func (b *Batcher) drop(dropped []*entry) {
	for _, e := range dropped {
		b.hand([]*entry{e}, failure(CodeDropped, "the queue was full, and %s the oldest in it", named(e.key)))
	}
}

// cut makes a batch of the front of the queue, if it is time; else it says how long to wait for that.
func (b *Batcher) cut(now time.Time) (*batch, time.Duration) {
	count, full := b.queue.prefix(b.o.MaxItems, b.o.MaxBytes)
	if count == 0 {
		return nil, time.Hour
	}
	first := b.queue.entries[0]
	wait := b.o.Linger - now.Sub(first.at)
	if !full && wait > 0 && b.flushTo < first.seq && !b.closed {
		return nil, wait
	}
	cut := &batch{key: newUUID(), created: b.client.transport.now(), entries: b.queue.pop(count)}
	if b.o.ItemKey != ConnectorItemKey {
		cut.itemKey = b.o.ItemKey
	}
	return cut, 0
}

// fly makes a batch the one that is on its way.
func (b *Batcher) fly(next *batch) {
	b.flight = next.entries
	b.admit()
	b.tell()
}

// land forgets the first items of those on their way.
func (b *Batcher) land(count int) {
	b.flight = b.flight[count:]
	b.tell()
}

// stack puts a batch behind those that wait, unstack takes the first of them.
func (b *Batcher) stack(next *batch) {
	b.pending = append(b.pending, next)
	b.spooled += next.bytes()
}

func (b *Batcher) unstack() *batch {
	first := b.pending[0]
	b.pending = b.pending[1:]
	b.spooled -= first.bytes()
	return first
}

func (b *Batcher) queued() int {
	count := len(b.queue.entries)
	for _, p := range b.pending {
		count += len(p.entries)
	}
	return count
}

func (b *Batcher) oldest() *entry {
	switch {
	case len(b.flight) > 0:
		return b.flight[0]
	case len(b.pending) > 0:
		return b.pending[0].entries[0]
	case len(b.queue.entries) > 0:
		return b.queue.entries[0]
	}
	return nil
}

// open says whether an item up to this one is neither accepted nor rejected.
func (b *Batcher) open(target uint64) bool {
	oldest := b.oldest()
	return oldest != nil && oldest.seq <= target
}

// tell wakes whoever waits for a change.
func (b *Batcher) tell() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// signal wakes the sender, if the newest item changes what it waits for.
func (b *Batcher) signal() {
	count := len(b.queue.entries)
	if count == 1 || count >= b.o.MaxItems || b.queue.bytes+count+1 >= b.o.MaxBytes {
		b.wakeAll()
	}
}

func (b *Batcher) wakeAll() {
	for _, wake := range []chan struct{}{b.wake, b.wakeCut} {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}
