// The pauses between attempts.

package headgate

import (
	"context"
	"math/rand"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfterMost is the longest pause that a server may ask for.
const retryAfterMost = 300 * time.Second

type pauses struct{ first, most time.Duration }

// before is the pause before a retry, counted from 0: what the server asked for, or a random part of a doubling limit.
func (p pauses) before(retry int, asked time.Duration) time.Duration {
	if asked >= 0 {
		return min(asked, retryAfterMost)
	}
	limit := p.most
	if retry < 30 && p.first < limit>>retry {
		limit = p.first << retry
	}
	if limit <= 0 {
		return 0
	}
	return time.Duration(rand.Int63n(int64(limit) + 1))
}

// retryAfter reads seconds or a date; negative if there is neither.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if text == "" {
		return -1
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return retryAfterMost
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return -1
	}
	return max(0, date.Sub(now))
}

// sleep is true if the whole pause passed.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
