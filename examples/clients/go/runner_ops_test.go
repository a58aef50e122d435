// The ops that send, add and read.

package headgate

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
)

// value makes of a text what a Go program would have: a map with exact numbers, and what JSON lacks.
func value(text string) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	return special(v), nil
}

func special(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = special(v[i])
		}
	case map[string]any:
		if name, ok := v["$"].(string); ok && len(v) == 1 {
			return map[string]any{
				"nan": math.NaN(), "inf": math.Inf(1), "-inf": math.Inf(-1), "not_unicode": "a\xff",
				"time": time.Date(2026, 3, 1, 12, 30, 0, 0, time.FixedZone("", 2*60*60)),
			}[name]
		}
		for name := range v {
			v[name] = special(v[name])
		}
	}
	return v
}

func values(texts []string) ([]any, error) {
	all := []any{}
	for _, text := range texts {
		v, err := value(text)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func (r *runner) request(l *command, ctx context.Context) (result, error) {
	switch l.Op {
	case "send", "remove":
		receipt, err := r.submit(l, ctx)
		if err != nil {
			return nil, err
		}
		r.last = receipt.RequestID
		return result{"stream": receipt.Stream, "items_received": receipt.ItemsReceived, "request_id": receipt.RequestID, "replayed": receipt.Replayed}, nil
	}
	var state *RequestState
	var err error
	if l.Op == "request" {
		state, err = r.client.Request(ctx, l.ID)
	} else {
		id, timeout := l.ID, 30*time.Second
		if id == "" {
			id = r.last
		}
		if l.TimeoutMS != nil {
			timeout = ms(*l.TimeoutMS)
		}
		state, err = r.client.Wait(ctx, &Receipt{RequestID: id}, timeout)
	}
	if err != nil {
		return nil, err
	}
	return result{"status": state.Status, "errors": state.Errors, "sinks": state.Sinks}, nil
}

func (r *runner) submit(l *command, ctx context.Context) (*Receipt, error) {
	var options []SendOption
	if l.TimeoutMS != nil {
		options = append(options, Timeout(ms(*l.TimeoutMS)))
	}
	if l.Op == "remove" {
		return r.client.Remove(ctx, l.Stream, l.Key, options...)
	}
	if l.ItemKey != "" {
		options = append(options, ItemKey(l.ItemKey))
	}
	if l.IdempotencyKey != "" {
		options = append(options, IdempotencyKey(l.IdempotencyKey))
	}
	if l.Stream != "" {
		options = append(options, Stream(l.Stream))
	}
	items, err := values(l.Items)
	if err != nil {
		return nil, err
	}
	if l.One {
		return r.client.Send(ctx, items[0], options...)
	}
	return r.client.Send(ctx, items, options...)
}

func (r *runner) add(l *command, ctx context.Context) (result, error) {
	items, err := values(l.Items)
	if err != nil {
		return nil, err
	}
	if !l.Concurrently {
		for i, item := range items {
			if err := r.batcher.Add(ctx, item); err != nil {
				return result{"added": i}, err
			}
		}
		return result{"added": len(items)}, nil
	}
	var all sync.WaitGroup
	errs := make(chan error, len(items))
	for _, item := range items {
		all.Add(1)
		go func() {
			defer all.Done()
			errs <- r.batcher.Add(ctx, item)
		}()
	}
	all.Wait()
	close(errs)
	added := 0
	for e := range errs {
		if e == nil {
			added++
		} else {
			err = e
		}
	}
	return result{"added": added}, err
}

func (r *runner) flush(l *command, ctx context.Context) (result, error) {
	if l.TimeoutMS != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ms(*l.TimeoutMS))
		defer cancel()
	}
	var f Flushed
	if r.virtual != nil {
		return flushed(r.virtual.flush(l)), nil
	}
	if l.Op == "flush" {
		f = r.batcher.Flush(ctx)
	} else {
		f = r.batcher.Close(ctx)
	}
	return flushed(f), nil
}

func flushed(f Flushed) result {
	return result{"done": f.Done, "queued": f.Queued, "in_flight": f.InFlight, "spooled": f.Spooled, "state": f.State, "code": orNull(f.Code)}
}

func (r *runner) read(l *command, ctx context.Context) (result, error) {
	switch l.Op {
	case "item":
		item, err := r.reader.Item(ctx, l.Stream, l.Key)
		return result{"item": item}, err
	case "items":
		list := []Item{}
		items := r.reader.Items(l.Stream)
		if l.Page > 0 {
			items.PageItems = l.Page
		}
		for items.Next(ctx) {
			list = append(list, items.Item())
		}
		return result{"items": list}, items.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	follow := r.reader.FollowWith(ctx, FollowOptions{Streams: l.Streams, Since: l.Since})
	list := []Message{}
	for m := range follow.C {
		list = append(list, m)
		if len(list) == l.Count {
			return result{"messages": list}, nil
		}
	}
	return nil, follow.Err()
}

func (r *runner) view(l *command) (result, error) {
	v := r.views[l.Stream]
	switch {
	case l.Op == "view":
		r.views[l.Stream] = r.reader.View(context.Background(), l.Stream)
		return result{}, nil
	case v == nil:
		return nil, fmt.Errorf("no view of %q is open", l.Stream)
	case l.Op == "unview":
		v.Close()
		delete(r.views, l.Stream)
		return result{}, nil
	}
	items := result{}
	for key, item := range v.Items() {
		items[key] = item.Fields
	}
	return result{"items": items, "complete": v.Complete(), "stale": v.Stale()}, nil
}
