// Requests: one attempt, and attempts until there is an answer to keep.

package headgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// answerBytesMost is how much of an answer is read.
const answerBytesMost = 1 << 20

type transport struct {
	base      string        // where paths are appended
	shown     string        // the address as it was given
	key       func() string // a function, so that printing a client does not print it
	userAgent string
	client    *http.Client
	pauses    pauses
	now       func() time.Time
	log       func() *slog.Logger
	limit     time.Duration // of one attempt
	silence   time.Duration
}

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
	for _, char := range []byte(key) {
		if char <= ' ' || char > '~' {
			return nil, fmt.Errorf("headgate: the key has characters that no key has; check that it was copied whole")
		}
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
		base: base, shown: address, key: func() string { return key }, client: client,
		userAgent: "headgate-go/" + Version, pauses: s.pauses, now: s.now, limit: s.attempt, silence: s.silence,
		log: slog.Default,
	}
	if s.userAgent != "" {
		t.userAgent += " " + s.userAgent
	}
	if s.logger != nil {
		t.log = func() *slog.Logger { return s.logger }
	}
	return t, nil
}

// route finds how to reach an address, and what paths are appended to.
func route(address string, given *http.Client) (*http.Client, string, error) {
	client := &http.Client{}
	if given != nil {
		client.Transport, client.Jar = given.Transport, given.Jar
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path == "" || given != nil {
			return nil, "", errors.New("headgate: unix: needs a path, and no http.Client of its own")
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
		return nil, "", errors.New("headgate: the address must be http://host:port, https://host or unix:/path")
	}
	if parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return nil, "", errors.New("headgate: the address must have no user, query or fragment; the key goes beside it")
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
	request.Header.Set("Authorization", "Bearer "+t.key())
	request.Header.Set("User-Agent", t.userAgent)
	return request, nil
}

// attempt is one request. What is not 2xx is an error.
func (t *transport) attempt(caller context.Context, c call) (*answer, *Error) {
	ctx, cancel := context.WithTimeout(caller, t.limit)
	defer cancel()
	request, err := t.request(ctx, c)
	if err != nil {
		return nil, failure(CodeInvalidPayload, "%v", err)
	}
	response, err := t.client.Do(request)
	if err != nil {
		return nil, broken(withoutURL(err))
	}
	defer response.Body.Close()
	limit := c.limit
	if limit == 0 {
		limit = answerBytesMost
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	a := &answer{status: response.StatusCode, header: response.Header, body: body}
	if err != nil {
		return nil, broken(err)
	}
	if a.status < 200 || a.status >= 300 {
		return nil, refusal(a, t.now())
	}
	if int64(len(body)) > limit {
		e := failure(CodeUnexpectedAnswer, "the answer is longer than %d bytes", limit)
		e.Status = a.status
		return nil, e
	}
	return a, nil
}

// do makes attempts until one is answered with 2xx, or with what will be the same next time, or the time is over: then
// the last error is returned.
func (t *transport) do(caller context.Context, c call, timeout time.Duration) (*answer, error) {
	ctx, cancel := context.WithTimeout(caller, timeout)
	defer cancel()
	for retry := 0; ; retry++ {
		a, failed := t.attempt(ctx, c)
		if failed == nil {
			return a, nil
		}
		if caller.Err() != nil {
			return nil, ended(caller.Err(), failed)
		}
		if !failed.Retryable {
			return nil, failed
		}
		pause := t.pauses.before(retry, failed.retryAfter)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
			return nil, failed
		}
		if !sleep(ctx, pause) {
			if caller.Err() != nil {
				return nil, ended(caller.Err(), failed)
			}
			return nil, failed
		}
	}
}

// withoutURL is the error alone: messages name the address once, without what a proxy's has in it.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
