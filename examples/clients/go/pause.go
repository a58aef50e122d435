// The pauses between attempts.

package headgate

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfterMost is the longest pause that a server may ask for.
const retryAfterMost = 300 * time.Second

type pauses struct{ first, most time.Duration }

// before is the pause after so many failures in a row: half to all of a limit that doubles, or what the server asked for
// if that is longer.
func (p pauses) before(failures int, asked time.Duration, draw float64) time.Duration {
	limit := p.most
	if failures < 30 && p.first < limit>>(failures-1) {
		limit = p.first << (failures - 1)
	}
	limit = max(limit, 0)
	return max(limit/2+time.Duration(float64(limit-limit/2)*draw), min(asked, retryAfterMost))
}

// retryAfter reads seconds or a date, which counts from the answer's own Date; negative if there is neither.
func retryAfter(header http.Header, now time.Time) time.Duration {
	values := header["Retry-After"]
	if len(values) != 1 {
		return -1
	}
	text := strings.Trim(values[0], " \t")
	if text == "" {
		return -1
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return retryAfterMost
		}
		return min(time.Duration(seconds)*time.Second, retryAfterMost)
	}
	date, ok := httpDate(text)
	if !ok {
		return -1
	}
	if dates := header["Date"]; len(dates) == 1 {
		if own, ok := httpDate(dates[0]); ok {
			now = own
		}
	}
	return min(max(0, date.Sub(now)), retryAfterMost)
}

// httpDate reads a date that says its zone: GMT.
func httpDate(text string) (time.Time, bool) {
	date, err := http.ParseTime(text)
	return date, err == nil && strings.HasSuffix(text, "GMT")
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
