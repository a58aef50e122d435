// Pauses, keys, events: the small parts.

package headgate

import (
	"io"
	"net/http"
	"sort"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	check := func(text string, expected time.Duration) {
		t.Helper()
		header := http.Header{}
		header.Set("Retry-After", text)
		if got := retryAfter(header, now); got != expected {
			t.Errorf("%q: %v, not %v", text, got, expected)
		}
	}
	check("", -1)
	check(" 7 ", 7*time.Second)
	check("0", 0)
	check("-5", -1)
	check("1.5", -1)
	check("soon", -1)
	check("99999999999999999999", retryAfterMost)
	check("Sun, 01 Mar 2026 10:00:03 GMT", 3*time.Second)
	check("Sun, 01 Mar 2026 09:00:00 GMT", 0)
}

func TestPausesDoubleUpToTheirLimit(t *testing.T) {
	p := pauses{first: 250 * time.Millisecond, most: 30 * time.Second}
	var longest time.Duration
	for retry := 0; retry < 100; retry++ {
		limit := min(p.most, p.first<<min(retry, 20))
		for range 50 {
			pause := p.before(retry, -1)
			longest = max(longest, pause)
			if pause < 0 || pause > limit {
				t.Fatalf("retry %d: %v is not between nothing and %v", retry, pause, limit)
			}
		}
	}
	if longest < p.most/2 {
		t.Errorf("the longest of 5,000 was %v", longest)
	}
	if p.before(0, time.Hour) != retryAfterMost || p.before(0, 3*time.Second) != 3*time.Second {
		t.Error("what the server asks for counts, up to 300 seconds")
	}
}

func TestIdempotencyKeysAreInOrder(t *testing.T) {
	future := "ffffff00-0000-7fff-8000-000000000000"
	all := []string{newUUID()}
	for range 10_000 {
		all = append(all, newUUID())
	}
	before := uuids.last
	sawUUID(future)
	sawUUID("no uuid")
	all = append(all, future, newUUID())
	uuids.last = before
	for _, id := range all {
		if !uuidForm.MatchString(id) {
			t.Fatalf("%s is no UUIDv7", id)
		}
	}
	if !sort.StringsAreSorted(all) {
		t.Error("not in order")
	}
}

func TestEventsAreCutHoweverTheirBytesArrive(t *testing.T) {
	text := ": hello\n\nevent: a\ndata: 1\ndata:2\r\n\r\ndata: 3\r\rdata\n\nid: 7\n\ndata: cut"
	for name, in := range map[string]io.Reader{"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text))} {
		events := newEvents(in)
		for _, expected := range []string{"1\n2", "3", ""} {
			data, err := events.next()
			if err != nil || string(data) != expected {
				t.Errorf("%s: %q, %v; expected %q", name, data, err, expected)
			}
		}
		if _, err := events.next(); err != io.EOF {
			t.Errorf("%s: an event that broke off was taken: %v", name, err)
		}
	}
}

func TestPositionsThatCanBeResumed(t *testing.T) {
	for id, expected := range map[string]bool{"7:3": true, "1795434060:10": true, "7:0": false, "": false, "7": false, ":3": false, "7:": false, "a:3": false, "7:3\r\nx": false} {
		if resumable(id) != expected {
			t.Errorf("%q", id)
		}
	}
}

func TestPagesBecomeShortMessages(t *testing.T) {
	e := refusal(&answer{status: 502, header: http.Header{}, body: []byte("<html>\n<h1>Bad  Gateway</h1>\x00\xff</html>" + strings.Repeat("x", 1000))}, time.Now())
	if !strings.Contains(e.Message, "502: Bad Gateway") || len(e.Message) > 300 || !e.Retryable {
		t.Error(e)
	}
}
