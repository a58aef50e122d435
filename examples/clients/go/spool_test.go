// The spool's files, its owner, and what an answer that is not Headgate's does to a connection.

package headgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// standing is a batcher whose steps nobody does, with a reply for every attempt.
func standing(t *testing.T, o BatcherOptions, answer func(call) reply) *Batcher {
	t.Helper()
	client := connected(t, "http://127.0.0.1:1", WithBackoff(0, 0))
	client.transport.exchange = func(_ context.Context, c call) reply { return answer(c) }
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	b, err := client.batcher(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.ending.Do(b.end) })
	return b
}

// settleAll does the steps of everything that was added.
func (b *Batcher) settleAll() {
	b.flushTo = b.last
	for b.writeStep() <= 0 {
	}
	for b.open(b.last) {
		b.notBefore = 0
		b.sendStep()
	}
}

func own(status int, body string) reply {
	return reply{answer: &answer{status: status, header: http.Header{"Content-Type": {"application/json"}}, body: []byte(body)}, left: true}
}

func refusing(call) reply {
	return own(400, `{"success":false,"error":{"code":"INVALID_PAYLOAD","message":"no","request_id":"r"}}`)
}

func fileNames(t *testing.T, folder string) []string {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, file := range files {
		all = append(all, file.Name())
	}
	return all
}

func TestOfWhatIsGivenUpOnlyRefusedItemsMakeRoom(t *testing.T) {
	folder := t.TempDir()
	b := standing(t, BatcherOptions{ItemKey: "id", MaxItems: 1, Spool: folder, SpoolBytes: 3 * rejectedShare * roomLeast}, nil)
	answer := refusing
	b.client.transport.exchange = func(_ context.Context, c call) reply { return answer(c) }
	give := func(id int) {
		if err := b.Add(context.Background(), map[string]int{"id": id}); err != nil {
			t.Fatal(err)
		}
		b.settleAll()
	}
	answer = func(call) reply {
		return own(202, `{"success":true,"data":{"stream":"s","request_id":"r","items_received":7}}`)
	}
	give(0)
	answer = refusing
	for id := 1; id < 6; id++ {
		give(id)
	}
	names := fileNames(t, filepath.Join(folder, "rejected"))
	var kept []string
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(folder, "rejected", name))
		var line rejectedLine
		if err != nil || json.Unmarshal(text, &line) != nil {
			t.Fatal(name, err)
		}
		kept = append(kept, line.Error.Code+string(line.Items[0]))
	}
	if strings.Join(kept, " ") != `MISMATCH{"id":0} INVALID_PAYLOAD{"id":4} INVALID_PAYLOAD{"id":5}` {
		t.Error(kept)
	}
	if s := b.Stats(); s.Forgotten != 3 || s.Rejected != 6 {
		t.Errorf("%+v", s)
	}
}

func TestAPartThatIsGivenUpIsWrittenOnce(t *testing.T) {
	folder := t.TempDir()
	b := standing(t, BatcherOptions{ItemKey: "id", Spool: folder}, refusing)
	h := inHand(&batch{key: newUUID(time.Now()), entries: []*entry{{raw: []byte(`{"id":1}`)}}})
	for range 2 { // as after a crash before the part was taken out
		if _, err := b.spool.reject(h, failure(CodeExpired, "old")); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := os.ReadFile(b.spool.rejected(h.key + ".json"))
	if strings.Count(string(text), "\n") != 1 {
		t.Error(string(text))
	}
}

func TestABatchIsMeantForAStream(t *testing.T) {
	folder := t.TempDir()
	var paths []string
	b := standing(t, BatcherOptions{ItemKey: "id", Spool: folder}, func(c call) reply {
		paths = append(paths, c.path)
		return own(202, `{"success":true,"data":{"stream":"orders","request_id":"r","items_received":1}}`)
	})
	for id := range 2 {
		_ = b.Add(context.Background(), map[string]int{"id": id})
		b.settleAll()
	}
	if strings.Join(paths, " ") != "/api/ingest /api/ingest?stream=orders" {
		t.Error(paths)
	}
	_ = b.Add(context.Background(), map[string]int{"id": 2})
	b.flushTo = b.last
	b.writeStep()
	text, err := os.ReadFile(filepath.Join(folder, b.files[0].name))
	if err != nil || !strings.Contains(string(text), `"stream":"orders"`) {
		t.Error(string(text), err)
	}
	if info, _ := os.Stat(filepath.Join(folder, b.files[0].name)); info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
}

func TestWhatIsLeftOfABatchIsOnDiskAfterEachAnswer(t *testing.T) {
	var attempts []string
	b := standing(t, BatcherOptions{ItemKey: "id", Spool: t.TempDir()}, nil)
	b.client.transport.exchange = func(_ context.Context, c call) reply {
		attempts = append(attempts, stateOf(t, b))
		if len(attempts) == 1 {
			return refusing(c)
		}
		return own(202, `{"success":true,"data":{"stream":"s","request_id":"r","items_received":`+strconv.Itoa(len(attempts)-1)+`}}`)
	}
	for id := range 3 {
		_ = b.Add(context.Background(), map[string]int{"id": id})
	}
	b.flushTo = b.last
	for b.writeStep() <= 0 {
	}
	for _, expected := range []string{"null [[0,1] [1,2]]", "null [[1,2]]"} {
		b.notBefore = 0
		b.sendStep()
		if now := stateOf(t, b); now != expected {
			t.Errorf("%s, not %s", now, expected)
		}
	}
	b.sendStep()
	if strings.Join(attempts, ", ") != "tried null, tried [[0,1] [1,2]], tried [[1,2]]" || b.Stats().Accepted != 3 {
		t.Error(attempts, b.Stats())
	}
}

var commas = strings.NewReplacer("0 1", "0,1", "1 2", "1,2")

// stateOf is what .state says, shortened.
func stateOf(t *testing.T, b *Batcher) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.spool.folder, ".state"))
	var state stateOfHand
	if err != nil || len(text) != stateBytes || json.Unmarshal(text, &state) != nil {
		t.Fatal(len(text), err)
	}
	shown := "null "
	if state.Tried != nil {
		shown = "tried "
	}
	if state.Parts == nil {
		return shown + "null"
	}
	return shown + commas.Replace(fmt.Sprint(*state.Parts))
}

func TestAStateThatDoesNotFitSaysNothing(t *testing.T) {
	client := connected(t, "http://127.0.0.1:1")
	for text, expected := range map[string]int{
		`[[1,1]]`: 1, `[[0,1],[2,1]]`: 2, `[]`: 0,
		`[[2,2]]`: 3, `[[-1,1]]`: 3, `[[1,1],[0,1]]`: 3, `[[0,0]]`: 3,
	} {
		entries := []*entry{{}, {}, {}}
		h := inHand(&batch{key: "k", entries: entries})
		var left stateOfHand
		if err := json.Unmarshal([]byte(`{"batch":"k","tried":5,"parts":`+text+`}`), &left); err != nil {
			t.Fatal(err)
		}
		s := &spool{left: &left}
		s.resume(h, client.transport)
		if h.left() != expected || h.tried != (expected < 3) {
			t.Error(text, h.parts, h.tried)
		}
	}
}

func TestAFolderIsTakenOverFromTheDead(t *testing.T) {
	gone := exec.Command(os.Args[0], "-test.run=^$")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	here := &ownerFile{Host: hostName(), Boot: bootID(), PID: os.Getppid(), Started: started(os.Getppid()), ID: "x"}
	other, early := "elsewhere.invalid", "1"
	check := func(name string, free bool, age time.Duration, change func(*ownerFile)) {
		t.Helper()
		folder := t.TempDir()
		its := *here
		change(&its)
		text, _ := marshal(its)
		path := filepath.Join(folder, ".owner")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		_ = os.Chtimes(path, then, then)
		o, err := takeFolder(folder)
		var e *Error
		if free != (err == nil) || !free && (!errors.As(err, &e) || e.Code != CodeSpoolInUse) {
			t.Error(name, err)
		}
		if err == nil {
			o.leave()
		}
		if left := fileNames(t, folder); free && len(left) > 1 || !free && len(left) != 2 {
			t.Error(name, left)
		}
	}
	check("it lives", false, 0, func(*ownerFile) {})
	check("it is gone", true, 0, func(its *ownerFile) { its.PID = gone.Process.Pid })
	check("it would hold the lock", true, 0, func(its *ownerFile) { its.Lock = true })
	check("another boot", true, 0, func(its *ownerFile) { its.Boot = &other })
	check("this process, which has no batcher", true, 0, func(its *ownerFile) { its.PID = os.Getpid() })
	check("another host", false, 0, func(its *ownerFile) { its.Host, its.Boot = &other, &other })
	check("another host, long ago", true, time.Hour, func(its *ownerFile) { its.Host, its.Boot = &other, &other })
	if here.Started != nil {
		check("another process with its number", true, 0, func(its *ownerFile) { its.Started = &early })
	}
	check("nobody can read it", true, time.Hour, func(its *ownerFile) { its.PID = 0 })
	check("it is being written", false, 0, func(its *ownerFile) { its.PID = 0 })
}

func TestABatcherStopsWhenItsFolderIsTakenOver(t *testing.T) {
	folder := t.TempDir()
	var codes []string
	b := standing(t, BatcherOptions{ItemKey: "id", Spool: folder, OnState: func(_ State, code string) { codes = append(codes, code) }}, refusing)
	if err := b.Add(context.Background(), map[string]int{"id": 1}); err != nil {
		t.Fatal(err)
	}
	if b.lookStep(); b.ctx.Err() != nil {
		t.Fatal("it is its own")
	}
	if err := os.WriteFile(filepath.Join(folder, ".owner"), []byte(`{"pid":1,"id":"another"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.lookStep()
	var e *Error
	if err := b.Add(context.Background(), map[string]int{"id": 2}); !errors.As(err, &e) || e.Code != CodeSpoolInUse {
		t.Error(err)
	}
	if f := b.Close(context.Background()); f.Done || f.Spooled != 1 || strings.Join(codes, "") != CodeSpoolInUse {
		t.Error(f, codes)
	}
	if text, _ := os.ReadFile(filepath.Join(folder, ".owner")); !strings.Contains(string(text), "another") {
		t.Error("it took the other's owner away")
	}
}

func TestAConnectionEndsAfterAnAnswerThatIsNotHeadgates(t *testing.T) {
	var connections, requests atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 2 {
			w.WriteHeader(404)
			return
		}
		accept(nil).ServeHTTP(w, r)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	client := connected(t, server.URL, WithBackoff(0, 0))
	for range 3 {
		if _, err := client.Send(context.Background(), map[string]int{"id": 1}); err != nil {
			t.Fatal(err)
		}
	}
	if connections.Load() != 2 || requests.Load() != 4 {
		t.Error(connections.Load(), "connections,", requests.Load(), "requests")
	}
}
