// Idempotency keys: UUIDv7, whose order is the order in which they were made.

package headgate

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"sync"
	"time"
)

var uuids struct {
	sync.Mutex
	last uint64 // milliseconds and a counter of 12 bits
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// newUUID is greater than every one that this process made or saw before, even if the clock goes back.
func newUUID(now time.Time) string {
	uuids.Lock()
	uuids.last = max(uuids.last+1, uint64(now.UnixMilli())<<12)
	stamp := uuids.last
	uuids.Unlock()

	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], stamp>>12<<16|0x7000|stamp&0xfff)
	if _, err := rand.Read(id[8:]); err != nil {
		panic("headgate: the system has no random numbers: " + err.Error())
	}
	id[8] = id[8]&0x3f | 0x80
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// sawUUID makes all that follow greater than this one.
func sawUUID(text string) {
	if !uuidForm.MatchString(text) {
		return
	}
	head, err := hex.DecodeString(text[:8] + text[9:13] + text[14:18])
	if err != nil {
		return
	}
	stamp := binary.BigEndian.Uint64(head)
	stamp = stamp>>16<<12 | stamp&0xfff
	uuids.Lock()
	uuids.last = max(uuids.last, stamp)
	uuids.Unlock()
}
