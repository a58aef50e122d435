// Values as JSON: what goes out, and what is refused.

package headgate

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"
)

type order struct {
	ID    int        `json:"id"`
	At    time.Time  `json:"at"`
	Paid  *time.Time `json:"paid,omitempty"`
	Price float64    `json:"price"`
	Lines []line     `json:"lines,omitempty"`
	note  string
	inner
}

type line struct{ Amount float64 }

type inner struct {
	Note string `json:"note,omitempty"`
}

func TestValuesGoOutExactly(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 0, 0, time.FixedZone("", 7200))
	big, _ := new(big.Int).SetString("18446744073709551616", 10)
	check := func(value any, expected string) {
		t.Helper()
		text, err := encode(value)
		if err != nil || string(text) != expected {
			t.Errorf("%v: %s, %v; expected %s", value, text, err, expected)
		}
	}
	check(order{ID: 1, At: at, Paid: &at, note: "x"}, `{"id":1,"at":"2026-03-01T10:30:00Z","paid":"2026-03-01T10:30:00Z","price":0}`)
	check([]any{map[string]any{"at": []time.Time{at}}}, `[{"at":["2026-03-01T10:30:00Z"]}]`)
	check([1]any{at}, `["2026-03-01T10:30:00Z"]`)
	check(map[string]any{"n": json.Number("1.10"), "b": big, "h": "<&>\u2028é"}, "{\"b\":18446744073709551616,\"h\":\"<&>\\u2028é\",\"n\":1.10}")
	check(json.RawMessage("{\n \"a\" : 1E+400, \"b\": \"x \\n\" }"), `{"a":1E+400,"b":"x \n"}`)
	check([]order(nil), `[]`)
	check([]json.RawMessage{json.RawMessage(`{"a":-0}`)}, `[{"a":-0}]`)
	if at.Location() == time.UTC {
		t.Error("the caller's value was changed")
	}
}

func TestWhatJSONCannotHoldIsAnErrorWithItsPath(t *testing.T) {
	check := func(value any, expected string) {
		t.Helper()
		_, err := encode(value)
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeInvalidPayload || !strings.Contains(e.Message, expected) {
			t.Errorf("%v: %v; expected %s", value, err, expected)
		}
	}
	check(order{Lines: []line{{1}, {math.NaN()}}}, `"lines[1].Amount"`)
	check([]order{{}, {Price: math.Inf(1)}}, `"[1].price"`)
	check(&order{inner: inner{}, Price: math.Inf(-1)}, `"price"`)
	check(map[string]any{"a": map[string]any{"b": []any{1, float32(math.Inf(1))}}}, `"a.b[1]"`)
	check(map[string]string{"note": "a\xff"}, `"note"`)
	check(map[string]int{"a\xff": 1}, "name of a field")
	check(json.RawMessage(`{"a":"\ud800x"}`), `\ud800`)
	check(json.RawMessage(`{"a":"\\ud83d\ude00"}`), `\ude00`)
	check(json.RawMessage("{\"a\":\"\xff\"}"), "UTF-8")
	check(json.RawMessage(`{"a":1`), "JSON")
	check(map[string]any{"f": func() {}}, "JSON")
	type loop struct{ Next any }
	cycle := &loop{}
	cycle.Next = cycle
	check(cycle, "JSON")
	if _, err := encode(json.RawMessage(`{"a":"\ud83d\ude00 \\ud800"}`)); err != nil {
		t.Error(err)
	}
}

func TestKeysAreFoundOnTheFlattenedItem(t *testing.T) {
	check := func(item, field, expected string) {
		t.Helper()
		key, err := keyOf([]byte(item), field)
		if expected == "" && err == nil || expected != "" && (err != nil || key != expected) {
			t.Errorf("%s of %s: %q, %v; expected %q", field, item, key, err, expected)
		}
	}
	check(`{"id":7}`, "id", "7")
	check(`{"id":"7"}`, "id", "7")
	check(`{"id":true}`, "id", "true")
	check(`{"a":{"b":{"c":1.10}}}`, "a.b.c", "1.10")
	check(`{"a.b":{"c":"é"}}`, "a.b.c", "é")
	check(`{"a":{"x":1},"a.b":{"c":2}}`, "a.b.c", "2")
	check(`{"a":[{"b":1}]}`, "a.b", "")
	check(`{"id":null}`, "id", "")
	check(`{"id":{}}`, "id", "")
	check(`{"id":""}`, "id", "")
	check(`{"id":"`+strings.Repeat("x", 513)+`"}`, "id", "")
}
