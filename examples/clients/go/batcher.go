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

// WhenFull is what Add does when the queue is full.
type WhenFull int

const (
	// Wait waits for room.
	Wait WhenFull = iota
	// Fail returns an error with the code FULL.
	Fail
	// DropOldest drops the oldest item, which OnRejected receives with the code DROPPED. Not with a spool.
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
	// QueueBytes is how much may wait in memory; 16 MiB. An item that exceeds it is accepted alone.
	QueueBytes int
	// WhenFull says what Add does then; Wait.
	WhenFull WhenFull
	// LatestOnly replaces an item that waits by a newer one of the same key, in its place: for sensors and scores.
	LatestOnly bool
	// Spool is a folder that is the queue: what was added longer ago than Linger (a second, while older items wait) survives
	// a crash, and is sent by the next batcher with the folder. One batcher a folder. It is created if it is missing.
	Spool string
	// SpoolBytes is how much the folder may have; 1 GiB. A file counts 4 KiB at least. What is given up may have a tenth of
	// that beside it.
	SpoolBytes int64
	// OnAccepted is called for each accepted request, with its items.
	OnAccepted func(*Receipt, []json.RawMessage)
	// OnRejected is called for items that will not be sent any more: Headgate refused them, or the code of the error says
	// why else. With a spool they are kept in its folder rejected.
	OnRejected func([]json.RawMessage, *Error)
	// OnState is called when the state is another one, or its code, which is that of the last error: see [State]. With
	// [CodeSpool] it tells of a disk that takes nothing, whatever the state is; items are held in memory then, by a goroutine
	// of its own.
	OnState func(State, string)
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

	mu        sync.Mutex
	queue     queue
	unwritten *batch    // cut, and in no file yet
	files     []spooled // on disk, in order, but for the one in hand
	used      int64     // room of the files, with the one in hand
	hand      *hand     // being sent
	bytesMost int       // of a request
	stream    string    // the key's, if that is known
	last      uint64    // number of the newest item
	flushTo   uint64    // up to this item, nothing waits for others
	closed    bool
	lost      bool // another program took the folder

	state     State
	code      string
	since     time.Time
	failures  int           // in a row
	notBefore time.Duration // when the next attempt may be

	stats     Stats
	losing    bool          // the log has been told of lost items
	diskFails bool          // and the program of a disk that takes nothing
	changed   chan struct{} // closed at every change that somebody may wait for
	wake      chan struct{} // for the sender
	wakeCut   chan struct{} // for who writes files
}

// Stats are what a batcher has and had.
type Stats struct {
	// Queued items wait in memory, InFlight items are in the batch that is being sent.
	Queued, InFlight int
	// Spooled batches wait on disk, and take SpooledBytes. How many items they have is known when they are read.
	Spooled      int
	SpooledBytes int64
	// Accepted and Rejected items, since the batcher was made. Dropped are those of the rejected that had to make room.
	Accepted, Rejected, Dropped uint64
	// Replaced items were overtaken by newer ones (LatestOnly).
	Replaced uint64
	// Retries are repeated requests.
	Retries uint64
	// Damaged files were set aside. Forgotten are files of refused items that had to make room for newer ones.
	Damaged, Forgotten uint64
	// Oldest is how long the oldest item in memory has been here; 0 if there is none.
	Oldest time.Duration
	// State is how the batcher stands to Headgate, Code that of the last error if it is not OK, Since when it began.
	State State
	Code  string
	Since time.Time
}

// Flushed is what Flush and Close found at their end.
type Flushed struct {
	// Done says that everything added before was accepted or rejected.
	Done bool
	// Queued and InFlight items were not, when the time was over, and Spooled batches, which stay in the spool.
	Queued, InFlight, Spooled int
	// State and Code say why, if it was not OK.
	State State
	Code  string
}

// Batcher starts one. An error is about its options, or its spool.
func (c *Client) Batcher(o BatcherOptions) (*Batcher, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	b, err := c.batcher(o)
	if err != nil {
		return nil, err
	}
	if b.spool != nil {
		b.tasks.Add(2)
		go b.run(b.writeStep, b.wakeCut)
		go b.run(b.lookStep, nil)
	}
	b.tasks.Add(1)
	go b.run(b.sendStep, b.wake)
	return b, nil
}

// batcher is one whose steps nobody does yet.
func (c *Client) batcher(o BatcherOptions) (*Batcher, error) {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Batcher{
		client: c, o: o, ctx: ctx, cancel: cancel,
		queue:     newQueue(o.LatestOnly),
		bytesMost: o.MaxBytes,
		state:     OK,
		changed:   make(chan struct{}),
		wake:      make(chan struct{}, 1),
		wakeCut:   make(chan struct{}, 1),
	}
	if o.Spool != "" {
		if err := b.openSpool(); err != nil {
			cancel()
			return nil, err
		}
	}
	c.mu.Lock()
	c.batchers[b] = struct{}{}
	c.mu.Unlock()
	return b, nil
}

func (c *Client) forget(b *Batcher) {
	c.mu.Lock()
	delete(c.batchers, b)
	c.mu.Unlock()
}

func (o *BatcherOptions) check() error {
	if o.ItemKey == "" {
		return errors.New("headgate: ItemKey is missing; set the field that identifies each item, or ConnectorItemKey if the connector has an item key")
	}
	if o.ItemKey == ConnectorItemKey {
		if o.LatestOnly {
			return errors.New("headgate: LatestOnly requires ItemKey; set it")
		}
	} else if err := fieldName(o.ItemKey); err != nil {
		return err
	}
	if o.WhenFull < Wait || o.WhenFull > DropOldest {
		return fmt.Errorf("headgate: WhenFull is Wait, Fail or DropOldest")
	}
	if o.WhenFull == DropOldest && o.Spool != "" {
		return errors.New("headgate: DropOldest is not allowed with a spool; use Wait or Fail")
	}
	if o.MaxItems < 0 || o.MaxBytes < 0 || o.Linger < 0 || o.QueueBytes < 0 || o.SpoolBytes < 0 || o.MaxBytes > requestBytesMost {
		return fmt.Errorf("headgate: limits of a batcher must be positive, and MaxBytes at most %d", requestBytesMost)
	}
	orDefault(&o.MaxItems, 1000)
	orDefault(&o.MaxBytes, 1_000_000)
	orDefault(&o.QueueBytes, 16<<20)
	orDefault(&o.SpoolBytes, 1<<30)
	orDefault(&o.Linger, 100*time.Millisecond)
	return nil
}

func orDefault[T int | int64 | time.Duration](value *T, other T) {
	if *value == 0 {
		*value = other
	}
}

// Add adds an item to the queue, and fails if the item cannot be sent. If the queue is full,
// it waits, unless `WhenFull` is set.
func (b *Batcher) Add(ctx context.Context, item any) error {
	e, err := b.entry(item)
	if err != nil {
		return err
	}
	b.mu.Lock()
	if b.closed {
		defer b.mu.Unlock()
		if b.lost {
			return spoolInUse(b.o.Spool, "another program")
		}
		return failure(CodeClosed, "the batcher is closed")
	}
	if b.takes(e) {
		b.put(e)
		b.mu.Unlock()
		return nil
	}
	switch b.o.WhenFull {
	case Fail:
		defer b.mu.Unlock()
		e := failure(CodeFull, "the queue is full: %d bytes wait in memory, %d in the spool", b.queue.bytes+b.unwrittenBytes(), b.used)
		e.Retryable = true
		return e
	case DropOldest:
		dropped := b.makeRoom(e)
		b.put(e)
		b.mu.Unlock()
		for _, one := range dropped {
			b.giveBack([]*entry{one}, failure(CodeDropped, "the queue was full, so %s, the oldest, was dropped", named(one.key)))
		}
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
		return nil, failure(CodeTooLarge, "%s takes %d bytes, but a request can have at most %d with its brackets", named(e.key), len(raw), requestBytesMost)
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
		return failure(CodeClosed, "the batcher was closed while the item waited for space in the queue")
	}
	return nil
}

// Flush returns when everything added before is accepted or rejected, and what an earlier life left in the spool, or when
// the context ends: what is said then is how much is not. It does not wait for the linger.
func (b *Batcher) Flush(ctx context.Context) Flushed {
	b.mu.Lock()
	defer b.mu.Unlock()
	target := b.hurry()
	for b.open(target) && ctx.Err() == nil && b.ctx.Err() == nil {
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-b.ctx.Done():
		}
		b.mu.Lock()
	}
	return b.flushed(target)
}

// hurry has everything that is there sent without waiting for more, and says which item is the newest of it.
func (b *Batcher) hurry() uint64 {
	b.flushTo = b.last
	b.wakeAll()
	return b.last
}

func (b *Batcher) flushed(target uint64) Flushed {
	f := Flushed{Done: !b.open(target), State: b.state, Code: b.code}
	if !f.Done {
		f.Queued, f.InFlight, f.Spooled = b.queued(), b.inFlight(), len(b.files)
	}
	return f
}

// Close flushes until the context ends, then stops. What is still there stays in the spool; without one, or if it could not
// be written, it is handed to OnRejected with the code CLOSED. From the beginning of Close on, Add fails with the code
// CLOSED. Give it a context with a deadline: a daemon that is away for hours is otherwise waited for.
func (b *Batcher) Close(ctx context.Context) Flushed {
	b.shut()
	flushed := b.Flush(ctx)
	b.ending.Do(b.end)
	b.mu.Lock()
	defer b.mu.Unlock()
	flushed.Spooled = len(b.files)
	return flushed
}

// shut lets no more items in.
func (b *Batcher) shut() {
	b.mu.Lock()
	b.closed = true
	for _, w := range b.queue.dismiss() {
		w.closed = true
		close(w.done)
	}
	b.mu.Unlock()
}

// lookStep stops the batcher if another program took the folder over. What is in memory is written by Close all the same:
// what must not be lost does not depend on who owns the folder.
func (b *Batcher) lookStep() time.Duration {
	if b.spool.owner.holds() {
		return ownerLook
	}
	b.client.transport.log().Warn("headgate: another program now uses the spool, so this batcher stops", "folder", b.o.Spool)
	b.mu.Lock()
	b.lost = true
	b.mu.Unlock()
	b.shut()
	b.cancel()
	if b.o.OnState != nil {
		b.o.OnState(Blocked, CodeSpoolInUse)
	}
	return ownerLook
}

// Stats are those of this moment.
func (b *Batcher) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Queued, s.InFlight, s.State, s.Code, s.Since = b.queued(), b.inFlight(), b.state, b.code, b.since
	s.Spooled, s.SpooledBytes = len(b.files), b.used
	if b.hand != nil {
		s.SpooledBytes -= b.hand.room
	}
	if oldest, ok := b.oldestAt(); ok {
		s.Oldest = max(b.client.transport.lived()-oldest, 1)
	}
	return s
}

// String names what it is, and not the key.
func (b *Batcher) String() string {
	s := b.Stats()
	return fmt.Sprintf("headgate.Batcher(%s, %d queued, %d in flight)", b.client.transport.shown, s.Queued, s.InFlight)
}
