// The value that identifies an item, found as the daemon finds it: on the flattened item.

package headgate

import (
	"encoding/json"
	"fmt"
	"strings"
)

// keyBytesMost is how long the value may be.
const keyBytesMost = 512

// keyOf is the text of the field of an item: a string, a number or a boolean.
func keyOf(item []byte, field string) (string, *Error) {
	raw, ok := lookup(item, field)
	if !ok {
		return "", failure(CodeInvalidPayload, "the item has no field %q, which is the item key", field)
	}
	switch raw[0] {
	case 'n', '[', '{':
		return "", failure(CodeInvalidPayload, "the field %q, which is the item key, is %s; it must be a text, a number or a boolean", field, kind(raw))
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", failure(CodeInvalidPayload, "the field %q cannot be read: %v", field, err)
		}
		raw = json.RawMessage(text)
	}
	if len(raw) == 0 || len(raw) > keyBytesMost {
		return "", failure(CodeInvalidPayload, "the field %q, which is the item key, has %d bytes; it must have 1 to %d", field, len(raw), keyBytesMost)
	}
	return string(raw), nil
}

// lookup goes down where the name of a member, and a dot, is what the field begins with.
func lookup(object []byte, field string) (json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return nil, false
	}
	if raw, ok := members[field]; ok {
		return raw, true
	}
	for name, inner := range members {
		rest, ok := strings.CutPrefix(field, name+".")
		if !ok || len(inner) == 0 || inner[0] != '{' {
			continue
		}
		if raw, found := lookup(inner, rest); found {
			return raw, true
		}
	}
	return nil, false
}

// named says which item an error is about, if that is known.
func named(key string) string {
	if key == "" {
		return "the item"
	}
	return fmt.Sprintf("the item %q", key)
}
