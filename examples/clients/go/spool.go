// The spool: a folder with a file for each batch that is not answered yet. The files are the same in every language.

package headgate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

type spool struct {
	folder string
	lock   *os.File
}

// spoolHead is the first line of a file; the second is the body.
type spoolHead struct {
	V              int     `json:"v"`
	IdempotencyKey string  `json:"idempotency_key"`
	ItemKey        *string `json:"item_key"`
	Created        int64   `json:"created"` // milliseconds since 1970
}

// openSpool takes the folder, and what lies in it, in order of names.
func (b *Batcher) openSpool() error {
	folder := b.o.Spool
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("headgate: the spool: %w", err)
	}
	lock, err := lockFile(filepath.Join(folder, ".lock"))
	if err != nil {
		return fmt.Errorf("headgate: the spool %s is used by another batcher, or cannot be locked: %w", folder, err)
	}
	b.spool = &spool{folder: folder, lock: lock}
	names, err := filepath.Glob(filepath.Join(escapeGlob(folder), "*.json"))
	if err != nil {
		b.spool.close()
		return fmt.Errorf("headgate: the spool: %w", err)
	}
	sort.Strings(names)
	b.spool.clean()
	for _, name := range names {
		name = filepath.Base(name)
		left, err := b.spool.read(name)
		if errors.Is(err, errUnreadable) {
			b.spool.close()
			return fmt.Errorf("headgate: the spool: %w", err)
		}
		if err != nil {
			b.client.transport.log().Warn("headgate: this is no spooled batch; it is set aside, as .damaged", "file", filepath.Join(folder, name), "error", err)
			_ = os.Rename(filepath.Join(folder, name), filepath.Join(folder, name+".damaged"))
			continue
		}
		sawUUID(strings.TrimSuffix(name, ".json"))
		if len(left.entries) == 0 {
			b.spool.remove(left)
			continue
		}
		for _, e := range left.entries {
			b.last++
			e.seq, e.at = b.last, time.Now()
		}
		b.stack(left)
	}
	return nil
}

// clean removes what was never finished, and so never sent.
func (s *spool) clean() {
	parts, _ := filepath.Glob(filepath.Join(escapeGlob(s.folder), "*.json.part"))
	for _, part := range parts {
		_ = os.Remove(part)
	}
}

var errUnreadable = errors.New("a file cannot be read")

var globSpecial = strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`)

func escapeGlob(folder string) string { return globSpecial.Replace(folder) }

func (s *spool) read(name string) (*batch, error) {
	text, err := os.ReadFile(filepath.Join(s.folder, name))
	if err != nil {
		return nil, errors.Join(errUnreadable, err)
	}
	first, body, ok := bytes.Cut(text, []byte("\n"))
	var head spoolHead
	if !ok || json.Unmarshal(first, &head) != nil || head.V != 1 || head.IdempotencyKey == "" {
		return nil, errors.New("not a batch of version 1")
	}
	var items []json.RawMessage
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '{' {
		items = []json.RawMessage{body}
	} else if err := json.Unmarshal(body, &items); err != nil {
		return nil, err
	}
	left := &batch{key: head.IdempotencyKey, created: time.UnixMilli(head.Created), file: name, ready: true}
	if head.ItemKey != nil {
		left.itemKey = *head.ItemKey
	}
	for _, item := range items {
		left.entries = append(left.entries, &entry{raw: item})
	}
	return left, nil
}

// write makes the file of a batch, whole or not at all, and on disk before it returns.
func (s *spool) write(b *batch) error {
	head := spoolHead{V: 1, IdempotencyKey: b.key, Created: b.created.UnixMilli()}
	if b.itemKey != "" {
		head.ItemKey = &b.itemKey
	}
	first, err := marshal(head)
	if err != nil {
		return err
	}
	name := b.key + ".json"
	path := filepath.Join(s.folder, name)
	file, err := os.OpenFile(path+".part", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(append(first, '\n'), b.body()...))
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	if err != nil {
		os.Remove(path + ".part")
		return err
	}
	b.file = name
	// The name is on disk, too, where folders can be flushed.
	if folder, err := os.Open(s.folder); err == nil {
		_ = folder.Sync()
		folder.Close()
	}
	return nil
}

// remove deletes the file of a batch, if it has one.
func (s *spool) remove(b *batch) {
	if s != nil && b.file != "" {
		_ = os.Remove(filepath.Join(s.folder, b.file))
		b.file = ""
	}
}

func (s *spool) close() {
	if s != nil {
		s.lock.Close()
	}
}

// writeFiles is the goroutine that cuts batches and writes them, whatever the sender is doing.
func (b *Batcher) writeFiles() {
	defer b.tasks.Done()
	for b.ctx.Err() == nil {
		b.mu.Lock()
		next, wait := b.cut(time.Now())
		if next != nil {
			b.stack(next)
		}
		b.mu.Unlock()
		if next == nil {
			b.rest(b.wakeCut, wait)
			continue
		}
		if !b.keep(next) {
			return // what could not be written is for keepAll
		}
		b.mu.Lock()
		next.ready = true
		b.wakeAll()
		b.mu.Unlock()
	}
}

// keep writes a batch, however long the disk does not take it; false at the end of the batcher.
func (b *Batcher) keep(next *batch) bool {
	for attempt := 0; ; attempt++ {
		err := b.spool.write(next)
		if err == nil {
			return true
		}
		e := failure(CodeSpool, "a batch cannot be written to the spool: %v", err)
		e.Retryable = true
		if attempt == 0 {
			b.client.transport.log().Warn("headgate: a batch cannot be written to the spool, and waits until it can", "error", err)
		}
		pause := b.client.transport.pauses.before(attempt, -1)
		if b.o.OnRetry != nil {
			b.o.OnRetry(e, pause)
		}
		if !sleep(b.ctx, pause) {
			return false
		}
	}
}

// keepAll leaves everything in files, and gives back what cannot be written. Called at the end, with the lock held.
func (b *Batcher) keepAll() []*entry {
	var lost []*entry
	b.closed = true
	for next, _ := b.cut(time.Now()); next != nil; next, _ = b.cut(time.Now()) {
		b.stack(next)
	}
	for _, next := range b.pending {
		if next.file == "" && b.spool.write(next) != nil {
			lost = append(lost, next.entries...)
		}
	}
	return lost
}
