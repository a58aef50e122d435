// The sender of a batcher: one batch after the other, each until Headgate has accepted or refused all of it.

package headgate

import (
	"encoding/json"
	"fmt"
	"time"
)

// unknownMost is how long a batch is tried whose outcome is unknown. The daemon knows idempotency keys for 24 hours: what
// it may have taken must not come again after that.
const unknownMost = 23 * time.Hour

// clockJump is how far the wall clock may be off before the time of a mark is written anew.
const clockJump = time.Minute

// bytesLeast is how short batches may become because something in between finds them too large.
const bytesLeast = 4 << 10

// partsMost is how many parts have room in the file that says what is in hand.
const partsMost = 200

// again is the pause before a file is tried again that could not be read or written.
const again = time.Second

// State is how the batcher stands to Headgate.
type State string

const (
	// OK says that the last request was answered by Headgate with a word about its items, or that there was none.
	OK State = "ok"
	// Retrying says that requests do not reach Headgate, or that it asks for patience.
	Retrying State = "retrying"
	// Blocked says that Headgate refuses the key, the stream or the request: somebody has to do something, such as
	// [Client.SetKey]. Items are kept meanwhile.
	Blocked State = "blocked"
)

// sendStep makes one attempt, if it is time. It says how long there is nothing to do.
func (b *Batcher) sendStep() time.Duration {
	b.mu.Lock()
	wait := b.notBefore - b.client.transport.lived()
	h := b.hand
	b.mu.Unlock()
	if wait > 0 {
		return wait
	}
	if h == nil {
		if h, wait = b.take(); h == nil {
			return wait
		}
	}
	b.attempt(h)
	return 0
}

// take gets the next batch in hand: from its file, from memory if the disk does not take it, or from the queue.
func (b *Batcher) take() (*hand, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := forever
	if b.spool == nil {
		var next *batch
		if next, wait = b.cut(); next != nil {
			b.hand = inHand(next)
		}
	} else if len(b.files) > 0 {
		b.hand, wait = b.openNext()
	} else if b.unwritten != nil && b.unwritten.refused {
		b.hand = inHand(b.unwritten)
	}
	if b.hand != nil {
		b.admit()
	}
	b.tell()
	return b.hand, wait
}

// attempt sends what is next of the batch in hand, and does what follows.
func (b *Batcher) attempt(h *hand) {
	t := b.client.transport
	entries, key := h.part(), t.key()
	if h.expired(t) {
		b.setAside(h, failure(CodeExpired, "Headgate may have accepted this more than 23 hours ago, and may no longer detect the duplicate; check the item before you send it again"))
		return
	}
	c := b.request(h)
	fresh := b.mark(h)
	o := judge(t.exchange(b.ctx, c), len(entries), t.now())
	if fresh && !o.unknown {
		h.tried = false
	}
	if b.ctx.Err() != nil && o.kind == retrying {
		b.save(h)
		return // the end of the batcher: whether bytes left is on disk
	}
	if o.kind == blocked && t.key() != key {
		b.save(h)
		return // about the key before: it says nothing
	}
	b.follow(h, o, len(c.body))
	b.wait(o)
}

// request is the part that is next, always with the same key. Options and files were checked before.
func (b *Batcher) request(h *hand) call {
	c, _ := submission(bodyOf(h.part()), &sendOptions{itemKey: h.itemKey, idempotencyKey: h.partKey(), stream: h.stream})
	return c
}

// partKey is the batch's, or that of a part: the same whenever the same part is cut out of the same batch.
func (h *hand) partKey() string {
	if h.whole {
		return h.key
	}
	return fmt.Sprintf("%s/%d/%d", h.key, h.parts[0].from, h.parts[0].count)
}

// follow does what an outcome asks for.
func (b *Batcher) follow(h *hand, o outcome, bytes int) {
	part := h.parts[0]
	switch o.kind {
	case accepted:
		b.learn(o.receipt.Stream)
		b.turn(OK, "")
		if b.o.OnAccepted != nil {
			b.o.OnAccepted(o.receipt, raws(h.part()))
		}
		b.settle(h, true)
	case mismatch:
		b.turn(OK, "")
		b.setAside(h, o.failed)
	case refused:
		b.turn(OK, "")
		if smaller := divide(part, o.named(part.count)); smaller != nil {
			b.cutUp(h, smaller)
		} else {
			b.setAside(h, o.failed)
		}
	case blocked:
		b.save(h)
		b.failing(Blocked, o.failed)
	case retrying:
		if o.shrink && !h.tried && part.count > 1 {
			b.shrink(bytes)
			b.cutUp(h, divide(part, nil))
		} else {
			b.save(h)
		}
		b.failing(Retrying, o.failed)
	}
}

// wait sets when the next attempt may be, and counts failures.
func (b *Batcher) wait(o outcome) {
	t := b.client.transport
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.kind == blocked || o.kind == retrying {
		b.failures++
		b.stats.Retries++
	} else {
		b.failures = 0
	}
	if pause := o.pause(t.pauses, max(b.failures, 1), t.draw()); pause > 0 {
		b.notBefore = max(b.notBefore, t.lived()+pause)
	}
}

// tryNow ends a pause: the key is another one.
func (b *Batcher) tryNow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notBefore, b.failures = 0, 0
	b.wakeAll()
}

// learn keeps the name of the key's stream: batches that are written from now on are meant for it.
func (b *Batcher) learn(stream string) {
	b.mu.Lock()
	b.stream = stream
	b.mu.Unlock()
}

// shrink makes later batches shorter than one that something in between found too large.
func (b *Batcher) shrink(bytes int) {
	b.mu.Lock()
	b.bytesMost = min(b.bytesMost, max(bytes/2, bytesLeast))
	b.mu.Unlock()
}

// mark says on disk, before bytes leave, that the outcome is unknown. It is true if that was not so before.
func (b *Batcher) mark(h *hand) bool {
	t := b.client.transport
	now, lived := t.now(), t.lived()
	if !h.tried {
		h.tried, h.since, h.lived = true, now, lived
		b.save(h)
		return true
	}
	// The time that passed is what counts: a clock that jumped must not make a batch old, or young, after a crash.
	lasted := lived - h.lived
	if off := now.Sub(h.since.Add(lasted)); off.Abs() > clockJump {
		h.since = now.Add(-lasted)
		b.save(h)
	}
	return false
}

func (h *hand) expired(t *transport) bool {
	return h.tried && t.lived()-h.lived >= unknownMost
}

// save writes what stands of the batch in hand. What cannot be written is told of: it matters only if a crash comes next.
func (b *Batcher) save(h *hand) {
	if b.spool == nil {
		return
	}
	if err := b.spool.save(h); err != nil {
		b.client.transport.log().Warn("headgate: cannot write the state of the current batch to the spool", "folder", b.spool.folder, "error", err)
	}
}

// cutUp replaces the part that is next by smaller ones, which are on disk before the first of them is sent.
func (b *Batcher) cutUp(h *hand, smaller []span) {
	b.mu.Lock()
	h.parts = append(smaller, h.parts[1:]...)
	if len(h.parts) > partsMost {
		// None of the last ones was sent yet: they may be one.
		from := h.parts[partsMost-1].from
		h.parts = append(h.parts[:partsMost-1], span{from, len(h.entries) - from})
	}
	h.whole, h.tried = false, false
	b.mu.Unlock()
	b.save(h)
}

// setAside gives up what is next, for one of three reasons: Headgate refused it, knows its key with other content, or may
// have taken it too long ago. It is kept in the spool, and told of.
func (b *Batcher) setAside(h *hand, failed *Error) {
	if b.spool != nil {
		went, err := b.spool.reject(h, failed)
		b.forgot(went)
		if err != nil && !gone(failed.Code) {
			b.client.transport.log().Warn("headgate: cannot keep rejected items in the spool", "error", err)
		} else if err != nil {
			b.diskTakes(false, fmt.Errorf("cannot keep rejected items: %w", err))
			b.mu.Lock()
			b.notBefore = b.client.transport.lived() + again
			b.mu.Unlock()
			return
		}
	}
	b.giveBack(h.part(), failed)
	b.settle(h, false)
}

// forgot counts files of refused items that had to go.
func (b *Batcher) forgot(files int) {
	if files == 0 {
		return
	}
	b.mu.Lock()
	first := b.stats.Forgotten == 0
	b.stats.Forgotten += uint64(files)
	b.mu.Unlock()
	if first {
		b.client.transport.log().Warn("headgate: rejected items fill the spool, so the oldest of them are deleted; later deletions are not logged", "folder", b.spool.folder)
	}
}

// gone says that it is not known, or not true, that Headgate refused the items: they are never deleted.
func gone(code string) bool { return code == CodeExpired || code == CodeMismatch }

// settle takes what is next out of the batch in hand, and the batch out of the queue with its last part.
func (b *Batcher) settle(h *hand, accepted bool) {
	b.mu.Lock()
	count := h.parts[0].count
	if accepted {
		b.stats.Accepted += uint64(count)
	} else {
		b.stats.Rejected += uint64(count)
	}
	h.parts, h.tried = h.parts[1:], false
	if len(h.parts) > 0 {
		b.tell()
		b.mu.Unlock()
		b.save(h)
		return
	}
	defer b.mu.Unlock()
	b.spool.remove(h)
	b.used -= h.room
	if b.unwritten == h.batch {
		b.unwritten = nil
	}
	b.hand = nil
	if b.spool == nil {
		b.flushTo = max(b.flushTo, b.last) // what gathered goes at once
	}
	b.admit()
	b.tell()
	b.wakeAll()
}

// divide makes smaller parts of one that was refused: the items that are named stand alone, or else it is halved. Nil if
// that is no use.
func divide(part span, named []int) []span {
	if part.count < 2 {
		return nil
	}
	if len(named) == 0 {
		half := part.count / 2
		return []span{{part.from, half}, {part.from + half, part.count - half}}
	}
	var parts []span
	from := 0
	for _, item := range append(named, part.count) {
		if from < item {
			parts = append(parts, span{part.from + from, item - from})
		}
		if item < part.count {
			parts = append(parts, span{part.from + item, 1})
		}
		from = item + 1
	}
	return parts
}

// turn tells of another state, or another reason to be blocked, and writes the log when all is well again.
func (b *Batcher) turn(state State, code string) {
	b.mu.Lock()
	was := b.state
	told := was != state || state == Blocked && b.code != code
	if was != state {
		b.since = b.client.transport.now()
	}
	b.state, b.code = state, code
	b.mu.Unlock()
	if was != OK && state == OK {
		b.client.transport.log().Warn("headgate: requests are accepted again")
	}
	if told && b.o.OnState != nil {
		b.o.OnState(state, code)
	}
}

func (b *Batcher) failing(state State, failed *Error) {
	b.mu.Lock()
	first := b.state == OK || state == Blocked && (b.state != Blocked || b.code != failed.Code)
	b.mu.Unlock()
	if first && state == Blocked {
		b.client.transport.log().Warn("headgate: the daemon rejects the requests; the items are kept, and a new key is tried immediately", "code", failed.Code, "error", failed.Message)
	} else if first {
		b.client.transport.log().Warn("headgate: a request failed, retrying", "code", failed.Code, "error", failed.Message)
	}
	b.turn(state, failed.Code)
}

// giveBack gives items back to the program. Called without the lock.
func (b *Batcher) giveBack(entries []*entry, failed *Error) {
	b.mu.Lock()
	first := !b.losing
	b.losing = true
	b.mu.Unlock()
	if first {
		b.client.transport.log().Warn("headgate: items were not accepted; later ones are not logged", "code", failed.Code, "error", failed.Message, "items", len(entries))
	}
	if b.o.OnRejected != nil {
		b.o.OnRejected(raws(entries), failed)
	}
}

// run does steps until the batcher ends, with a rest whenever there is nothing to do.
func (b *Batcher) run(step func() time.Duration, wake <-chan struct{}) {
	defer b.tasks.Done()
	for b.ctx.Err() == nil {
		wait := step()
		if wait <= 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-wake:
		case <-timer.C:
		case <-b.ctx.Done():
		}
		timer.Stop()
	}
}

// end stops the goroutines and hands over what cannot be left in files.
func (b *Batcher) end() {
	b.client.forget(b)
	b.cancel()
	b.tasks.Wait()
	b.mu.Lock()
	b.closed = true
	var left [][]*entry
	if b.spool != nil {
		left = b.keepAll()
	} else {
		if b.hand != nil {
			left = append(left, b.hand.rest())
		}
		for next, _ := b.cut(); next != nil; next, _ = b.cut() {
			left = append(left, next.entries)
		}
	}
	b.hand, b.unwritten = nil, nil
	for _, entries := range left {
		b.stats.Rejected += uint64(len(entries))
	}
	b.tell()
	b.mu.Unlock()
	for _, entries := range left {
		b.giveBack(entries, failure(CodeClosed, "the batcher was closed before a response; the request in flight may have been accepted"))
	}
}

func raws(entries []*entry) []json.RawMessage {
	all := make([]json.RawMessage, len(entries))
	for i, e := range entries {
		all[i] = e.raw
	}
	return all
}
