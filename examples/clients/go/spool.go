// The spool: a folder that is the queue, with a file for each batch that is not answered yet. The files are the same in
// every language.

package headgate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// roomLeast is what a file takes at least.
	roomLeast = 4 << 10
	// stateBytes is the length of the file that says what is in hand.
	stateBytes = 4 << 10
	// rejectedShare is which part of the room of the queue what is given up may have.
	rejectedShare = 10
)

type spool struct {
	folder string
	owner  *owner
	state  *os.File
	left   *stateOfHand // what an earlier life had in hand, until that batch comes
	given  []givenUp    // files of what is given up, oldest first
	room   int64        // that those may have

	// full says that nothing can be written, if a test wants that.
	full func() error
}

// spoolHead is the first line of a file; the second is the body.
type spoolHead struct {
	V              int     `json:"v"`
	IdempotencyKey string  `json:"idempotency_key"`
	ItemKey        *string `json:"item_key"`
	Stream         *string `json:"stream"`
	Created        int64   `json:"created"` // milliseconds since 1970, for people
}

// stateOfHand is what .state says.
type stateOfHand struct {
	Batch string    `json:"batch"`
	Tried *int64    `json:"tried"` // milliseconds since 1970
	Parts *[][2]int `json:"parts"`
}

// openSpool takes the folder, and the names of what lies in it, in their order.
func (b *Batcher) openSpool() error {
	folder, err := filepath.Abs(b.o.Spool)
	if err != nil {
		return fmt.Errorf("headgate: the spool: %w", err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("headgate: the spool: %w", err)
	}
	owner, err := takeFolder(folder)
	if err != nil {
		return err
	}
	s := &spool{folder: folder, owner: owner, room: b.o.SpoolBytes / rejectedShare, full: func() error { return nil }}
	if err := b.readFolder(s); err != nil {
		s.close()
		return fmt.Errorf("headgate: the spool: %w", err)
	}
	b.spool = s
	return nil
}

func (b *Batcher) readFolder(s *spool) error {
	if err := s.openState(); err != nil {
		return err
	}
	names, err := os.ReadDir(s.folder)
	if err != nil {
		return err
	}
	for _, one := range names {
		name := one.Name()
		if strings.HasSuffix(name, ".json.part") {
			_ = os.Remove(filepath.Join(s.folder, name)) // never finished, and so never sent
		}
		if !strings.HasSuffix(name, ".json") || strings.HasPrefix(name, ".") {
			continue
		}
		info, err := one.Info()
		if err != nil || info.IsDir() {
			continue
		}
		b.last++
		b.files = append(b.files, spooled{name: name, room: roomOf(info.Size()), first: b.last})
		b.used += roomOf(info.Size())
	}
	if len(b.files) > 0 {
		sawUUID(keyOfFile(b.files[len(b.files)-1].name))
	}
	return s.readRejected()
}

func roomOf(bytes int64) int64 { return max(bytes, roomLeast) }

func keyOfFile(name string) string { return strings.TrimSuffix(name, ".json") }

// openState makes the file that says what is in hand, so that it can be written when nothing else can.
func (s *spool) openState() error {
	file, err := os.OpenFile(filepath.Join(s.folder, ".state"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	s.state = file
	old := make([]byte, 1<<20)
	count, _ := file.ReadAt(old, 0)
	var left stateOfHand
	if json.Unmarshal(bytes.TrimSpace(old[:count]), &left) == nil && left.Batch != "" {
		s.left = &left
	}
	if count < stateBytes {
		return s.writeState(s.left)
	}
	return nil
}

func (s *spool) writeState(state *stateOfHand) error {
	text := []byte("{}")
	if state != nil {
		var err error
		if text, err = marshal(state); err != nil {
			return err
		}
	}
	if space := stateBytes - 1 - len(text); space > 0 {
		text = append(text, bytes.Repeat([]byte{' '}, space)...)
	}
	if _, err := s.state.WriteAt(append(text, '\n'), 0); err != nil {
		return err
	}
	return s.state.Sync()
}

// save writes what stands of the batch in hand.
func (s *spool) save(h *hand) error {
	state := &stateOfHand{Batch: h.key}
	if h.tried {
		since := h.since.UnixMilli()
		state.Tried = &since
	}
	if !h.whole {
		parts := make([][2]int, len(h.parts))
		for i, part := range h.parts {
			parts[i] = [2]int{part.from, part.count}
		}
		state.Parts = &parts
	}
	return s.writeState(state)
}

// resume gives a batch what an earlier life knew of it.
func (s *spool) resume(h *hand, t *transport) {
	left := s.left
	if left == nil || left.Batch != h.key {
		return
	}
	s.left = nil
	if left.Parts != nil {
		var parts []span
		end := 0
		for _, part := range *left.Parts {
			if part[0] < end || part[1] < 1 || part[0]+part[1] > len(h.entries) {
				return // no parts of this batch: it is as new
			}
			end = part[0] + part[1]
			parts = append(parts, span{part[0], part[1]})
		}
		h.parts, h.whole = parts, false
	}
	if left.Tried != nil {
		now := t.now()
		h.tried, h.since = true, time.UnixMilli(*left.Tried)
		h.lived = t.lived() - max(0, now.Sub(h.since))
	}
}

var errNoBatch = errors.New("not a batch of version 1")

func (s *spool) read(name string) (*batch, error) {
	text, err := os.ReadFile(filepath.Join(s.folder, name))
	if err != nil {
		return nil, err
	}
	first, body, _ := bytes.Cut(text, []byte("\n"))
	var head spoolHead
	if json.Unmarshal(first, &head) != nil || head.V != 1 || head.IdempotencyKey != keyOfFile(name) {
		return nil, errNoBatch
	}
	next := &batch{key: head.IdempotencyKey, created: time.UnixMilli(head.Created)}
	if head.ItemKey != nil {
		next.itemKey = *head.ItemKey
	}
	if head.Stream != nil {
		next.stream = *head.Stream
	}
	if _, err := submission(nil, &sendOptions{itemKey: next.itemKey, idempotencyKey: next.key}); err != nil {
		return nil, errNoBatch
	}
	var items []json.RawMessage
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '{' && json.Valid(body) {
		items = []json.RawMessage{body}
	} else if json.Unmarshal(body, &items) != nil || items == nil {
		return nil, errNoBatch
	}
	for _, item := range items {
		if item[0] != '{' {
			return nil, errNoBatch
		}
		next.entries = append(next.entries, &entry{raw: item})
	}
	return next, nil
}

// write makes the file of a batch, whole or not at all, and on disk before it returns. It says what room it takes.
func (s *spool) write(b *batch) (int64, error) {
	head := spoolHead{V: 1, IdempotencyKey: b.key, Created: b.created.UnixMilli()}
	if b.itemKey != "" {
		head.ItemKey = &b.itemKey
	}
	if b.stream != "" {
		head.Stream = &b.stream
	}
	first, err := marshal(head)
	if err != nil {
		return 0, err
	}
	text := append(append(first, '\n'), bodyOf(b.entries)...)
	return roomOf(int64(len(text))), s.writeFile(filepath.Join(s.folder, b.key+".json"), text)
}

func (s *spool) writeFile(path string, text []byte) error {
	if err := s.full(); err != nil {
		return err
	}
	file, err := os.OpenFile(path+".part", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	if err != nil {
		os.Remove(path + ".part")
		return err
	}
	// The name is on disk, too, where folders can be flushed.
	if folder, err := os.Open(filepath.Dir(path)); err == nil {
		_ = folder.Sync()
		folder.Close()
	}
	return nil
}

// remove deletes the file of a batch, if it has one.
func (s *spool) remove(h *hand) {
	if s != nil && h.room > 0 {
		_ = os.Remove(filepath.Join(s.folder, h.key+".json"))
	}
}

func (s *spool) close() {
	if s.state != nil {
		s.state.Close()
	}
	s.owner.leave()
}
