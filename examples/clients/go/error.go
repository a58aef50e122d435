// The one type of error, and how answers become errors.

package headgate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// What a client finds by itself. Every other code comes from the daemon, such as UNAUTHORIZED or RATE_LIMITED.
const (
	CodeInvalidPayload   = "INVALID_PAYLOAD"   // cannot be written as JSON, or is not an object; the daemon has it too
	CodeConnection       = "CONNECTION"        // no answer, or it broke off
	CodeTimeout          = "TIMEOUT"           // no answer, or no state to wait for, within the time
	CodeTooLarge         = "TOO_LARGE"         // more bytes than a request may have
	CodeClosed           = "CLOSED"            // the batcher is closed, or was before the item was accepted
	CodeFull             = "FULL"              // the queue is full
	CodeDropped          = "DROPPED"           // the queue was full, so this item, the oldest, was dropped
	CodeExpired          = "EXPIRED"           // for 23 hours it was unknown whether the daemon had taken the batch
	CodeMismatch         = "MISMATCH"          // the idempotency key belongs to other content
	CodeSpool            = "SPOOL"             // a batch cannot be written to the spool now; OnState alone is told of it
	CodeSpoolInUse       = "SPOOL_IN_USE"      // another batcher uses the folder
	CodeCanceled         = "CANCELED"          // the caller's context was canceled
	CodeUnexpectedAnswer = "UNEXPECTED_ANSWER" // not an answer of Headgate: a redirect, a page of something in between
)

// Error is every error of this package that is not a wrong use of it.
type Error struct {
	// Code says what is wrong, for programs.
	Code string
	// Status of the answer; 0 if there was none.
	Status int
	// Message says what is wrong and what to do, for people.
	Message string
	// RequestID finds the request in the daemon's log; empty if there was no answer.
	RequestID string
	// Details lists places in the items, at most 20.
	Details []Detail
	// Retryable says whether the same request may be accepted later.
	Retryable bool

	retryAfter time.Duration // what the server asked for; negative if it did not
	cause      error
}

// Detail is a place in the items of a request.
type Detail struct {
	// Item is its position, from 0; nil if it is about the whole body.
	Item *int `json:"item"`
	// Field is the name of its field, if it is about one.
	Field string `json:"field"`
	// Header is the name of a header of the request, if it is about one: then it is not about items.
	Header string `json:"header"`
}

// Error says what is wrong, with the code.
func (e *Error) Error() string {
	text := "headgate: " + e.Message + " (" + e.Code
	if e.RequestID != "" {
		text += ", request " + e.RequestID
	}
	return text + ")"
}

// Unwrap is what caused it, such as context.Canceled.
func (e *Error) Unwrap() error { return e.cause }

func failure(code, format string, values ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, values...), retryAfter: -1}
}

// broken is an attempt without a whole answer.
func broken(err error) *Error {
	code, message := CodeConnection, "no response: "+err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		code, message = CodeTimeout, "no response within the timeout"
	}
	return &Error{Code: code, Message: message, Retryable: true, retryAfter: -1, cause: err}
}

// ended is what the caller's own context ended, after the last error, if any.
func ended(cause error, last *Error) *Error {
	e := failure(CodeCanceled, "canceled")
	if errors.Is(cause, context.DeadlineExceeded) {
		e.Code, e.Message, e.Retryable = CodeTimeout, "no response within the timeout", true
	}
	if last != nil && last.Code != e.Code {
		e.Message += "; the last attempt: " + last.Message
		e.Status, e.RequestID = last.Status, last.RequestID
	}
	e.cause = cause
	return e
}

// refusal makes an error of an answer that is not what was asked for: Headgate's own, or somebody else's.
func refusal(a *answer, now time.Time) *Error {
	e := &Error{Status: a.status, Retryable: true, retryAfter: retryAfter(a.header, now)}
	if own := envelopeOf(a); own != nil && own.failed != nil {
		e.Code, e.Message, e.RequestID, e.Details = own.failed.code, own.failed.message, own.failed.requestID, own.failed.details
		e.Retryable = !final(a.status)
		return e
	}
	e.Code, e.RequestID = CodeUnexpectedAnswer, a.header.Get("X-Request-Id")
	switch {
	case a.status >= 300 && a.status < 400:
		e.Message = fmt.Sprintf("the server answered %d, a redirect, which is not followed; set the final URL", a.status)
	default:
		e.Message = fmt.Sprintf("the response is not from Headgate; status %d%s", a.status, excerpt(a.body))
	}
	return e
}

// final says whether an answer of Headgate's with this status is the same when the request is repeated.
func final(status int) bool {
	return status >= 400 && status < 500 && status != 408 && status != 425 && status != 429
}

// excerpt is the text of a page, without its markup, as far as a message can hold it.
func excerpt(body []byte) string {
	var text strings.Builder
	inTag, space := false, false
	for len(body) > 0 && text.Len() < 120 {
		char, size := utf8.DecodeRune(body)
		body = body[size:]
		switch {
		case char == '<':
			inTag, space = true, true
		case char == '>' && inTag:
			inTag = false
		case inTag:
		case unicode.IsSpace(char):
			space = true
		case char == utf8.RuneError || !unicode.IsPrint(char):
		default:
			if space && text.Len() > 0 {
				text.WriteByte(' ')
			}
			space = false
			text.WriteRune(char)
		}
	}
	if text.Len() == 0 {
		return ""
	}
	return ": " + text.String()
}
