// Verdicts and scripts: what the kit asks of the inside. A script runs in virtual time, without goroutines: its steps are
// done here, in the order of the times at which they are due.

package headgate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/textproto"
	"syscall"
	"time"
)

// virtual is the world of a script: clocks that only the kit moves.
type virtual struct {
	runner     *runner
	batcher    *Batcher
	wall, mono time.Duration // since 1970, and since anything
	full       bool
}

func (r *runner) script(l *command) (result, error) {
	switch l.Op {
	case "open":
		return r.open(l)
	case "pass":
		r.virtual.until(r.virtual.mono+ms(l.MS), func() bool { return false })
	case "wall":
		r.virtual.wall += ms(l.MS)
	case "disk":
		r.virtual.full = l.Full
	}
	return result{}, nil
}

func (r *runner) open(l *command) (result, error) {
	client, err := New("http://127.0.0.1:1", l.Key)
	if err != nil {
		return nil, err
	}
	v := &virtual{runner: r, wall: ms(l.WallMS), mono: ms(l.MonoMS)}
	t := client.transport
	t.now = func() time.Time { return time.UnixMilli(v.wall.Milliseconds()) }
	t.lived = func() time.Duration { return v.mono }
	t.draw = func() float64 { return 1 }
	t.exchange = func(_ context.Context, c call) reply { return v.ask(c) }
	o := r.options(l)
	if err := o.check(); err != nil {
		return nil, err
	}
	b, err := client.batcher(o)
	if err != nil {
		return nil, err
	}
	if b.spool != nil {
		b.spool.full = func() error {
			if v.full {
				return syscall.ENOSPC
			}
			return nil
		}
	}
	v.batcher = b
	r.client, r.batcher, r.virtual = client, b, v
	return result{}, nil
}

// until does everything that is due until then, to its end, or until something is done.
func (v *virtual) until(end time.Duration, done func() bool) {
	b := v.batcher
	for !done() {
		wait := forever
		if b.spool != nil {
			if wait = b.writeStep(); wait <= 0 {
				continue
			}
		}
		// What is due together is cut and written before one is sent.
		next := b.sendStep()
		if next <= 0 {
			continue
		}
		if wait = min(wait, next); v.mono+wait > end {
			v.move(end)
			return
		}
		v.move(v.mono + wait)
	}
}

func (v *virtual) move(to time.Duration) {
	v.wall += to - v.mono
	v.mono = to
}

// flush does both: a batcher that is closed ends at its timeout.
func (v *virtual) flush(l *command) Flushed {
	b, end := v.batcher, v.mono+forever
	if l.TimeoutMS != nil {
		end = v.mono + ms(*l.TimeoutMS)
	}
	if l.Op == "close" {
		b.shut()
	}
	b.mu.Lock()
	target := b.hurry()
	b.mu.Unlock()
	open := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.open(target)
	}
	v.until(end, func() bool { return !open() })
	b.mu.Lock()
	f := b.flushed(target)
	b.mu.Unlock()
	if l.Op == "close" {
		b.ending.Do(b.end)
		f.Spooled = len(b.files)
	}
	return f
}

// toldAnswer is the kit's answer to an attempt.
type toldAnswer struct {
	Answer struct {
		Status  int         `json:"status"`
		Headers [][2]string `json:"headers"`
		Body    string      `json:"body"`
		No      string      `json:"no"`
		SetKey  string      `json:"set_key"`
	} `json:"answer"`
}

// ask has the kit say what comes of an attempt.
func (v *virtual) ask(c call) reply {
	r := v.runner
	r.mu.Lock()
	_ = r.out.Encode(result{"ask": result{
		"at_ms": v.mono.Milliseconds(), "key": c.header["Idempotency-Key"], "auth": r.client.transport.key().text,
		"path": c.path, "body": string(c.body),
	}})
	r.mu.Unlock()
	var told toldAnswer
	if !r.in.Scan() || json.Unmarshal(r.in.Bytes(), &told) != nil {
		panic("the kit does not answer")
	}
	if told.Answer.SetKey != "" {
		_ = r.client.SetKey(told.Answer.SetKey)
	}
	switch no := told.Answer.No; no {
	case "":
	case "connection":
		return reply{failed: broken(errors.New("connection refused"))}
	case "timeout":
		return reply{failed: broken(context.DeadlineExceeded), left: true}
	case "too_long":
		e := failure(CodeUnexpectedAnswer, "the answer is too long")
		e.Retryable = true
		return reply{failed: e, left: true}
	default:
		return reply{failed: broken(errors.New(no)), left: true}
	}
	a := &answer{status: told.Answer.Status, header: http.Header{}, body: []byte(told.Answer.Body)}
	for _, pair := range told.Answer.Headers {
		name := textproto.CanonicalMIMEHeaderKey(pair[0])
		a.header[name] = append(a.header[name], pair[1])
	}
	return reply{answer: a}
}

// attempt makes one request as a batcher does, and says how the answer is judged.
func (r *runner) attempt(l *command) (result, error) {
	t := r.client.transport
	t.now = func() time.Time { return time.UnixMilli(int64(l.WallMS)) }
	body := []byte("[")
	for i, item := range l.Items {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, item...)
	}
	c, err := submission(append(body, ']'), &sendOptions{itemKey: "id", idempotencyKey: newUUID(time.Now())})
	if err != nil {
		return nil, err
	}
	o := judge(t.exchange(context.Background(), c), len(l.Items), t.now())
	found := result{"kind": o.kind, "unknown": o.unknown, "shrink": o.shrink, "code": nil, "replayed": false}
	found["pause_ms"] = []float64{inMS(o.pause(t.pauses, l.Failures, 0)), inMS(o.pause(t.pauses, l.Failures, 1))}
	if o.failed != nil {
		found["code"], found["items"] = o.failed.Code, o.named(len(l.Items))
	} else {
		found["replayed"] = o.receipt.Replayed
	}
	return found, nil
}

func inMS(pause time.Duration) float64 { return float64(pause) / float64(time.Millisecond) }
