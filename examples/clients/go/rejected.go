// What the spool gave up, kept in the folder rejected: a file for a batch, a line for each part of it.

package headgate

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type givenUp struct {
	name string
	room int64
	keep bool // Headgate has not refused all of it: it stays
}

type rejectedLine struct {
	V              int               `json:"v"`
	IdempotencyKey string            `json:"idempotency_key"`
	ItemKey        *string           `json:"item_key"`
	Error          rejectedError     `json:"error"`
	Items          []json.RawMessage `json:"items"`
}

type rejectedError struct {
	Code      string  `json:"code"`
	Message   string  `json:"message"`
	RequestID *string `json:"request_id"`
}

func (s *spool) rejected(name string) string { return filepath.Join(s.folder, "rejected", name) }

// readRejected finds the names of what was given up before. What is in the files is read when room is needed.
func (s *spool) readRejected() error {
	names, err := os.ReadDir(s.rejected(""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, one := range names {
		name := one.Name()
		if strings.HasSuffix(name, ".json.part") {
			_ = os.Remove(s.rejected(name))
		}
		if info, err := one.Info(); err == nil && strings.HasSuffix(name, ".json") {
			s.given = append(s.given, givenUp{name: name, room: roomOf(info.Size())})
		}
	}
	if len(s.given) > 0 {
		sawUUID(keyOfFile(s.given[len(s.given)-1].name))
	}
	return nil
}

// reject adds the part that is next to the file of its batch, and makes room. It says how many files had to go for that.
func (s *spool) reject(h *hand, failed *Error) (int, error) {
	line := rejectedLine{V: 1, IdempotencyKey: h.partKey(), Error: rejectedError{Code: failed.Code, Message: failed.Message}, Items: raws(h.part())}
	if h.itemKey != "" {
		line.ItemKey = &h.itemKey
	}
	if failed.RequestID != "" {
		line.Error.RequestID = &failed.RequestID
	}
	text, err := marshal(line)
	if err != nil {
		return 0, err
	}
	name := h.key + ".json"
	before, _ := os.ReadFile(s.rejected(name))
	if holdsKey(before, line.IdempotencyKey) {
		return 0, nil // a crash came before the part was taken out of the queue
	}
	text = append(append(before, text...), '\n')
	if err := os.Mkdir(s.rejected(""), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return 0, err
	}
	if err := s.writeFile(s.rejected(name), text); err != nil {
		return 0, err
	}
	at := slices.IndexFunc(s.given, func(one givenUp) bool { return one.name == name })
	if at < 0 {
		at = len(s.given)
		s.given = append(s.given, givenUp{name: name})
	}
	s.given[at].room = roomOf(int64(len(text)))
	s.given[at].keep = s.given[at].keep || gone(failed.Code)
	return s.makeRoom(), nil
}

func holdsKey(text []byte, key string) bool {
	for _, line := range bytes.Split(text, []byte("\n")) {
		var old rejectedLine
		if json.Unmarshal(line, &old) == nil && old.IdempotencyKey == key {
			return true
		}
	}
	return false
}

// makeRoom deletes the oldest files of which Headgate refused everything, but never the newest.
func (s *spool) makeRoom() int {
	used, went := int64(0), 0
	for _, one := range s.given {
		used += one.room
	}
	for i := 0; used > s.room && i < len(s.given)-1; {
		one := &s.given[i]
		one.keep = one.keep || s.keeps(one.name)
		if one.keep || os.Remove(s.rejected(one.name)) != nil {
			i++
			continue
		}
		used -= one.room
		went++
		s.given = append(s.given[:i], s.given[i+1:]...)
	}
	return went
}

// keeps says whether a file has something that Headgate did not refuse, or cannot be read.
func (s *spool) keeps(name string) bool {
	text, err := os.ReadFile(s.rejected(name))
	for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var old rejectedLine
		if err != nil || json.Unmarshal(line, &old) != nil || gone(old.Error.Code) {
			return true
		}
	}
	return false
}
