// The files of a batcher: batches are written when they are cut, and read when their turn comes.

package headgate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// openNext reads the first file. Called with the lock held.
func (b *Batcher) openNext() (*hand, time.Duration) {
	first := b.files[0]
	b.mu.Unlock()
	next, err := b.spool.read(first.name)
	b.mu.Lock()
	path := filepath.Join(b.spool.folder, first.name)
	switch {
	case err == nil && len(next.entries) > 0:
		next.first = first.first
		for _, e := range next.entries {
			e.seq, e.at = first.first, b.client.transport.lived()
		}
		h := inHand(next)
		h.room = first.room
		b.spool.resume(h, b.client.transport)
		b.files = b.files[1:]
		if len(h.parts) > 0 {
			return h, 0
		}
		b.used -= h.room
		_ = os.Remove(path) // a crash came between the last part and the end of its file
		return nil, 0
	case err == nil:
		_ = os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, errNoBatch), errors.Is(err, fs.ErrPermission):
		if os.Rename(path, path+".damaged") == nil {
			b.stats.Damaged++
		}
		b.client.transport.log().Warn("headgate: this is not a valid batch, or cannot be opened; renamed to .damaged", "file", path, "error", err)
	default:
		b.notBefore = b.client.transport.lived() + again
		b.mu.Unlock()
		b.diskTakes(false, err)
		b.mu.Lock()
		return nil, again
	}
	b.files, b.used = b.files[1:], b.used-first.room
	b.wakeAll()
	return nil, 0
}

// writeStep cuts and writes a batch, if it is time. It says how long there is nothing to do.
func (b *Batcher) writeStep() time.Duration {
	t := b.client.transport
	b.mu.Lock()
	wait := time.Duration(0)
	if b.unwritten == nil {
		if b.unwritten, wait = b.cut(); b.unwritten == nil {
			b.mu.Unlock()
			return wait
		}
	}
	next := b.unwritten
	wait = next.again - t.lived()
	b.mu.Unlock()
	if wait > 0 {
		return wait
	}
	room, err := b.spool.write(next)
	if err != nil {
		b.refusedByDisk(next, err)
		return 0
	}
	b.mu.Lock()
	b.written(next, room)
	b.mu.Unlock()
	b.diskTakes(true, nil)
	return 0
}

// written forgets the items of a batch that has a file, but for one that is being sent.
func (b *Batcher) written(next *batch, room int64) {
	switch {
	case b.unwritten != next:
		_ = os.Remove(filepath.Join(b.spool.folder, next.key+".json")) // it was sent meanwhile
		return
	case b.holds(next):
		b.hand.room = room
	default:
		b.files = append(b.files, spooled{name: next.key + ".json", room: room, first: next.first})
	}
	b.unwritten = nil
	b.used += room
	b.admit()
	b.tell()
	b.wakeAll()
}

// refusedByDisk has a batch written again later, and sent from memory if its turn comes first.
func (b *Batcher) refusedByDisk(next *batch, err error) {
	b.mu.Lock()
	next.refused, next.again = true, b.client.transport.lived()+again
	b.wakeAll()
	b.mu.Unlock()
	b.diskTakes(false, fmt.Errorf("cannot write a batch, keeping it in memory: %w", err))
}

// diskTakes tells when the disk takes nothing any more, and when it does again.
func (b *Batcher) diskTakes(well bool, err error) {
	b.mu.Lock()
	same := b.diskFails == !well
	b.diskFails = !well
	b.mu.Unlock()
	if same {
		return
	}
	state := OK
	if !well {
		state = Retrying
		b.client.transport.log().Warn("headgate: the spool fails, retrying", "folder", b.spool.folder, "error", err)
	}
	if b.o.OnState != nil {
		b.o.OnState(state, CodeSpool)
	}
}

// keepAll leaves everything in files, and gives back what cannot be written, batch by batch. Called at the end, with the
// lock held.
func (b *Batcher) keepAll() [][]*entry {
	var lost [][]*entry
	if h := b.hand; h != nil && h.room > 0 {
		b.files = append([]spooled{{name: h.key + ".json", room: h.room, first: h.first}}, b.files...)
		b.hand = nil
	}
	for {
		if b.unwritten == nil {
			if b.unwritten, _ = b.cut(); b.unwritten == nil {
				break
			}
		}
		next := b.unwritten
		room, err := b.spool.write(next)
		switch {
		case err == nil:
			b.files = append(b.files, spooled{name: next.key + ".json", room: room, first: next.first})
			b.used += room
		case b.holds(next):
			lost = append(lost, b.hand.rest())
		default:
			lost = append(lost, next.entries)
		}
		b.unwritten, b.hand = nil, nil
	}
	b.spool.close()
	return lost
}
