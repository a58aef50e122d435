// What an answer to a submission means: the one place that decides whether items may be given up.

package headgate

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// verdict is how an attempt ended. Only the first three take something from the queue.
type verdict string

const (
	accepted verdict = "accepted"
	refused  verdict = "refused"  // Headgate's word about items
	mismatch verdict = "mismatch" // the key belongs to other content
	blocked  verdict = "blocked"  // Headgate's word about key, stream or request
	retrying verdict = "retrying" // everything else
)

// pauseAfterRefusal keeps a batch of many bad items from being many requests at once.
const pauseAfterRefusal = 100 * time.Millisecond

// pauseBlockedLeast is the shortest pause while Headgate refuses the key.
const pauseBlockedLeast = 5 * time.Second

// outcome is an attempt and what follows from it.
type outcome struct {
	kind    verdict
	receipt *Receipt // of accepted
	failed  *Error   // of all others
	unknown bool     // Headgate may have taken it
	shrink  bool     // something in between finds the body too large
}

// reply is what came back: a complete answer, or why there is none.
type reply struct {
	answer *answer
	failed *Error
	left   bool // the request began to leave
}

// judge is what a reply to a submission of so many items means; of a removal, whose count says nothing, they are -1.
func judge(r reply, sent int, now time.Time) outcome {
	if r.answer == nil {
		return outcome{kind: retrying, failed: r.failed, unknown: r.left}
	}
	a := r.answer
	own := envelopeOf(a)
	if own == nil {
		unknown := a.status == 202 || a.status >= 500
		return outcome{kind: retrying, failed: refusal(a, now), unknown: unknown, shrink: a.status == 413}
	}
	o := outcome{kind: retrying, failed: refusal(a, now)}
	switch {
	case a.status == 202 && own.receipt != nil:
		return taken(own.receipt, a, sent)
	case a.status >= 200 && a.status < 300:
		o.unknown = true
	case own.failed != nil && own.failed.aboutItems(a.status):
		o.kind = refused
	case final(a.status):
		o.kind = blocked
	case a.status >= 500:
		o.unknown = a.status != 503
	}
	return o
}

// taken compares what was accepted with what was sent.
func taken(receipt *Receipt, a *answer, sent int) outcome {
	if receipt.ItemsReceived == sent || sent < 0 {
		// Header.Get finds a second one, too, if a proxy repeats it.
		receipt.Replayed = a.header.Get("Idempotent-Replayed") == "true"
		return outcome{kind: accepted, receipt: receipt}
	}
	e := failure(CodeMismatch, "the idempotency key belongs to another request with %d items, but %d were sent; use a new key", receipt.ItemsReceived, sent)
	e.Status, e.RequestID = a.status, receipt.RequestID
	return outcome{kind: mismatch, failed: e}
}

// pause is how long to wait before the next attempt.
func (o outcome) pause(p pauses, failures int, draw float64) time.Duration {
	switch o.kind {
	case refused:
		return pauseAfterRefusal
	case blocked:
		return max(p.before(failures, o.failed.retryAfter, draw), pauseBlockedLeast)
	case retrying:
		return p.before(failures, o.failed.retryAfter, draw)
	}
	return 0
}

// named is which of so many items the details name, in order.
func (o outcome) named(count int) []int {
	at := make([]bool, count)
	for _, detail := range o.failed.Details {
		if detail.Item != nil && *detail.Item >= 0 && *detail.Item < count {
			at[*detail.Item] = true
		}
	}
	var items []int
	for i, is := range at {
		if is {
			items = append(items, i)
		}
	}
	return items
}

// envelope is an answer of Headgate's: one of both.
type envelope struct {
	receipt *Receipt
	failed  *ownError
}

type ownError struct {
	code, message, requestID string
	details                  []Detail
}

// aboutItems says whether an error is about the items.
func (e *ownError) aboutItems(status int) bool {
	for _, detail := range e.details {
		if detail.Header != "" {
			return false
		}
	}
	return status == 400 && e.code == CodeInvalidPayload || status == 413 && e.code == "PAYLOAD_TOO_LARGE"
}

// envelopeOf reads a complete answer of Headgate's; nil if it is not one. No header but Content-Type is asked: proxies
// replace the others.
func envelopeOf(a *answer) *envelope {
	kinds := a.header["Content-Type"]
	if len(kinds) != 1 || !utf8.Valid(a.body) {
		return nil
	}
	media, _, _ := strings.Cut(kinds[0], ";")
	if !strings.EqualFold(strings.TrimSpace(media), "application/json") {
		return nil
	}
	body := members(a.body)
	switch string(body["success"]) {
	case "true":
		data := members(body["data"])
		r := &Receipt{Stream: text(data["stream"]), RequestID: text(data["request_id"])}
		count := data["items_received"]
		if r.Stream == "" || r.RequestID == "" || len(count) == 0 || count[0] == 'n' || json.Unmarshal(count, &r.ItemsReceived) != nil {
			return nil
		}
		return &envelope{receipt: r}
	case "false":
		given := members(body["error"])
		e := &ownError{code: text(given["code"]), message: text(given["message"]), requestID: text(given["request_id"])}
		if e.code == "" || e.requestID == "" {
			return nil
		}
		e.details = detailsOf(given["details"])
		return &envelope{failed: e}
	}
	return nil
}

// members of an object, by their exact names; none if it is not one.
func members(raw json.RawMessage) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}

// text is a string of JSON; empty if it is something else.
func text(raw json.RawMessage) string {
	var value *string
	if json.Unmarshal(raw, &value) != nil || value == nil {
		return ""
	}
	return *value
}

// detailsOf reads each detail as far as it can be read: a member of another type is as none.
func detailsOf(raw json.RawMessage) []Detail {
	var all []json.RawMessage
	_ = json.Unmarshal(raw, &all)
	var details []Detail
	for _, one := range all {
		given := members(one)
		detail := Detail{Field: text(given["field"]), Header: text(given["header"])}
		var item *int
		if json.Unmarshal(given["item"], &item) == nil {
			detail.Item = item
		}
		details = append(details, detail)
	}
	return details
}
