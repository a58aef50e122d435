// Who uses a spool: one batcher of one program, whatever its language.

package headgate

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// ownerLook is how often an owner looks whether the folder is still its own.
	ownerLook = 10 * time.Second
	// quietLeast is how long nothing changes in a folder that another machine has left.
	quietLeast = 10 * time.Minute
	// unreadableLeast is after how long an owner that cannot be read was never finished.
	unreadableLeast = time.Minute
)

// ownerFile is what .owner says. What the system does not have is null.
type ownerFile struct {
	Host    *string `json:"host"`
	Boot    *string `json:"boot"`
	PID     int     `json:"pid"`
	Started *string `json:"started"`
	Lock    bool    `json:"lock"` // whether .lock is held, too
	ID      string  `json:"id"`
}

type owner struct {
	folder string
	id     string
	lock   *os.File // nil where there is none
}

// errLocked says that another process holds the lock.
var errLocked = errors.New("locked")

// inUse has the folders of this process.
var inUse struct {
	sync.Mutex
	folders map[string]bool
}

// takeFolder makes this process the owner of a spool, or says that another one is.
func takeFolder(folder string) (*owner, error) {
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	inUse.Lock()
	defer inUse.Unlock()
	if inUse.folders[folder] {
		return nil, spoolInUse(folder, "another batcher of this program")
	}
	o := &owner{folder: folder, id: ownerID()}
	lock, err := lockFile(filepath.Join(folder, ".lock"))
	if errors.Is(err, errLocked) {
		return nil, spoolInUse(folder, "another program")
	}
	o.lock = lock
	if err := o.take(); err != nil {
		o.unlock()
		return nil, err
	}
	if inUse.folders == nil {
		inUse.folders = map[string]bool{}
	}
	inUse.folders[folder] = true
	return o, nil
}

func spoolInUse(folder, by string) *Error {
	return failure(CodeSpoolInUse, "the spool %s is used by %s; give each its own directory", folder, by)
}

func (o *owner) path() string { return filepath.Join(o.folder, ".owner") }

func (o *owner) take() error {
	mine := ownerFile{Host: hostName(), Boot: bootID(), PID: os.Getpid(), Lock: o.lock != nil, ID: o.id}
	mine.Started = started(mine.PID)
	text, err := marshal(mine)
	if err != nil {
		return err
	}
	for range 3 {
		file, err := os.OpenFile(o.path(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_, err = file.Write(text)
			return errors.Join(err, file.Sync(), file.Close())
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		found, err := os.ReadFile(o.path())
		if err != nil {
			continue // it went
		}
		if !o.dead(found, &mine) || !o.clear(found) {
			return spoolInUse(o.folder, "another program")
		}
	}
	return spoolInUse(o.folder, "another program")
}

// dead says whether the owner of that text surely uses the folder no more.
func (o *owner) dead(text []byte, mine *ownerFile) bool {
	var its ownerFile
	if json.Unmarshal(text, &its) != nil || its.PID == 0 {
		info, err := os.Stat(o.path())
		return err == nil && time.Since(info.ModTime()) > unreadableLeast
	}
	sameBoot := same(its.Boot, mine.Boot)
	switch {
	case sameBoot && its.Boot != nil && its.Lock && o.lock != nil:
		return true
	case !same(its.Host, mine.Host):
		return o.quiet()
	case its.Boot != nil && !sameBoot, its.PID == mine.PID, processGone(its.PID):
		return true // this process has no batcher for the folder
	}
	now := started(its.PID)
	return its.Started != nil && now != nil && *its.Started != *now
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// quiet says that nothing in the folder is younger than ten minutes.
func (o *owner) quiet() bool {
	names, err := os.ReadDir(o.folder)
	for _, one := range names {
		info, err := one.Info()
		if one.Name() != ".lock" && (err != nil || time.Since(info.ModTime()) < quietLeast) {
			return false
		}
	}
	return err == nil
}

// clear takes a dead owner away: under another name, where it is read again, for another program may be as fast.
func (o *owner) clear(judged []byte) bool {
	aside := o.path() + "." + o.id
	if os.Rename(o.path(), aside) != nil {
		return true // it went
	}
	found, err := os.ReadFile(aside)
	right := err == nil && bytes.Equal(found, judged)
	if !right {
		_ = os.Link(aside, o.path())
	}
	_ = os.Remove(aside)
	return right
}

// holds says whether the folder is still this one's. An owner that somebody deleted is written again.
func (o *owner) holds() bool {
	text, err := os.ReadFile(o.path())
	if errors.Is(err, fs.ErrNotExist) {
		var taken *Error
		return !errors.As(o.take(), &taken)
	}
	var its ownerFile
	return err != nil || json.Unmarshal(text, &its) != nil || its.ID == o.id
}

func (o *owner) leave() {
	var its ownerFile
	if text, err := os.ReadFile(o.path()); err == nil && json.Unmarshal(text, &its) == nil && its.ID == o.id {
		_ = os.Remove(o.path())
	}
	o.unlock()
	inUse.Lock()
	delete(inUse.folders, o.folder)
	inUse.Unlock()
}

func (o *owner) unlock() {
	if o.lock != nil {
		o.lock.Close()
	}
}

// ownerID is random, and no name of a batch: it must not say what time it is.
func ownerID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic("headgate: the system has no random numbers: " + err.Error())
	}
	return hex.EncodeToString(id[:])
}

func hostName() *string {
	name, err := os.Hostname()
	if err != nil {
		return nil
	}
	return &name
}

func bootID() *string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil
	}
	id := strings.TrimSpace(string(text))
	return &id
}

// started is when a process began, in the ticks of the system: field 22, counted behind its name, which may have blanks.
func started(pid int) *string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return nil
	}
	return &fields[19]
}
