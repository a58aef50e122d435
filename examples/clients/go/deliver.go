// The sender of a batcher: one batch after the other, each until it is accepted, refused or too old.

package headgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ageMost is how long a batch is tried. The daemon knows idempotency keys for 24 hours: what it may have taken must not
// come again after that.
const ageMost = 23 * time.Hour

// send is the goroutine that makes requests.
func (b *Batcher) send() {
	defer b.tasks.Done()
	for next := b.next(); next != nil && b.deliver(next); next = b.next() {
	}
}

// next waits for a batch; nil at the end.
func (b *Batcher) next() *batch {
	for {
		b.mu.Lock()
		var next *batch
		wait := time.Hour
		if len(b.pending) > 0 && b.pending[0].ready {
			next = b.unstack()
		} else if b.spool == nil {
			next, wait = b.cut(time.Now())
		}
		if next != nil {
			b.fly(next)
		}
		b.mu.Unlock()
		if next != nil {
			return next
		}
		if !b.rest(b.wake, wait) {
			return nil
		}
	}
}

// rest waits for a signal, or so long; false at the end.
func (b *Batcher) rest(wake <-chan struct{}, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-wake:
	case <-timer.C:
	case <-b.ctx.Done():
	}
	return b.ctx.Err() == nil
}

// deliver settles every item of a batch; false at the end of the batcher: then the rest is still in flight.
func (b *Batcher) deliver(whole *batch) bool {
	for parts := []*batch{whole}; len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		receipt, failed := b.try(part)
		switch {
		case failed == nil:
			b.working()
			if b.o.OnAccepted != nil {
				b.o.OnAccepted(receipt, raws(part.entries))
			}
		case failed.Code == CodeCanceled && b.ctx.Err() != nil:
			return false
		default:
			if smaller := part.divide(failed); smaller != nil {
				parts = append(smaller, parts...)
				continue
			}
			b.hand(part.entries, failed)
		}
		if len(parts) == 0 {
			b.spool.remove(whole)
		}
		b.settle(part, failed == nil)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushTo = max(b.flushTo, b.last) // what gathered goes at once
	b.wakeAll()
	return b.ctx.Err() == nil
}

func (b *Batcher) settle(part *batch, accepted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := uint64(len(part.entries))
	if accepted {
		b.stats.Accepted += count
	} else {
		b.stats.Rejected += count
	}
	b.land(len(part.entries))
}

// try repeats a request, with the same key and the same bytes, until there is a final answer.
func (b *Batcher) try(part *batch) (*Receipt, *Error) {
	t := b.client.transport
	c, err := submission(part.body(), &sendOptions{itemKey: part.itemKey, idempotencyKey: part.key, stream: b.o.Stream})
	if err != nil {
		return nil, own(err)
	}
	var last *Error
	for retry := 0; ; retry++ {
		if age(part.created, t.now()) >= ageMost {
			e := failure(CodeExpired, "the batch was not accepted for 23 hours, and the daemon would not know any more if it had taken it before")
			if last != nil {
				e.Message += "; the last attempt: " + last.Message
			}
			return nil, e
		}
		var r *Receipt
		a, failed := t.attempt(b.ctx, c)
		if failed == nil {
			r, failed = receipt(a)
		}
		if failed == nil {
			return r, nil
		}
		if b.ctx.Err() != nil {
			return nil, ended(context.Canceled, failed)
		}
		if !failed.Retryable {
			return nil, failed
		}
		last = failed
		if !b.pause(failed, t.pauses.before(retry, failed.retryAfter)) {
			return nil, ended(context.Canceled, failed)
		}
	}
}

func (b *Batcher) pause(failed *Error, pause time.Duration) bool {
	b.failing(failed)
	b.mu.Lock()
	b.stats.Retries++
	b.mu.Unlock()
	if b.o.OnRetry != nil {
		b.o.OnRetry(failed, pause)
	}
	return sleep(b.ctx, pause)
}

// age is by whichever clock says more: one stops while the machine sleeps, the other may be set back.
func age(created, now time.Time) time.Duration {
	return max(now.Sub(created), now.Round(0).Sub(created.Round(0)))
}

// divide makes smaller batches of one that was refused: what the answer names stands alone, or else it is halved. Nil if
// that is no use.
func (b *batch) divide(failed *Error) []*batch {
	if (failed.Status != 400 && failed.Status != 413) || len(b.entries) < 2 {
		return nil
	}
	alone := map[int]bool{}
	for _, detail := range failed.Details {
		if detail.Item != nil && *detail.Item >= 0 && *detail.Item < len(b.entries) {
			alone[*detail.Item] = true
		}
	}
	if len(alone) == 0 {
		half := len(b.entries) / 2
		return []*batch{b.part(0, half), b.part(half, len(b.entries))}
	}
	var parts []*batch
	from := 0
	for i := range b.entries {
		if !alone[i] {
			continue
		}
		if from < i {
			parts = append(parts, b.part(from, i))
		}
		parts = append(parts, b.part(i, i+1))
		from = i + 1
	}
	if from < len(b.entries) {
		parts = append(parts, b.part(from, len(b.entries)))
	}
	return parts
}

// part is a batch of its own, with a key of its own, as old as the whole: the file that holds both is. Whenever the same
// part is cut out of the same batch, it has the same key: what was accepted before a crash is known when the batch comes
// from its file again.
func (b *batch) part(from, to int) *batch {
	whole, offset := b.whole, b.offset+from
	if whole == "" {
		whole = b.key
	}
	return &batch{key: fmt.Sprintf("%s/%d/%d", whole, offset, to-from), itemKey: b.itemKey, created: b.created, entries: b.entries[from:to], whole: whole, offset: offset}
}

// end stops the goroutines and hands over, or leaves in files, what is still there.
func (b *Batcher) end() {
	b.cancel()
	b.tasks.Wait()
	b.mu.Lock()
	left := [][]*entry{b.flight, nil}
	if b.spool != nil {
		left = [][]*entry{b.keepAll()}
	} else {
		left[1] = b.queue.pop(len(b.queue.entries))
	}
	b.flight, b.pending, b.spooled = nil, nil, 0
	for _, entries := range left {
		b.stats.Rejected += uint64(len(entries))
	}
	b.tell()
	b.mu.Unlock()
	b.spool.close()
	for _, entries := range left {
		if len(entries) > 0 {
			b.hand(entries, failure(CodeClosed, "the batcher was closed before an answer came; what was in flight may have been accepted"))
		}
	}
}

// hand gives items back to the program. Called without the lock.
func (b *Batcher) hand(entries []*entry, failed *Error) {
	if b.first(&b.losing) {
		b.client.transport.log().Warn("headgate: items were not accepted; further ones are not logged until some are", "code", failed.Code, "error", failed.Message, "items", len(entries))
	}
	if b.o.OnRejected != nil {
		b.o.OnRejected(raws(entries), failed)
	}
}

// failing and working write the log: the first failure, and the recovery.
func (b *Batcher) failing(failed *Error) {
	if b.first(&b.troubled) {
		b.client.transport.log().Warn("headgate: a request failed and is tried again", "code", failed.Code, "error", failed.Message)
	}
}

func (b *Batcher) working() {
	b.mu.Lock()
	recovered := b.troubled
	b.troubled, b.losing = false, false
	b.mu.Unlock()
	if recovered {
		b.client.transport.log().Warn("headgate: requests are accepted again")
	}
}

// first sets a flag, and says whether it was not set.
func (b *Batcher) first(said *bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := *said
	*said = true
	return !was
}

func raws(entries []*entry) []json.RawMessage {
	all := make([]json.RawMessage, len(entries))
	for i, e := range entries {
		all[i] = e.raw
	}
	return all
}

// own is the error of this package in another one.
func own(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return failure(CodeInvalidPayload, "%v", err)
}
