// Following streams: messages as they come, over one connection after the other.

package headgate

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Message is a change of streams.
type Message struct {
	// Type is snapshot, update, remove, stale, fresh or reset. Others may come with newer daemons.
	Type string `json:"type"`
	// Stream that it is about; empty in a reset, which is about all.
	Stream string `json:"stream"`
	// ID is the position to resume from, once the message was applied.
	ID string `json:"id"`
	// Items of a snapshot or an update.
	Items []Item `json:"items"`
	// Complete says that a snapshot ends with this message.
	Complete bool `json:"complete"`
	// Keys of a remove.
	Keys []string `json:"keys"`
	// Reason of a reset.
	Reason string `json:"reason"`
	// UpdatedAt is how old the newest data of a stale stream is.
	UpdatedAt string `json:"updated_at"`

	RetryMS int64 `json:"retry_ms"` // of a bye, which is not handed on
}

// FollowOptions say what to follow.
type FollowOptions struct {
	// Streams; if there are none, every stream of the key.
	Streams []string
	// Since is the ID of the message to go on after. If it is empty, the streams' snapshots come first.
	Since string
	// MaxRate is how many flushes a second may come at most; changes in between are joined to the newest value.
	MaxRate int
}

// Follow hands over messages.
type Follow struct {
	// C has the messages. It is closed when the context ends, or after an error that another attempt would not change.
	C <-chan Message

	err error
}

// Err is what closed C: an *Error if the key or a stream was refused, or the end of the context. Ask after C is closed.
func (f *Follow) Err() error { return f.err }

// Follow follows streams until the context ends.
//
//	follow := reader.Follow(ctx, "orders")
//	for message := range follow.C { … }
//	return follow.Err()
//
// A connection that is lost, or silent for 40 seconds, is followed by another, which resumes after the last message: what
// changed meanwhile comes, the newest value of each item. Who takes messages slowly gets the newest values, too.
func (r *Reader) Follow(ctx context.Context, streams ...string) *Follow {
	return r.FollowWith(ctx, FollowOptions{Streams: streams})
}

// FollowWith is [Reader.Follow] with options.
func (r *Reader) FollowWith(ctx context.Context, o FollowOptions) *Follow {
	messages := make(chan Message)
	f := &Follow{C: messages}
	go func() {
		defer close(messages)
		f.err = r.follow(ctx, o, func(m Message) {
			if m.Type == "heartbeat" {
				return
			}
			select {
			case messages <- m:
			case <-ctx.Done():
			}
		}, func() {})
	}()
	return f
}

// follower is a follow that is going on.
type follower struct {
	transport *transport
	path      string
	id        string // of the last message
	hear      func(Message)
	heard     bool // something came over the newest connection
}

// follow calls hear for each message, heartbeats too, and lost whenever a connection ends.
func (r *Reader) follow(ctx context.Context, o FollowOptions, hear func(Message), lost func()) error {
	t := r.client.transport
	f := &follower{transport: t, path: livePath(o), id: o.Since, hear: hear}
	for failures := 1; ; failures++ {
		f.heard = false
		pause, err := f.connection(ctx)
		lost()
		if ctx.Err() != nil {
			return ended(ctx.Err(), nil)
		}
		if f.heard {
			failures = 1
		}
		if e := new(Error); errors.As(err, &e) {
			if !e.Retryable {
				return e
			}
			pause = e.retryAfter
		}
		if !sleep(ctx, t.pauses.before(failures, pause, t.draw())) {
			return ended(ctx.Err(), nil)
		}
	}
}

func livePath(o FollowOptions) string {
	var query []string
	if len(o.Streams) > 0 {
		names := make([]string, len(o.Streams))
		for i, name := range o.Streams {
			names[i] = strings.ReplaceAll(segment(name), ",", "%2C")
		}
		query = append(query, "streams="+strings.Join(names, ","))
	}
	if o.MaxRate > 0 {
		query = append(query, "max_rate="+strconv.Itoa(o.MaxRate))
	}
	if len(query) == 0 {
		return "/api/live"
	}
	return "/api/live?" + strings.Join(query, "&")
}

// connection follows until the connection ends. It says how long to wait for the next: negative if nothing says that.
func (f *follower) connection(caller context.Context) (time.Duration, error) {
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	watch := time.AfterFunc(f.transport.silence, cancel)
	defer watch.Stop()
	header := map[string]string{"Accept": "text/event-stream", "Cache-Control": "no-store"}
	if resumable(f.id) {
		header["Last-Event-ID"] = f.id
	}
	request, err := f.transport.request(ctx, call{method: "GET", path: f.path, header: header})
	if err != nil {
		return -1, failure(CodeInvalidPayload, "%v", err)
	}
	response, err := f.transport.client.Do(request)
	if err != nil {
		return -1, nil
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); response.StatusCode != 200 || !strings.HasPrefix(kind, "text/event-stream") {
		return -1, f.refused(response)
	}
	events := newEvents(&watched{response.Body, watch, f.transport.silence})
	for {
		text, err := events.next()
		if err != nil {
			return -1, nil
		}
		var m Message
		if json.Unmarshal(text, &m) != nil || m.Type == "" {
			return -1, nil // unreadable: another connection, from the last position
		}
		f.heard = true
		if m.Type == "bye" {
			return time.Duration(max(m.RetryMS, 0)) * time.Millisecond, nil
		}
		f.id = m.ID
		f.hear(m)
	}
}

func (f *follower) refused(response *http.Response) *Error {
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMost))
	if err != nil {
		return broken(err)
	}
	a := &answer{status: response.StatusCode, header: response.Header, body: body}
	if a.status == 200 {
		return unexpected(a)
	}
	return refusal(a, f.transport.now())
}

// resumable says whether the daemon can go on after a position: 0 stands for a snapshot that has not ended.
func resumable(id string) bool {
	epoch, number, ok := strings.Cut(id, ":")
	return ok && epoch != "" && number != "" && number[0] != '0' && strings.Trim(epoch+number, "0123456789") == ""
}

// watched gives each read of a connection some time. Between reads nothing counts: the program is busy then.
type watched struct {
	in      io.Reader
	watch   *time.Timer
	silence time.Duration
}

func (w *watched) Read(into []byte) (int, error) {
	w.watch.Reset(w.silence)
	n, err := w.in.Read(into)
	w.watch.Stop()
	return n, err
}
