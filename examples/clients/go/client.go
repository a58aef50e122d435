// The client and its options.

package headgate

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"
)

// Version of this package, sent as part of User-Agent.
const Version = "0.1.0"

const (
	urlDefault     = "http://127.0.0.1:8080"
	timeoutDefault = 30 * time.Second
	attemptDefault = 10 * time.Second
)

// Client submits items with an ingest key. An ingest key belongs to one stream, and so does a client. It may be used by
// many goroutines at once.
type Client struct {
	transport *transport
	timeout   time.Duration

	mu       sync.Mutex
	batchers map[*Batcher]struct{} // that want to know of another key
}

// Option changes how a [Client] or a [Reader] works.
type Option func(*settings)

type settings struct {
	timeout    time.Duration
	attempt    time.Duration
	userAgent  string
	httpClient *http.Client
	pauses     pauses
	logger     *slog.Logger
	silence    time.Duration
}

// WithTimeout is how long a send may take, all its retries included. 30 seconds if absent.
func WithTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.timeout = timeout }
}

// WithAttemptTimeout is how long one request may take, and a second more for each 16 KiB of its body. 10 seconds if absent.
func WithAttemptTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.attempt = timeout }
}

// WithUserAgent adds to the User-Agent, such as "shop/1.2".
func WithUserAgent(suffix string) Option {
	return func(s *settings) { s.userAgent = suffix }
}

// WithHTTPClient sends with the transport of an http.Client: for proxies, certificates, tests. Its Timeout and
// CheckRedirect are not used: a send has a timeout of its own, and no redirect is followed.
func WithHTTPClient(client *http.Client) Option {
	return func(s *settings) { s.httpClient = client }
}

// WithBackoff sets the longest pause before the first retry, which doubles with each further one, and the longest of all.
// 250 ms and 30 s if absent. The pause before a retry is chosen between half of that and all of it.
func WithBackoff(first, most time.Duration) Option {
	return func(s *settings) { s.pauses = pauses{first: first, most: most} }
}

// WithLogger is where a batcher warns when its requests begin to fail, and when they are accepted again. slog.Default()
// if absent.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) { s.logger = logger }
}

// WithSilence is after how long without a byte a followed connection counts as dead. 40 seconds if absent.
func WithSilence(silence time.Duration) Option {
	return func(s *settings) { s.silence = silence }
}

func settle(options []Option) *settings {
	s := &settings{
		timeout: timeoutDefault,
		attempt: attemptDefault,
		pauses:  pauses{first: 250 * time.Millisecond, most: 30 * time.Second},
		silence: 40 * time.Second,
	}
	for _, option := range options {
		option(s)
	}
	return s
}

// New makes a client. The address is http://host:port, https://host or unix:/path; if it is empty, HEADGATE_URL, or
// http://127.0.0.1:8080. If the key is empty, it is HEADGATE_KEY. Nothing is sent yet.
func New(url, key string, options ...Option) (*Client, error) {
	if key == "" {
		key = os.Getenv("HEADGATE_KEY")
	}
	s := settle(options)
	if s.timeout <= 0 || s.attempt <= 0 {
		return nil, errors.New("headgate: a timeout must be longer than 0")
	}
	t, err := newTransport(url, key, "an ingest key (or HEADGATE_KEY)", s)
	if err != nil {
		return nil, err
	}
	return &Client{transport: t, timeout: s.timeout, batchers: map[*Batcher]struct{}{}}, nil
}

// SetKey replaces the ingest key. Batchers retry immediately.
func (c *Client) SetKey(key string) error {
	if key == "" {
		return errors.New("headgate: the ingest key is empty; pass a key")
	}
	if err := checkKey(key); err != nil {
		return err
	}
	c.transport.setKey(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := range c.batchers {
		b.tryNow()
	}
	return nil
}

// String returns the URL without the key.
func (c *Client) String() string { return "headgate.Client(" + c.transport.shown + ")" }
