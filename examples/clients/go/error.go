// The one type of error, and how answers become errors.

package headgate

import (
	"context"
	"encoding/json"
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
	CodeDropped          = "DROPPED"           // the queue was full, and this was the oldest
	CodeExpired          = "EXPIRED"           // a batch that was not accepted for 23 hours
	CodeSpool            = "SPOOL"             // a batch cannot be written to the spool now; OnRetry alone is told of it
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
	code, message := CodeConnection, "no answer: "+err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		code, message = CodeTimeout, "no answer within the time"
	}
	return &Error{Code: code, Message: message, Retryable: true, retryAfter: -1, cause: err}
}

// ended is what the caller's own context ended, after the last error, if any.
func ended(cause error, last *Error) *Error {
	e := failure(CodeCanceled, "canceled")
	if errors.Is(cause, context.DeadlineExceeded) {
		e.Code, e.Message, e.Retryable = CodeTimeout, "no answer within the time", true
	}
	if last != nil && last.Code != e.Code {
		e.Message += "; the last attempt: " + last.Message
		e.Status, e.RequestID = last.Status, last.RequestID
	}
	e.cause = cause
	return e
}

type errorBody struct {
	Error *struct {
		Code      string   `json:"code"`
		Message   string   `json:"message"`
		RequestID string   `json:"request_id"`
		Details   []Detail `json:"details"`
	} `json:"error"`
}

// refusal makes an error of an answer that is not 2xx.
func refusal(a *answer, now time.Time) *Error {
	e := &Error{
		Status:     a.status,
		RequestID:  a.header.Get("X-Request-Id"),
		Retryable:  retryable(a.status),
		retryAfter: retryAfter(a.header, now),
	}
	var body errorBody
	if json.Unmarshal(a.body, &body) == nil && body.Error != nil && body.Error.Code != "" {
		e.Code, e.Message, e.Details = body.Error.Code, body.Error.Message, body.Error.Details
		if body.Error.RequestID != "" {
			e.RequestID = body.Error.RequestID
		}
		return e
	}
	e.Code = CodeUnexpectedAnswer
	switch {
	case a.status >= 300 && a.status < 400:
		e.Message = fmt.Sprintf("the server answered %d, a redirect, and none is followed: give the client the address itself", a.status)
	default:
		e.Message = fmt.Sprintf("something that is not Headgate answered %d%s", a.status, excerpt(a.body))
	}
	return e
}

func retryable(status int) bool {
	switch status {
	case 429, 500, 502, 503, 504:
		return true
	}
	return false
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
