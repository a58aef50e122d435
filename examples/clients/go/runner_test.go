// The runner of the conformance kit in tests/clients: `go test -c -o runner . && ./runner conformance`.
//
// Cases are run with the public interface of the package, verdicts and scripts with what it has inside; so it is built as
// a test. What Go leaves to its users is done as they are told to do it: Close is deferred, with 5 seconds. A zero of
// BatcherOptions is the default in Go; the kit's explicit 0 for max_items becomes -1, which is wrong, too.

package headgate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// command is a line of the kit.
type command struct {
	N  int    `json:"n"`
	Op string `json:"op"`
	As string `json:"as"`
	Of string `json:"of"`

	URL              string   `json:"url"`
	Key              string   `json:"key"`
	TimeoutMS        *float64 `json:"timeout_ms"`
	AttemptTimeoutMS float64  `json:"attempt_timeout_ms"`
	BackoffMS        *float64 `json:"backoff_ms"`
	BackoffMaxMS     *float64 `json:"backoff_max_ms"`
	UserAgent        string   `json:"user_agent"`
	SilenceMS        float64  `json:"silence_ms"`
	WallMS           float64  `json:"wall_ms"`
	MonoMS           float64  `json:"mono_ms"`
	MS               float64  `json:"ms"`
	Failures         int      `json:"failures"`
	Full             bool     `json:"full"`
	LingerMS         float64  `json:"linger_ms"`

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
	SpoolBytes          int64  `json:"spool_bytes"`

	Page    int      `json:"page"`
	Streams []string `json:"streams"`
	Since   string   `json:"since"`
	Count   int      `json:"count"`
}

type result = map[string]any

// runner has one of each, as the protocol says.
type runner struct {
	client  *Client
	batcher *Batcher
	reader  *Reader
	views   map[string]*View
	last    string   // request id of the last receipt
	virtual *virtual // of a script
	in      *bufio.Scanner

	mu      sync.Mutex // of what follows
	cancels map[string]context.CancelFunc
	events  noted
	out     *json.Encoder
}

type noted struct {
	Accepted []result `json:"accepted"`
	Rejected []result `json:"rejected"`
	States   []any    `json:"states"`
}

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "conformance" {
		runConformance()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runConformance() {
	r := &runner{views: map[string]*View{}, cancels: map[string]context.CancelFunc{}, out: json.NewEncoder(os.Stdout)}
	r.out.SetEscapeHTML(false)
	defer r.leave()
	r.in = bufio.NewScanner(os.Stdin)
	r.in.Buffer(nil, 64<<20)
	for r.in.Scan() {
		var l command
		if err := json.Unmarshal(r.in.Bytes(), &l); err != nil {
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
	if r.batcher != nil && r.virtual == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		r.batcher.Close(ctx)
	}
}

func (r *runner) answer(l *command, ctx context.Context) {
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
	var e *Error
	if !errors.As(err, &e) {
		return result{"code": "USAGE", "message": err.Error(), "text": text}
	}
	return result{
		"code": e.Code, "status": status(e), "message": e.Message, "request_id": e.RequestID,
		"details": e.Details, "retryable": e.Retryable, "text": text,
	}
}

// status is null where there was no answer.
func status(e *Error) any {
	if e.Status == 0 {
		return nil
	}
	return e.Status
}

func (r *runner) do(l *command, ctx context.Context) (result, error) {
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
	case "set_key":
		return result{}, r.client.SetKey(l.Key)
	case "attempt":
		return r.attempt(l)
	case "open", "pass", "wall", "disk":
		return r.script(l)
	case "items", "item", "follow":
		return r.read(l, ctx)
	case "view", "viewed", "unview":
		return r.view(l)
	case "show":
		return result{"text": fmt.Sprintf("%v %+v %#v %v %+v %#v %v %+v %#v", r.client, r.client, r.client, r.batcher, r.batcher, r.batcher, r.reader, r.reader, r.reader)}, nil
	case "exit":
		return result{}, nil
	}
	return nil, &Error{Code: "UNKNOWN_OP", Message: "no such op: " + l.Op}
}

func ms(count float64) time.Duration { return time.Duration(count * float64(time.Millisecond)) }

func (r *runner) connect(l *command) (result, error) {
	options := []Option{
		WithUserAgent(l.UserAgent),
	}
	if l.TimeoutMS != nil {
		options = append(options, WithTimeout(ms(*l.TimeoutMS)))
	}
	if l.AttemptTimeoutMS > 0 {
		options = append(options, WithAttemptTimeout(ms(l.AttemptTimeoutMS)))
	}
	if l.SilenceMS > 0 {
		options = append(options, WithSilence(ms(l.SilenceMS)))
	}
	if l.BackoffMS != nil {
		most := 30 * time.Second
		if l.BackoffMaxMS != nil {
			most = ms(*l.BackoffMaxMS)
		}
		options = append(options, WithBackoff(ms(*l.BackoffMS), most))
	}
	var err error
	if l.Op == "reader" {
		r.reader, err = NewReader(l.URL, l.Key, options...)
	} else {
		r.client, err = New(l.URL, l.Key, options...)
	}
	return result{}, err
}

func (r *runner) makeBatcher(l *command) (result, error) {
	r.virtual = nil
	batcher, err := r.client.Batcher(r.options(l))
	if err == nil {
		r.batcher = batcher
	}
	return result{}, err
}

// options are those of a command, with callbacks that note what they are told.
func (r *runner) options(l *command) BatcherOptions {
	o := BatcherOptions{
		ItemKey: l.ItemKey, MaxBytes: l.MaxBytes, QueueBytes: l.QueueBytes, LatestOnly: l.LatestOnly,
		Spool: l.Spool, SpoolBytes: l.SpoolBytes,
		Linger:   ms(l.LingerMS),
		WhenFull: map[string]WhenFull{"": Wait, "wait": Wait, "fail": Fail, "drop_oldest": DropOldest}[l.WhenFull],
	}
	if l.ConnectorHasItemKey {
		o.ItemKey = ConnectorItemKey
	}
	if l.MaxItems != nil {
		o.MaxItems = *l.MaxItems
		if o.MaxItems == 0 {
			o.MaxItems = -1
		}
	}
	r.mu.Lock()
	r.events = noted{Accepted: []result{}, Rejected: []result{}, States: []any{}}
	r.mu.Unlock()
	o.OnAccepted = func(receipt *Receipt, items []json.RawMessage) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events.Accepted = append(r.events.Accepted, result{"items": len(items), "replayed": receipt.Replayed})
		r.tell("accepted", len(items), receipt.Replayed)
	}
	o.OnRejected = func(items []json.RawMessage, e *Error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events.Rejected = append(r.events.Rejected, result{"items": ids(items), "code": e.Code, "status": status(e)})
		r.tell("rejected", e.Code, ids(items))
	}
	o.OnState = func(state State, code string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events.States = append(r.events.States, []any{state, orNull(code)})
		r.tell("state", state, orNull(code))
	}
	return o
}

// tell writes an event of a script.
func (r *runner) tell(event ...any) {
	if r.virtual != nil {
		_ = r.out.Encode(result{"event": event})
	}
}

func orNull(code string) any {
	if code == "" {
		return nil
	}
	return code
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

func (r *runner) state(l *command) (result, error) {
	if l.Op == "events" {
		r.mu.Lock()
		defer r.mu.Unlock()
		return result{"accepted": r.events.Accepted, "rejected": r.events.Rejected, "states": r.events.States}, nil
	}
	s := r.batcher.Stats()
	return result{
		"queued": s.Queued, "in_flight": s.InFlight, "accepted": s.Accepted, "rejected": s.Rejected, "dropped": s.Dropped,
		"replaced": s.Replaced, "retries": s.Retries, "spooled": s.Spooled, "spooled_bytes": s.SpooledBytes, "damaged": s.Damaged,
		"state": s.State, "code": orNull(s.Code), "oldest_ms": s.Oldest.Milliseconds(),
	}, nil
}
