// Requests: one attempt, and attempts until there is an answer to keep.

package headgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// answerBytesMost is how much of an answer is read.
const answerBytesMost = 1 << 20

// bytesASecond is what a slow uplink carries: an attempt has so much longer for its body.
const bytesASecond = 16 << 10

type transport struct {
	base      string      // where paths are appended
	shown     string      // the address as it was given
	key       func() *key // a function, so that printing a client does not print it
	setKey    func(string)
	userAgent string
	client    *http.Client
	pauses    pauses
	log       func() *slog.Logger
	limit     time.Duration // of one attempt, beside what its body takes
	silence   time.Duration

	// What tests replace: both clocks, chance, and the way to the daemon.
	now      func() time.Time
	lived    func() time.Duration
	draw     func() float64
	exchange func(context.Context, call) reply
}

// key is an ingest key or a read key. Another pointer is another key.
type key struct{ text string }

// call is a request, the same for all its attempts.
type call struct {
	method, path string
	header       map[string]string
	body         []byte
	limit        int64 // bytes of the answer
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func newTransport(address, key, what string, s *settings) (*transport, error) {
	if key == "" {
		return nil, fmt.Errorf("headgate: needs %s", what)
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if address == "" {
		address = os.Getenv("HEADGATE_URL")
	}
	if address == "" {
		address = urlDefault
	}
	client, base, err := route(address, s.httpClient)
	if err != nil {
		return nil, err
	}
	t := &transport{
		base: base, shown: address, client: client, userAgent: "headgate-go/" + Version,
		pauses: s.pauses, limit: s.attempt, silence: s.silence, log: slog.Default,
		now: time.Now, draw: rand.Float64,
	}
	t.exchange = t.overHTTP
	began := time.Now()
	t.lived = func() time.Duration { return time.Since(began) }
	t.keep(key)
	if s.userAgent != "" {
		t.userAgent += " " + s.userAgent
	}
	if s.logger != nil {
		t.log = func() *slog.Logger { return s.logger }
	}
	return t, nil
}

// keep puts a key where only requests find it.
func (t *transport) keep(text string) {
	var current atomic.Pointer[key]
	current.Store(&key{text})
	t.key = current.Load
	t.setKey = func(text string) { current.Store(&key{text}) }
}

func checkKey(key string) error {
	for _, char := range []byte(key) {
		if char <= ' ' || char > '~' {
			return errors.New("headgate: the key has invalid characters; copy the whole key again")
		}
	}
	return nil
}

// route finds how to reach an address, and what paths are appended to.
func route(address string, given *http.Client) (*http.Client, string, error) {
	// A transport of its own: its connections are closed after what is not Headgate's answer. What an answer says is
	// taken as it comes, not unpacked.
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.DisableCompression = true
	client := &http.Client{Transport: own}
	if given != nil {
		client.Jar = given.Jar
		if given.Transport != nil {
			client.Transport = given.Transport
		}
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path == "" || given != nil {
			return nil, "", errors.New("headgate: unix: requires a path, and no custom http.Client")
		}
		client.Transport = &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			},
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     90 * time.Second,
		}
		return client, "http://localhost", nil
	}
	parsed, err := url.Parse(address)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" {
		return nil, "", errors.New("headgate: the URL must be http://host:port, https://host or unix:/path")
	}
	if parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return nil, "", errors.New("headgate: the URL must not have a user, query or fragment; pass the key separately")
	}
	return client, strings.TrimRight(parsed.String(), "/"), nil
}

func (t *transport) request(ctx context.Context, c call) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, c.method, t.base+c.path, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	// Without it net/http does not repeat a request by itself: repeats are counted, and have pauses.
	request.GetBody = nil
	if c.body == nil {
		request.Body = nil
	}
	for name, value := range c.header {
		request.Header.Set(name, value)
	}
	request.Header.Set("Authorization", "Bearer "+t.key().text)
	request.Header.Set("User-Agent", t.userAgent)
	return request, nil
}

// overHTTP is one request, and its answer, which is complete or none. Anything but a complete answer of Headgate's ends
// the connection: what comes over it next may not be the answer to the next request.
func (t *transport) overHTTP(caller context.Context, c call) reply {
	limit := t.limit + time.Duration(len(c.body))*time.Second/bytesASecond
	ctx, cancel := context.WithTimeout(caller, limit)
	defer cancel()
	var way way
	request, err := t.request(httptrace.WithClientTrace(ctx, way.trace()), c)
	if err != nil {
		return reply{failed: failure(CodeInvalidPayload, "%v", err)}
	}
	response, err := t.client.Do(request)
	if err != nil {
		return reply{failed: broken(withoutURL(err)), left: way.left(err)}
	}
	defer response.Body.Close()
	most := c.limit
	if most == 0 {
		most = answerBytesMost
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err != nil {
		return reply{failed: broken(err), left: true}
	}
	if int64(len(body)) > most {
		e := failure(CodeUnexpectedAnswer, "the answer %d is longer than %d bytes", response.StatusCode, most)
		e.Status, e.Retryable = response.StatusCode, true
		return reply{failed: e, left: true}
	}
	a := &answer{status: response.StatusCode, header: response.Header, body: body}
	if c.method != http.MethodGet && envelopeOf(a) == nil {
		t.client.CloseIdleConnections()
	}
	return reply{answer: a, left: true}
}

// way is how far a request came.
type way struct{ asked, connected atomic.Bool }

func (w *way) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { w.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { w.connected.Store(true) },
	}
}

// left says whether bytes of the request may have left. A transport that tells nothing of its way is believed only when
// it says that there was no connection.
func (w *way) left(err error) bool {
	if w.asked.Load() {
		return w.connected.Load()
	}
	var dial *net.OpError
	return !(errors.As(err, &dial) && dial.Op == "dial")
}

// do makes attempts until one is answered as read takes it, or with what will be the same next time, or the time is over:
// then the last error is returned.
func (t *transport) do(caller context.Context, c call, timeout time.Duration, read func(reply) *Error) error {
	ctx, cancel := context.WithTimeout(caller, timeout)
	defer cancel()
	for failures := 1; ; failures++ {
		failed := read(t.exchange(ctx, c))
		if failed == nil {
			return nil
		}
		if caller.Err() != nil {
			return ended(caller.Err(), failed)
		}
		if !failed.Retryable {
			return failed
		}
		pause := t.pauses.before(failures, failed.retryAfter, t.draw())
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
			return failed
		}
		if !sleep(ctx, pause) {
			if caller.Err() != nil {
				return ended(caller.Err(), failed)
			}
			return failed
		}
	}
}

// get reads with a request that changes nothing.
func (t *transport) get(ctx context.Context, c call, timeout time.Duration) (*answer, error) {
	c.method = http.MethodGet
	var found *answer
	err := t.do(ctx, c, timeout, func(r reply) *Error {
		switch {
		case r.answer == nil:
			return r.failed
		case r.answer.status < 200 || r.answer.status >= 300:
			return refusal(r.answer, t.now())
		}
		found = r.answer
		return nil
	})
	return found, err
}

// withoutURL is the error alone: messages name the address once, without what a proxy's has in it.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
