// The batcher: what callers see of it.

package headgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// What Add does when the queue is full.
type WhenFull int

const (
	// Wait waits for room.
	Wait WhenFull = iota
	// Fail returns an error with the code FULL.
	Fail
	// DropOldest gives up what waits longest; it is handed to OnRejected with the code DROPPED.
	DropOldest
)

// ConnectorItemKey, as BatcherOptions.ItemKey, says that the connector has an item_key in the daemon's configuration.
const ConnectorItemKey = "\x00connector"

// BatcherOptions says how a [Batcher] works. Zero values are the defaults.
type BatcherOptions struct {
	// ItemKey names the field that identifies each item, or is [ConnectorItemKey]. It is demanded: without either, items
	// are known by their position in a request, and the second batch would overwrite the first.
	ItemKey string
	// Stream is the stream that the key is believed to have: if it has another, requests are refused.
	Stream string
	// MaxItems of a batch; 1,000.
	MaxItems int
	// MaxBytes of a request with several items; 1,000,000.
	MaxBytes int
	// Linger is how long an item waits for others; 100 ms. What gathers while a request is on its way goes at once when
	// that is answered.
	Linger time.Duration
	// QueueBytes is how much may wait; 16 MiB. An item that is longer than all of it is let in alone.
	QueueBytes int
	// WhenFull says what Add does then; Wait.
	WhenFull WhenFull
	// LatestOnly replaces an item that waits by a newer one of the same key, in its place: for sensors and scores.
	LatestOnly bool
	// Spool is a folder for batches: what was added longer ago than Linger survives a crash, and is sent by the next
	// batcher with the folder. One batcher a folder. It is made if it is missing.
	Spool string
	// OnAccepted is called for each accepted request, with its items.
	OnAccepted func(*Receipt, []json.RawMessage)
	// OnRejected is called for items that will not be sent any more.
	OnRejected func([]json.RawMessage, *Error)
	// OnRetry is called before a request is repeated, with the pause until then; and with CodeSpool before a file is
	// written again, by a goroutine of its own.
	OnRetry func(*Error, time.Duration)
}

// Batcher joins items into requests and sends them in the background, in order, one request at a time. It may be used by
// many goroutines at once. What it holds is in memory: a crash, or a main that returns without [Batcher.Close], loses it,
// unless it has a spool.
//
// Its callbacks are called one after the other, before Flush returns for their items. They must not call Flush or Close,
// nor Add of the same batcher where that may wait for room.
type Batcher struct {
	client *Client
	o      BatcherOptions
	ctx    context.Context // ends with the batcher
	cancel context.CancelFunc
	spool  *spool // nil without one
	tasks  sync.WaitGroup
	ending sync.Once

	mu      sync.Mutex
	queue   queue
	pending []*batch // cut, and in files; without a spool a batch is cut when it is sent
	spooled int      // bytes of those
	flight  []*entry // of its items those that are not settled
	last    uint64   // number of the newest item
	flushTo uint64   // up to this item, nothing waits for others
	closed  bool
	stats   Stats
	changed chan struct{} // closed at every change that somebody may wait for
	wake    chan struct{} // for the sender
	wakeCut chan struct{} // for who writes files

	troubled, losing bool // the log has been told
}

// Stats are what a batcher has and had.
type Stats struct {
	// Queued items wait, InFlight items are in the request that is on its way.
	Queued, InFlight int
	// Accepted and Rejected items, since the batcher was made. Dropped are those of the rejected that had to make room.
	Accepted, Rejected, Dropped uint64
	// Replaced items were overtaken by newer ones (LatestOnly).
	Replaced uint64
	// Retries are repeated requests.
	Retries uint64
	// Oldest is how long the oldest item has been here; 0 if there is none.
	Oldest time.Duration
}

// Flushed is what Flush and Close found at their end.
type Flushed struct {
	// Done says that everything added before was accepted or rejected.
	Done bool
	// Queued and InFlight items were not, when the time was over.
	Queued, InFlight int
}

// Batcher starts one. An error is about its options, or its spool.
func (c *Client) Batcher(o BatcherOptions) (*Batcher, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &Batcher{
		client: c, o: o, ctx: ctx, cancel: cancel,
		queue:   newQueue(o.LatestOnly),
		changed: make(chan struct{}),
		wake:    make(chan struct{}, 1),
		wakeCut: make(chan struct{}, 1),
	}
	if o.Spool != "" {
		if err := b.openSpool(); err != nil {
			cancel()
			return nil, err
		}
		b.tasks.Add(1)
		go b.writeFiles()
	}
	b.tasks.Add(1)
	go b.send()
	return b, nil
}

func (o *BatcherOptions) check() error {
	if o.ItemKey == "" {
		return errors.New("headgate: a batcher needs ItemKey, the field that identifies each item; if the connector has one in its configuration, say ConnectorItemKey")
	}
	if o.ItemKey == ConnectorItemKey {
		if o.LatestOnly {
			return errors.New("headgate: LatestOnly needs ItemKey, to know which items are the same")
		}
	} else if err := fieldName(o.ItemKey); err != nil {
		return err
	}
	if o.WhenFull < Wait || o.WhenFull > DropOldest {
		return fmt.Errorf("headgate: WhenFull is Wait, Fail or DropOldest")
	}
	if o.MaxItems < 0 || o.MaxBytes < 0 || o.Linger < 0 || o.QueueBytes < 0 || o.MaxBytes > requestBytesMost {
		return fmt.Errorf("headgate: limits of a batcher are positive, and MaxBytes is at most %d", requestBytesMost)
	}
	orDefault(&o.MaxItems, 1000)
	orDefault(&o.MaxBytes, 1_000_000)
	orDefault(&o.QueueBytes, 16<<20)
	orDefault(&o.Linger, 100*time.Millisecond)
	return nil
}

func orDefault[T int | time.Duration](value *T, other T) {
	if *value == 0 {
		*value = other
	}
}

// Add puts an item into the queue. It is encoded here, so that one that cannot be sent fails here. If the queue is full,
// it waits, unless the options say otherwise.
func (b *Batcher) Add(ctx context.Context, item any) error {
	e, err := b.entry(item)
	if err != nil {
		return err
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return failure(CodeClosed, "the batcher is closed")
	}
	if b.queue.takes(e, b.o.QueueBytes, b.spooled) {
		b.put(e)
		b.mu.Unlock()
		return nil
	}
	switch b.o.WhenFull {
	case Fail:
		b.mu.Unlock()
		e := failure(CodeFull, "the queue is full: %d bytes wait", b.o.QueueBytes)
		e.Retryable = true
		return e
	case DropOldest:
		dropped := b.makeRoom(e)
		b.put(e)
		b.mu.Unlock()
		b.drop(dropped)
		return nil
	}
	w := b.queue.line(e)
	b.mu.Unlock()
	return b.waitForRoom(ctx, w)
}

// entry encodes an item and finds its key.
func (b *Batcher) entry(item any) (*entry, error) {
	raw, err := encode(item)
	if err != nil {
		return nil, err
	}
	if raw[0] != '{' {
		return nil, failure(CodeInvalidPayload, "an item must be an object; this is %s as JSON", kind(raw))
	}
	e := &entry{raw: raw}
	if b.o.ItemKey != ConnectorItemKey {
		key, err := keyOf(raw, b.o.ItemKey)
		if err != nil {
			return nil, err
		}
		e.key = key
	}
	if len(raw)+2 > requestBytesMost {
		return nil, failure(CodeTooLarge, "%s takes %d bytes, and a request has at most %d with its brackets", named(e.key), len(raw), requestBytesMost)
	}
	return e, nil
}

func (b *Batcher) waitForRoom(ctx context.Context, w *waiter) error {
	select {
	case <-w.done:
	case <-ctx.Done():
		b.mu.Lock()
		if b.queue.leave(w) {
			b.admit()
			b.mu.Unlock()
			return ended(ctx.Err(), nil)
		}
		b.mu.Unlock()
		<-w.done
	}
	if w.closed {
		return failure(CodeClosed, "the batcher was closed while the item waited for room")
	}
	return nil
}

// Flush returns when everything added before is accepted or rejected, or when the context ends: what is said then is how
// much is not. It does not wait for the linger.
func (b *Batcher) Flush(ctx context.Context) Flushed {
	b.mu.Lock()
	target := b.last
	b.flushTo = target
	b.wakeAll()
	for b.open(target) {
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
			b.mu.Lock()
		case <-ctx.Done():
			b.mu.Lock()
			defer b.mu.Unlock()
			if !b.open(target) {
				return Flushed{Done: true}
			}
			return Flushed{Queued: b.queued(), InFlight: len(b.flight)}
		}
	}
	b.mu.Unlock()
	return Flushed{Done: true}
}

// Close flushes until the context ends, then stops. What is still there is handed to OnRejected with the code CLOSED; with
// a spool it stays in its files. From the beginning of Close on, Add fails with the code CLOSED. Give it a context with
// a deadline: a daemon that is away for hours is otherwise waited for.
func (b *Batcher) Close(ctx context.Context) Flushed {
	b.mu.Lock()
	b.closed = true
	for _, w := range b.queue.dismiss() {
		w.closed = true
		close(w.done)
	}
	b.mu.Unlock()
	flushed := b.Flush(ctx)
	b.ending.Do(b.end)
	return flushed
}

// Stats are those of this moment.
func (b *Batcher) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Queued, s.InFlight = b.queued(), len(b.flight)
	if oldest := b.oldest(); oldest != nil {
		s.Oldest = max(time.Since(oldest.at), 1)
	}
	return s
}

// String names what it is, and not the key.
func (b *Batcher) String() string {
	s := b.Stats()
	return fmt.Sprintf("headgate.Batcher(%s, %d queued, %d in flight)", b.client.transport.shown, s.Queued, s.InFlight)
}
