// Command conformance does what the conformance kit in tests/clients tells it, with the public interface of the package.
//
// What Go leaves to its users is done here as they are told to do it: Close is deferred, with 5 seconds. A zero of
// BatcherOptions is the default in Go; the kit's explicit 0 for max_items becomes -1, which is wrong, too.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"headgate"
)

// line is what the kit says.
type line struct {
	N  int    `json:"n"`
	Op string `json:"op"`
	As string `json:"as"`
	Of string `json:"of"`

	URL              string  `json:"url"`
	Key              string  `json:"key"`
	TimeoutMS        *int64  `json:"timeout_ms"`
	AttemptTimeoutMS int64   `json:"attempt_timeout_ms"`
	BackoffMS        *int64  `json:"backoff_ms"`
	BackoffMaxMS     *int64  `json:"backoff_max_ms"`
	UserAgent        string  `json:"user_agent"`
	SilenceMS        int64   `json:"silence_ms"`
	AdvanceMS        int64   `json:"advance_ms"`
	LingerMS         float64 `json:"linger_ms"`

	Items          []string `json:"items"`
	One            bool     `json:"one"`
	Concurrently   bool     `json:"concurrently"`
	ItemKey        string   `json:"item_key"`
	IdempotencyKey string   `json:"idempotency_key"`
	Stream         string   `json:"stream"`
	ID             string   `json:"id"`

	ConnectorHasItemKey bool   `json:"connector_has_item_key"`
	MaxItems            *int   `json:"max_items"`
	MaxBytes            int    `json:"max_bytes"`
	QueueBytes          int    `json:"queue_bytes"`
	WhenFull            string `json:"when_full"`
	LatestOnly          bool   `json:"latest_only"`
	Spool               string `json:"spool"`

	Page    int      `json:"page"`
	Streams []string `json:"streams"`
	Since   string   `json:"since"`
	Count   int      `json:"count"`
}

type result = map[string]any

// runner has one of each, as the protocol says.
type runner struct {
	client  *headgate.Client
	batcher *headgate.Batcher
	reader  *headgate.Reader
	views   map[string]*headgate.View
	last    string // request id of the last receipt
	advance atomic.Int64

	mu      sync.Mutex // of what follows
	cancels map[string]context.CancelFunc
	events  events
	out     *json.Encoder
}

type events struct {
	Accepted []result `json:"accepted"`
	Rejected []result `json:"rejected"`
	Retries  []result `json:"retries"`
}

func main() {
	r := &runner{views: map[string]*headgate.View{}, cancels: map[string]context.CancelFunc{}, out: json.NewEncoder(os.Stdout)}
	r.out.SetEscapeHTML(false)
	defer r.leave()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			fmt.Fprintln(os.Stderr, "unreadable line:", err)
			os.Exit(2)
		}
		if l.Op == "kill" {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		}
		if l.As == "" {
			r.answer(&l, context.Background())
			if l.Op == "exit" {
				return
			}
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		r.mu.Lock()
		r.cancels[l.As] = cancel
		r.mu.Unlock()
		go r.answer(&l, ctx)
	}
}

// leave is what users are told to write.
func (r *runner) leave() {
	if r.batcher != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		r.batcher.Close(ctx)
	}
}

func (r *runner) answer(l *line, ctx context.Context) {
	ok, err := r.do(l, ctx)
	out := result{"n": l.N}
	if err == nil {
		out["ok"] = ok
	} else {
		shown := describe(err)
		for name, value := range ok {
			shown[name] = value
		}
		out["error"] = shown
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.out.Encode(out)
}

func describe(err error) result {
	text := fmt.Sprintf("%v %+v %#v", err, err, err)
	var e *headgate.Error
	if !errors.As(err, &e) {
		return result{"code": "USAGE", "message": err.Error(), "text": text}
	}
	return result{
		"code": e.Code, "status": status(e), "message": e.Message, "request_id": e.RequestID,
		"details": e.Details, "retryable": e.Retryable, "text": text,
	}
}

// status is null where there was no answer.
func status(e *headgate.Error) any {
	if e.Status == 0 {
		return nil
	}
	return e.Status
}

func (r *runner) do(l *line, ctx context.Context) (result, error) {
	switch l.Op {
	case "client", "reader":
		return r.connect(l)
	case "send", "remove", "request", "wait":
		return r.request(l, ctx)
	case "cancel":
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cancels[l.Of]()
		return result{}, nil
	case "batcher":
		return r.makeBatcher(l)
	case "add":
		return r.add(l, ctx)
	case "flush", "close":
		return r.flush(l, ctx)
	case "stats", "events":
		return r.state(l)
	case "clock":
		r.advance.Add(l.AdvanceMS)
		return result{}, nil
	case "items", "item", "follow":
		return r.read(l, ctx)
	case "view", "viewed", "unview":
		return r.view(l)
	case "show":
		return result{"text": fmt.Sprintf("%v %+v %#v %v %+v %#v %v %+v %#v", r.client, r.client, r.client, r.batcher, r.batcher, r.batcher, r.reader, r.reader, r.reader)}, nil
	case "exit":
		return result{}, nil
	}
	return nil, &headgate.Error{Code: "UNKNOWN_OP", Message: "no such op: " + l.Op}
}

func ms(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

func (r *runner) connect(l *line) (result, error) {
	options := []headgate.Option{
		headgate.WithUserAgent(l.UserAgent),
		headgate.WithClock(func() time.Time { return time.Now().Add(ms(r.advance.Load())) }),
	}
	if l.TimeoutMS != nil {
		options = append(options, headgate.WithTimeout(ms(*l.TimeoutMS)))
	}
	if l.AttemptTimeoutMS > 0 {
		options = append(options, headgate.WithAttemptTimeout(ms(l.AttemptTimeoutMS)))
	}
	if l.SilenceMS > 0 {
		options = append(options, headgate.WithSilence(ms(l.SilenceMS)))
	}
	if l.BackoffMS != nil {
		most := 30 * time.Second
		if l.BackoffMaxMS != nil {
			most = ms(*l.BackoffMaxMS)
		}
		options = append(options, headgate.WithBackoff(ms(*l.BackoffMS), most))
	}
	var err error
	if l.Op == "reader" {
		r.reader, err = headgate.NewReader(l.URL, l.Key, options...)
	} else {
		r.client, err = headgate.New(l.URL, l.Key, options...)
	}
	return result{}, err
}

func (r *runner) makeBatcher(l *line) (result, error) {
	o := headgate.BatcherOptions{
		ItemKey: l.ItemKey, MaxBytes: l.MaxBytes, QueueBytes: l.QueueBytes, LatestOnly: l.LatestOnly, Spool: l.Spool,
		Linger:   time.Duration(l.LingerMS * float64(time.Millisecond)),
		WhenFull: map[string]headgate.WhenFull{"": headgate.Wait, "wait": headgate.Wait, "fail": headgate.Fail, "drop_oldest": headgate.DropOldest}[l.WhenFull],
	}
	if l.ConnectorHasItemKey {
		o.ItemKey = headgate.ConnectorItemKey
	}
	if l.MaxItems != nil {
		o.MaxItems = *l.MaxItems
		if o.MaxItems == 0 {
			o.MaxItems = -1
		}
	}
	r.mu.Lock()
	r.events = events{Accepted: []result{}, Rejected: []result{}, Retries: []result{}}
	r.mu.Unlock()
	o.OnAccepted = func(receipt *headgate.Receipt, items []json.RawMessage) {
		r.note(&r.events.Accepted, result{"items": len(items), "replayed": receipt.Replayed})
	}
	o.OnRejected = func(items []json.RawMessage, e *headgate.Error) {
		r.note(&r.events.Rejected, result{"items": ids(items), "code": e.Code, "status": status(e)})
	}
	o.OnRetry = func(e *headgate.Error, _ time.Duration) {
		r.note(&r.events.Retries, result{"code": e.Code, "status": status(e)})
	}
	batcher, err := r.client.Batcher(o)
	if err == nil {
		r.batcher = batcher
	}
	return result{}, err
}

func (r *runner) note(list *[]result, event result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, event)
}

func ids(items []json.RawMessage) []any {
	all := []any{}
	for _, item := range items {
		var fields struct {
			ID any `json:"id"`
		}
		_ = json.Unmarshal(item, &fields)
		all = append(all, fields.ID)
	}
	return all
}

func (r *runner) state(l *line) (result, error) {
	if l.Op == "events" {
		r.mu.Lock()
		defer r.mu.Unlock()
		return result{"accepted": r.events.Accepted, "rejected": r.events.Rejected, "retries": r.events.Retries}, nil
	}
	s := r.batcher.Stats()
	return result{
		"queued": s.Queued, "in_flight": s.InFlight, "accepted": s.Accepted, "rejected": s.Rejected, "dropped": s.Dropped,
		"replaced": s.Replaced, "retries": s.Retries, "oldest_ms": s.Oldest.Milliseconds(),
	}, nil
}
