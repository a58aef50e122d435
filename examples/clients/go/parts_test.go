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
	check := func(expected time.Duration, header http.Header) {
		t.Helper()
		if got := retryAfter(header, now); got != expected {
			t.Errorf("%v: %v, not %v", header, got, expected)
		}
	}
	of := func(values ...string) http.Header { return http.Header{"Retry-After": values} }
	check(-1, of())
	check(-1, of(""))
	check(7*time.Second, of(" 7 "))
	check(0, of("0"))
	check(-1, of("-5"))
	check(-1, of("1.5"))
	check(-1, of("٧"))
	check(-1, of("5", "10"))
	check(retryAfterMost, of("99999999999999999999"))
	check(3*time.Second, of("Sun, 01 Mar 2026 10:00:03 GMT"))
	check(0, of("Sun, 01 Mar 2026 09:00:00 GMT"))
	check(-1, of("Sun Mar  1 10:00:03 2026"))
	late := of("Mon, 01 Mar 2027 10:00:20 GMT")
	late.Set("Date", "Mon, 01 Mar 2027 10:00:00 GMT")
	check(20*time.Second, late)
}

func TestPausesDoubleUpToTheirLimit(t *testing.T) {
	p := pauses{first: 250 * time.Millisecond, most: 30 * time.Second}
	for failures, limit := range map[int]time.Duration{1: 250 * time.Millisecond, 2: 500 * time.Millisecond, 7: 16 * time.Second, 8: 30 * time.Second, 1000: 30 * time.Second} {
		if least, most := p.before(failures, -1, 0), p.before(failures, -1, 1); least != limit/2 || most != limit {
			t.Errorf("failure %d: %v to %v", failures, least, most)
		}
	}
	if p.before(1, time.Hour, 1) != retryAfterMost || p.before(1, 3*time.Second, 1) != 3*time.Second || p.before(9, time.Second, 1) != p.most {
		t.Error("the longer of both counts, and of what the server asks for 300 seconds")
	}
}

func TestIdempotencyKeysAreInOrder(t *testing.T) {
	future := "ffffff00-0000-7fff-8000-000000000000"
	all := []string{newUUID(time.Now())}
	for range 10_000 {
		all = append(all, newUUID(time.Now()))
	}
	before := uuids.last
	sawUUID(future)
	sawUUID("no uuid")
	all = append(all, future, newUUID(time.Now()))
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
