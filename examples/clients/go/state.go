// What a batcher knows of its items. Everything here is called with its lock held.

package headgate

import (
	"math"
	"time"
)

// forever is a wait that ends with a signal.
const forever = time.Hour

// lingerBehind is how long items gather at least while older ones wait: what has to wait anyway makes larger batches.
const lingerBehind = time.Second

// batch is the items of one request, in memory.
type batch struct {
	key     string // idempotency key
	itemKey string // empty if the connector has one
	stream  string // that it is meant for; empty if that is not known
	created time.Time
	entries []*entry
	first   uint64        // number of the first item
	refused bool          // the disk did not take it: it may be sent from memory
	again   time.Duration // when it is written again
}

// spooled is a batch of which only the file is there.
type spooled struct {
	name  string // with .json
	room  int64  // that it takes
	first uint64
}

// span is a part of a batch: its first item's place, and how many.
type span struct{ from, count int }

// hand is the batch that is being sent.
type hand struct {
	*batch
	room  int64  // of its file; 0 if it has none
	parts []span // what is left of it
	whole bool   // it was not cut
	tried bool   // whether Headgate has what is to be sent is unknown
	since time.Time
	lived time.Duration // the same moment by the other clock
}

func inHand(next *batch) *hand {
	return &hand{batch: next, parts: []span{{0, len(next.entries)}}, whole: true}
}

// part is what is sent next.
func (h *hand) part() []*entry {
	next := h.parts[0]
	return h.entries[next.from : next.from+next.count]
}

// rest is the items that are neither accepted nor rejected.
func (h *hand) rest() []*entry {
	var rest []*entry
	for _, part := range h.parts {
		rest = append(rest, h.entries[part.from:part.from+part.count]...)
	}
	return rest
}

// left counts the items that are neither accepted nor rejected.
func (h *hand) left() int {
	sum := 0
	for _, part := range h.parts {
		sum += part.count
	}
	return sum
}

func size(entries []*entry) int {
	sum := 0
	for _, e := range entries {
		sum += len(e.raw)
	}
	return sum
}

// bodyOf is a list of items.
func bodyOf(entries []*entry) []byte {
	body := make([]byte, 0, size(entries)+len(entries)+1)
	for i, e := range entries {
		body = append(body, "[,"[min(i, 1)])
		body = append(body, e.raw...)
	}
	return append(body, ']')
}

// put lets an item in.
func (b *Batcher) put(e *entry) {
	b.last++
	e.seq, e.at = b.last, b.client.transport.lived()
	if b.queue.push(e) {
		b.stats.Replaced++
	}
	b.signal()
}

// unwrittenBytes are those of a batch that was cut and is in no file yet.
func (b *Batcher) unwrittenBytes() int {
	if b.unwritten == nil {
		return 0
	}
	return size(b.unwritten.entries)
}

// takes says whether an item may go in at once.
func (b *Batcher) takes(e *entry) bool {
	memory, disk := b.room()
	return b.queue.takes(e, memory) && b.queue.takes(e, disk)
}

// room is what the queue in memory may have, for the sake of memory and for that of the disk.
func (b *Batcher) room() (memory, disk room) {
	unwritten := int64(b.unwrittenBytes())
	memory = room{int64(b.o.QueueBytes), unwritten}
	disk = room{math.MaxInt64, 0}
	if b.spool != nil {
		disk = room{b.o.SpoolBytes, unwritten + b.used}
	}
	return memory, disk
}

// admit lets in those who wait, as far as there is room.
func (b *Batcher) admit() {
	for w := b.queue.first(); w != nil; w = b.queue.first() {
		if memory, disk := b.room(); !b.queue.fits(w.entry, memory) || !b.queue.fits(w.entry, disk) {
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
	for !b.takes(e) && len(b.queue.entries) > 0 {
		dropped = append(dropped, b.queue.pop(1)...)
	}
	b.stats.Dropped += uint64(len(dropped))
	b.stats.Rejected += uint64(len(dropped))
	b.tell()
	return dropped
}

// behind says whether older batches wait.
func (b *Batcher) behind() bool {
	return b.hand != nil || b.unwritten != nil || len(b.files) > 0
}

// cut makes a batch of the front of the queue, if it is time; else it says how long to wait for that.
func (b *Batcher) cut() (*batch, time.Duration) {
	count, full := b.queue.prefix(b.o.MaxItems, b.bytesMost)
	if count == 0 {
		return nil, forever
	}
	t := b.client.transport
	first, linger := b.queue.entries[0], b.o.Linger
	if b.behind() {
		linger = max(linger, lingerBehind)
	}
	if wait := first.at + linger - t.lived(); !full && wait > 0 && b.flushTo < first.seq && !b.closed {
		return nil, wait
	}
	cut := &batch{key: newUUID(t.now()), created: t.now(), entries: b.queue.pop(count), first: first.seq, stream: b.o.Stream}
	if b.spool != nil && cut.stream == "" {
		cut.stream = b.stream
	}
	if b.o.ItemKey != ConnectorItemKey {
		cut.itemKey = b.o.ItemKey
	}
	return cut, 0
}

// queued counts the items in memory that are not in hand.
func (b *Batcher) queued() int {
	count := len(b.queue.entries)
	if b.unwritten != nil && !b.holds(b.unwritten) {
		count += len(b.unwritten.entries)
	}
	return count
}

func (b *Batcher) inFlight() int {
	if b.hand == nil {
		return 0
	}
	return b.hand.left()
}

func (b *Batcher) holds(one *batch) bool { return b.hand != nil && b.hand.batch == one }

// oldest is the number of the oldest item that is neither accepted nor rejected; false if there is none.
func (b *Batcher) oldest() (uint64, bool) {
	switch {
	case b.hand != nil:
		return b.hand.first, true
	case len(b.files) > 0:
		return b.files[0].first, true
	case b.unwritten != nil:
		return b.unwritten.first, true
	case len(b.queue.entries) > 0:
		return b.queue.entries[0].seq, true
	}
	return 0, false
}

// oldestAt is when the oldest item in memory came.
func (b *Batcher) oldestAt() (time.Duration, bool) {
	switch {
	case b.hand != nil:
		return b.hand.entries[0].at, true
	case b.unwritten != nil:
		return b.unwritten.entries[0].at, true
	case len(b.queue.entries) > 0:
		return b.queue.entries[0].at, true
	}
	return 0, false
}

// open says whether an item up to this one is neither accepted nor rejected.
func (b *Batcher) open(target uint64) bool {
	oldest, ok := b.oldest()
	return ok && oldest <= target
}

// tell wakes whoever waits for a change.
func (b *Batcher) tell() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// signal wakes who cuts, if the newest item changes what it waits for.
func (b *Batcher) signal() {
	count := len(b.queue.entries)
	if count == 1 || count >= b.o.MaxItems || b.queue.bytes+count+1 >= b.bytesMost {
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
