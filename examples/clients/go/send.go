// One request: send, remove, and what became of it.

package headgate

import (
	"context"
	"encoding/json"
	"net/url"
	"time"
)

// requestBytesMost is the longest body that a daemon accepts by default.
const requestBytesMost = 1 << 20

// Receipt is the answer to what was accepted: it is on disk.
type Receipt struct {
	// Stream is the key's stream.
	Stream string `json:"stream"`
	// ItemsReceived is the number of items.
	ItemsReceived int `json:"items_received"`
	// RequestID is what [Client.Request] and [Client.Wait] ask with.
	RequestID string `json:"request_id"`
	// Replayed says that an earlier attempt, or an earlier request with the same idempotency key, had been accepted.
	Replayed bool `json:"-"`
}

// RequestState is the status of a request.
type RequestState struct {
	// RequestID is a UUIDv7.
	RequestID string `json:"request_id"`
	// Timestamp is when it arrived, RFC 3339 in UTC.
	Timestamp string `json:"timestamp"`
	// Stream is the key's stream.
	Stream string `json:"stream"`
	// Status is accepted, processed, failed, stale, discarded, rejected, duplicate, test, removed or handshake.
	Status string `json:"status"`
	// ItemsReceived is the number of items.
	ItemsReceived int `json:"items_received"`
	// Errors says why sinks gave it up.
	Errors []string `json:"errors"`
	// ProcessedAt is when the last sink finished it; empty until then.
	ProcessedAt string `json:"processed_at"`
	// Sinks are those that want its stream.
	Sinks []SinkState `json:"sinks"`
}

// SinkState is the state of a request in one sink.
type SinkState struct {
	// Name of the sink.
	Name string `json:"name"`
	// State is waiting, done, stale, retrying, failed or discarded.
	State string `json:"state"`
	// At is when it was done, where that is known.
	At string `json:"at"`
}

// SendOption changes one request.
type SendOption func(*sendOptions)

type sendOptions struct {
	itemKey, idempotencyKey, stream string
	timeout                         time.Duration
}

// ItemKey names the field that identifies each item, such as "order.id". Without it, and without one of the connector,
// an item is known by its position in the list.
func ItemKey(field string) SendOption { return func(o *sendOptions) { o.itemKey = field } }

// IdempotencyKey replaces the random one: 1 to 255 visible ASCII characters. A second request with the same key within
// 24 hours changes nothing, so do not make it of the content: on, off, on would lose the third.
func IdempotencyKey(key string) SendOption { return func(o *sendOptions) { o.idempotencyKey = key } }

// Stream is the expected stream of the key: if the key is for another one, the request is rejected.
func Stream(name string) SendOption { return func(o *sendOptions) { o.stream = name } }

// Timeout replaces the client's for one call.
func Timeout(timeout time.Duration) SendOption { return func(o *sendOptions) { o.timeout = timeout } }

// Send submits one object or a list of objects in one request: structs, maps, or json.RawMessage, which goes out as it
// is. A refusal of Headgate's is returned at once; after anything else, such as no answer, 503, or the page of a proxy, the
// request is repeated with the same idempotency key until the timeout. Two sends at once are accepted in any order; a
// [Batcher] keeps it.
func (c *Client) Send(ctx context.Context, items any, options ...SendOption) (*Receipt, error) {
	body, err := encode(items)
	if err != nil {
		return nil, err
	}
	if body[0] != '{' && body[0] != '[' {
		return nil, failure(CodeInvalidPayload, "items must be an object or a list of objects; this is %s as JSON", kind(body))
	}
	if len(body) > requestBytesMost {
		return nil, failure(CodeTooLarge, "the items take %d bytes, but a request can have at most %d; send fewer items per request, or use a Batcher", len(body), requestBytesMost)
	}
	o := c.options(options)
	submit, err := submission(body, o)
	if err != nil {
		return nil, err
	}
	return c.submit(ctx, submit, countOf(body), o.timeout)
}

// countOf is how many items a body has.
func countOf(body []byte) int {
	if body[0] == '{' {
		return 1
	}
	var items []json.RawMessage
	_ = json.Unmarshal(body, &items)
	return len(items)
}

// submit makes attempts until one is accepted, or refused.
func (c *Client) submit(ctx context.Context, submission call, sent int, timeout time.Duration) (*Receipt, error) {
	t := c.transport
	var receipt *Receipt
	err := t.do(ctx, submission, timeout, func(r reply) *Error {
		o := judge(r, sent, t.now())
		receipt = o.receipt
		return o.failed
	})
	return receipt, err
}

// Remove removes an item from a stream, if the key's connector can remove items. The receipt comes whether or not
// there is such an item.
func (c *Client) Remove(ctx context.Context, stream, key string, options ...SendOption) (*Receipt, error) {
	if stream == "" || key == "" {
		return nil, failure(CodeInvalidPayload, "a removal requires the name of a stream and the key of an item")
	}
	o := c.options(options)
	header, err := o.header()
	if err != nil {
		return nil, err
	}
	path := "/api/streams/" + segment(stream) + "/items/" + segment(key)
	return c.submit(ctx, call{method: "DELETE", path: path, header: header}, -1, o.timeout)
}

// Request returns the status of a request of the key's connector.
func (c *Client) Request(ctx context.Context, requestID string) (*RequestState, error) {
	return c.state(ctx, requestID, c.timeout)
}

func (c *Client) state(ctx context.Context, requestID string, timeout time.Duration) (*RequestState, error) {
	a, err := c.transport.get(ctx, call{path: "/api/requests/" + segment(requestID)}, timeout)
	if err != nil {
		return nil, err
	}
	return orError(data[RequestState](a))
}

// Wait asks until a request is processed or failed, or has any other state that it does not leave by itself. A failed
// request is a value, not an error. When the timeout is over first, the error has the code TIMEOUT, and the last state
// comes with it, if there is one.
func (c *Client) Wait(ctx context.Context, receipt *Receipt, timeout time.Duration) (*RequestState, error) {
	deadline := time.Now().Add(timeout)
	var last *RequestState
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		left := time.Until(deadline)
		if left > 0 {
			state, err := c.state(ctx, receipt.RequestID, left)
			if err != nil {
				return last, err
			}
			last = state
			if state.Done() {
				return state, nil
			}
			left = time.Until(deadline)
		}
		if left <= pause {
			e := failure(CodeTimeout, "request %s was not processed within %s; it is stored, and will be delivered later", receipt.RequestID, timeout)
			e.RequestID, e.Retryable = receipt.RequestID, true
			return last, e
		}
		if !sleep(ctx, pause) {
			return last, ended(ctx.Err(), nil)
		}
	}
}

// Done says whether the request is in a state that it does not leave by itself.
func (s *RequestState) Done() bool {
	switch s.Status {
	case "accepted":
		return false
	case "removed":
		for _, sink := range s.Sinks {
			if sink.State == "waiting" || sink.State == "retrying" {
				return false
			}
		}
	}
	return true
}

func (c *Client) options(options []SendOption) *sendOptions {
	o := &sendOptions{timeout: c.timeout}
	for _, option := range options {
		option(o)
	}
	if o.idempotencyKey == "" {
		o.idempotencyKey = newUUID(c.transport.now())
	}
	return o
}

func (o *sendOptions) header() (map[string]string, error) {
	for _, char := range []byte(o.idempotencyKey) {
		if char <= ' ' || char > '~' || len(o.idempotencyKey) > 255 {
			return nil, failure(CodeInvalidPayload, "an idempotency key must have 1 to 255 visible ASCII characters")
		}
	}
	header := map[string]string{"Idempotency-Key": o.idempotencyKey, "Accept": "application/json"}
	if o.itemKey != "" {
		if err := fieldName(o.itemKey); err != nil {
			return nil, err
		}
		header["X-Item-Key"] = o.itemKey
	}
	return header, nil
}

func fieldName(field string) error {
	for _, char := range []byte(field) {
		if char < ' ' || char == 0x7f {
			return failure(CodeInvalidPayload, "the item key must be the name of a field, without control characters")
		}
	}
	return nil
}

// submission is the request of a send and of a batch.
func submission(body []byte, o *sendOptions) (call, error) {
	header, err := o.header()
	if err != nil {
		return call{}, err
	}
	header["Content-Type"] = "application/json"
	path := "/api/ingest"
	if o.stream != "" {
		path += "?stream=" + segment(o.stream)
	}
	return call{method: "POST", path: path, header: header, body: body}, nil
}

// data takes what an answer brings out of its envelope. Fields that are not known here are left alone.
func data[T any](a *answer) (*T, *Error) {
	var body struct {
		Data *T `json:"data"`
	}
	if err := json.Unmarshal(a.body, &body); err != nil || body.Data == nil {
		return nil, unexpected(a)
	}
	return body.Data, nil
}

// orError makes no error of a nil *Error.
func orError[T any](value *T, failed *Error) (*T, error) {
	if failed != nil {
		return nil, failed
	}
	return value, nil
}

func unexpected(a *answer) *Error {
	e := failure(CodeUnexpectedAnswer, "the response is not from Headgate; status %d%s", a.status, excerpt(a.body))
	e.Status = a.status
	return e
}

// segment is a name as one part of a path or a query.
func segment(name string) string {
	switch name {
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	}
	escaped := url.PathEscape(name)
	return queryToo.Replace(escaped)
}
