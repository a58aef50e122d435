// Reading: lists of items, and one.

package headgate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
)

const (
	pageItems = 1000
	// pageBytesMost is how much of an answer with items is read.
	pageBytesMost = 64 << 20
)

// Reader reads with a read key, which can never submit. It may be used by many goroutines at once.
type Reader struct {
	client *Client
}

// Item is an item of a stream.
type Item struct {
	// Key identifies it in its stream.
	Key string `json:"key"`
	// Fields are its fields as a JSON object, flattened with dots, numbers as they were sent. See [Item.Decode] and
	// [Item.Map].
	Fields json.RawMessage `json:"fields"`
	// UpdatedAt is when the data arrived, RFC 3339 in UTC.
	UpdatedAt string `json:"updated_at"`
	// Seq is the number of its last change, in one sequence over all streams.
	Seq uint64 `json:"seq"`
}

// Decode writes the fields into a struct or a map, as json.Unmarshal does.
func (i Item) Decode(into any) error { return json.Unmarshal(i.Fields, into) }

// Map is the fields, with numbers as json.Number: exactly as they were sent.
func (i Item) Map() (map[string]any, error) {
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(i.Fields))
	decoder.UseNumber()
	return fields, decoder.Decode(&fields)
}

// NewReader makes a reader. The address is as for [New]; if the key is empty, it is HEADGATE_READ_KEY. Nothing is sent
// yet.
func NewReader(url, readKey string, options ...Option) (*Reader, error) {
	if readKey == "" {
		readKey = os.Getenv("HEADGATE_READ_KEY")
	}
	s := settle(options)
	if s.timeout <= 0 || s.attempt <= 0 || s.silence <= 0 {
		return nil, errors.New("headgate: a timeout must be longer than 0")
	}
	t, err := newTransport(url, readKey, "a read key (or HEADGATE_READ_KEY)", s)
	if err != nil {
		return nil, err
	}
	return &Reader{&Client{transport: t, timeout: s.timeout}}, nil
}

// String returns the URL without the key.
func (r *Reader) String() string { return "headgate.Reader(" + r.client.transport.shown + ")" }

// Items lists a stream, page after page.
//
//	items := reader.Items("orders")
//	for items.Next(ctx) {
//		fmt.Println(items.Item().Key)
//	}
//	if err := items.Err(); err != nil { … }
type Items struct {
	// PageItems is how many items a request asks for, at most 1,000. Set it before the first Next.
	PageItems int

	reader *Reader
	stream string
	page   []Item
	at     int
	cursor string
	ended  bool
	err    error
}

// Items of a stream, in the order of their keys. Items that change meanwhile may be old or new.
func (r *Reader) Items(stream string) *Items {
	return &Items{PageItems: pageItems, reader: r, stream: stream, at: -1}
}

// Next goes to the next item. It is false at the end, or after an error.
func (i *Items) Next(ctx context.Context) bool {
	i.at++
	for i.at >= len(i.page) {
		if i.ended || i.err != nil {
			return false
		}
		i.fetch(ctx)
	}
	return true
}

// Item is the one that Next went to.
func (i *Items) Item() Item { return i.page[i.at] }

// Err is what ended the list, if it was an error.
func (i *Items) Err() error { return i.err }

func (i *Items) fetch(ctx context.Context) {
	i.page, i.at = nil, 0
	path := "/api/streams/" + segment(i.stream) + "/items?limit=" + strconv.Itoa(i.PageItems)
	if i.cursor != "" {
		path += "&cursor=" + segment(i.cursor)
	}
	a, err := i.reader.get(ctx, path)
	if err != nil {
		i.err = err
		return
	}
	var body struct {
		Data *[]Item `json:"data"`
		Next string  `json:"next"`
	}
	if json.Unmarshal(a.body, &body) != nil || body.Data == nil {
		i.err = unexpected(a)
		return
	}
	i.page, i.cursor, i.ended = *body.Data, body.Next, body.Next == ""
}

// Item is one item of a stream; nil if there is none with this key.
func (r *Reader) Item(ctx context.Context, stream, key string) (*Item, error) {
	a, err := r.get(ctx, "/api/streams/"+segment(stream)+"/items/"+segment(key))
	if e := new(Error); errors.As(err, &e) && e.Status == 404 && e.Code == "ITEM_NOT_FOUND" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return orError(data[Item](a))
}

func (r *Reader) get(ctx context.Context, path string) (*answer, error) {
	return r.client.transport.get(ctx, call{path: path, limit: pageBytesMost}, r.client.timeout)
}
