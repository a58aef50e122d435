// The client and the batcher against servers of their own: what the shared cases do not have.

package headgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const testKey = "ik_test_00000000_secret"

// accepting counts the items of each request, and answers as a daemon does.
func accepting(t *testing.T, before func(*http.Request, []json.RawMessage)) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(accept(before))
	t.Cleanup(server.Close)
	return server
}

func accept(before func(*http.Request, []json.RawMessage)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		items := []json.RawMessage{body}
		if body[0] == '[' {
			_ = json.Unmarshal(body, &items)
		}
		if before != nil {
			before(r, items)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(202)
		fmt.Fprintf(w, `{"success":true,"data":{"stream":"s","items_received":%d,"request_id":"r"}}`, len(items))
	})
}

func connected(t *testing.T, url string, options ...Option) *Client {
	t.Helper()
	client, err := New(url, testKey, options...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestAUnixSocketIsAnAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: accept(nil)}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	receipt, err := connected(t, "unix:"+path).Send(context.Background(), map[string]int{"id": 1})
	if err != nil || receipt.ItemsReceived != 1 {
		t.Error(receipt, err)
	}
}

func TestAClientOfItsOwnFollowsNoRedirectEither(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("/elsewhere", 307))
	defer server.Close()
	client := connected(t, server.URL, WithHTTPClient(&http.Client{}), WithBackoff(time.Hour, time.Hour))
	_, err := client.Send(context.Background(), map[string]int{"id": 1})
	var e *Error
	if !errors.As(err, &e) || e.Status != 307 || !e.Retryable {
		t.Error(err)
	}
}

func TestAddressesAndKeysThatCannotBeAreRefused(t *testing.T) {
	for _, url := range []string{"ftp://x", "http://", "http://u:p@x", "http://x?y=1", "http://x#y", "unix:"} {
		if _, err := New(url, testKey); err == nil {
			t.Error(url)
		}
	}
	for _, key := range []string{"a b", "a\n", "é"} {
		if _, err := New("http://x", key); err == nil || strings.Contains(err.Error(), key) {
			t.Error(key, err)
		}
	}
	t.Setenv("HEADGATE_KEY", "")
	if _, err := New("http://x", ""); err == nil {
		t.Error("a client without a key")
	}
}

func TestCancellationIsFoundInErrors(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := connected(t, "http://127.0.0.1:1").Send(ctx, map[string]int{"id": 1})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAnAddThatWaitsIsCanceledAndNotSent(t *testing.T) {
	release, sent := make(chan struct{}), make(chan string, 10)
	server := accepting(t, func(_ *http.Request, items []json.RawMessage) {
		for _, item := range items {
			sent <- string(item)
		}
		<-release
	})
	b, err := connected(t, server.URL).Batcher(BatcherOptions{ItemKey: "id", MaxItems: 1, QueueBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	add := func(ctx context.Context, id int) error { return b.Add(ctx, map[string]int{"id": id}) }
	if err := add(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	<-sent
	if err := add(context.Background(), 2); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	third := make(chan error)
	go func() { third <- add(ctx, 3) }()
	for waits := false; !waits; {
		b.mu.Lock()
		waits = b.queue.waiters.Len() == 1
		b.mu.Unlock()
	}
	cancel()
	if err := <-third; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(release)
	if f := b.Close(context.Background()); !f.Done || b.Stats().Accepted != 2 {
		t.Error(f, b.Stats())
	}
}

func TestManyGoroutinesMayUseABatcher(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	server := accepting(t, func(_ *http.Request, items []json.RawMessage) {
		mu.Lock()
		defer mu.Unlock()
		for _, item := range items {
			seen[string(item)]++
		}
	})
	b, err := connected(t, server.URL).Batcher(BatcherOptions{ItemKey: "id", MaxItems: 64, QueueBytes: 2000, Spool: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for id := range 1000 {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := b.Add(context.Background(), map[string]int{"id": id}); err != nil {
				t.Error(err)
			}
			if id%100 == 0 {
				b.Flush(context.Background())
				_ = b.String()
			}
		}()
	}
	all.Wait()
	if f := b.Close(context.Background()); !f.Done || b.Stats().Accepted != 1000 || len(seen) != 1000 {
		t.Error(f, b.Stats(), len(seen))
	}
}

func TestASpoolHasOneBatcherAndKeepsWhatItCannotRead(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a[b]*")
	client := connected(t, accepting(t, nil).URL)
	o := BatcherOptions{ItemKey: "id", Spool: folder}
	first, err := client.Batcher(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Batcher(o); err == nil {
		t.Error("two batchers have one spool")
	}
	first.Close(context.Background())
	strange := filepath.Join(folder, "0.json")
	if err := os.WriteFile(strange, []byte("{\"v\":2}\n[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := client.Batcher(o)
	if err != nil {
		t.Fatal(err)
	}
	if f := second.Close(context.Background()); !f.Done {
		t.Error(f)
	}
	if _, err := os.Stat(strange + ".damaged"); err != nil {
		t.Error("a file of a later version was removed")
	}
}

func TestARemovalIsWaitedForAtItsSinks(t *testing.T) {
	state := RequestState{Status: "removed", Sinks: []SinkState{{State: "done"}, {State: "retrying"}}}
	if state.Done() {
		t.Error("a sink still tries")
	}
	state.Sinks[1].State = "failed"
	if !state.Done() {
		t.Error("every sink is done with it")
	}
}
