// Values as JSON, exactly: what JSON cannot hold is an error with its path, never something else in its place.

package headgate

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

var queryToo = strings.NewReplacer("+", "%2B", "&", "%26", "=", "%3D")

// depthMost is where the look at values ends; encoding/json finds cycles.
const depthMost = 500

// encode writes a value. Numbers keep their text, times become UTC.
func encode(value any) ([]byte, error) {
	var text []byte
	if raw, ok := value.(json.RawMessage); ok {
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return nil, invalid("", err.Error(), err)
		}
		text = compact.Bytes()
	} else {
		given := reflect.ValueOf(value)
		if given.Kind() == reflect.Slice && given.IsNil() {
			return []byte("[]"), nil
		}
		clean, changed, err := prepare(given, "", 0)
		if err != nil {
			return nil, err
		}
		if changed {
			value = clean.Interface()
		}
		if text, err = marshal(value); err != nil {
			return nil, invalid("", err.Error(), err)
		}
	}
	if !utf8.Valid(text) {
		return nil, invalid("", "has text that is not UTF-8", nil)
	}
	if escape, ok := loneSurrogate(text); ok {
		return nil, invalid("", "has "+escape+", one half of a character", nil)
	}
	if len(text) == 0 {
		return nil, invalid("", "is empty", nil)
	}
	return text, nil
}

func marshal(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		var own *Error
		if errors.As(err, &own) {
			return nil, own
		}
		return nil, err
	}
	return bytes.TrimRight(buffer.Bytes(), "\n"), nil
}

func invalid(path, problem string, cause error) *Error {
	subject := "the item"
	if path != "" {
		subject = strconv.Quote(strings.TrimPrefix(path, "."))
	}
	e := failure(CodeInvalidPayload, "%s cannot be sent as JSON: %s", subject, problem)
	e.cause = cause
	return e
}

var timeType = reflect.TypeFor[time.Time]()

// prepare looks for what JSON cannot hold, and makes times UTC: in a copy, which is true then; the caller's value stays
// as it is. What writes itself is left alone.
func prepare(v reflect.Value, path string, depth int) (reflect.Value, bool, error) {
	if !v.IsValid() || depth > depthMost {
		return v, false, nil
	}
	if v.Type() == timeType {
		at := v.Interface().(time.Time)
		return reflect.ValueOf(at.UTC()), at.Location() != time.UTC, nil
	}
	if v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		return prepareInner(v, path, depth)
	}
	switch v.Interface().(type) {
	case json.Marshaler, encoding.TextMarshaler:
		return v, false, nil
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return v, false, invalid(path, fmt.Sprintf("%v is not a JSON number", f), nil)
		}
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return v, false, invalid(path, "its text is not UTF-8", nil)
		}
	case reflect.Map:
		return prepareMap(v, path, depth)
	case reflect.Slice, reflect.Array:
		return prepareList(v, path, depth)
	case reflect.Struct:
		return prepareStruct(v, path, depth)
	}
	return v, false, nil
}

func prepareInner(v reflect.Value, path string, depth int) (reflect.Value, bool, error) {
	if v.IsNil() {
		return v, false, nil
	}
	inner, changed, err := prepare(v.Elem(), path, depth+1)
	if err != nil || !changed {
		return v, false, err
	}
	if v.Kind() == reflect.Interface {
		return inner, true, nil
	}
	copied := reflect.New(v.Type().Elem())
	copied.Elem().Set(inner)
	return copied, true, nil
}

func prepareMap(v reflect.Value, path string, depth int) (reflect.Value, bool, error) {
	var copied reflect.Value
	for each := v.MapRange(); each.Next(); {
		name := fmt.Sprint(each.Key().Interface())
		if !utf8.ValidString(name) {
			return v, false, invalid(path, "the name of a field is not UTF-8", nil)
		}
		value, changed, err := prepare(each.Value(), path+"."+name, depth+1)
		if err != nil {
			return v, false, err
		}
		if !changed {
			continue
		}
		if !copied.IsValid() {
			copied = reflect.MakeMapWithSize(v.Type(), v.Len())
			for old := v.MapRange(); old.Next(); {
				copied.SetMapIndex(old.Key(), old.Value())
			}
		}
		copied.SetMapIndex(each.Key(), value)
	}
	return orOld(copied, v)
}

func prepareList(v reflect.Value, path string, depth int) (reflect.Value, bool, error) {
	switch v.Type().Elem().Kind() {
	case reflect.Uint8, reflect.Int, reflect.Int64, reflect.Bool:
		return v, false, nil
	}
	var copied reflect.Value
	for i := 0; i < v.Len(); i++ {
		value, changed, err := prepare(v.Index(i), path+"["+strconv.Itoa(i)+"]", depth+1)
		if err != nil {
			return v, false, err
		}
		if !changed {
			continue
		}
		if !copied.IsValid() {
			copied = reflect.New(v.Type()).Elem()
			if v.Kind() == reflect.Slice {
				copied.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			}
			reflect.Copy(copied, v)
		}
		copied.Index(i).Set(value)
	}
	return orOld(copied, v)
}

func prepareStruct(v reflect.Value, path string, depth int) (reflect.Value, bool, error) {
	var copied reflect.Value
	for i := 0; i < v.NumField(); i++ {
		field := v.Type().Field(i)
		tag := field.Tag.Get("json")
		if !field.IsExported() || tag == "-" {
			continue
		}
		inner := path
		if name, _, _ := strings.Cut(tag, ","); name != "" {
			inner += "." + name
		} else if !field.Anonymous {
			inner += "." + field.Name
		}
		value, changed, err := prepare(v.Field(i), inner, depth+1)
		if err != nil {
			return v, false, err
		}
		if !changed {
			continue
		}
		if !copied.IsValid() {
			copied = reflect.New(v.Type()).Elem()
			copied.Set(v)
		}
		copied.Field(i).Set(value)
	}
	return orOld(copied, v)
}

// orOld is the copy, if one was made.
func orOld(copied, old reflect.Value) (reflect.Value, bool, error) {
	if copied.IsValid() {
		return copied, true, nil
	}
	return old, false, nil
}

// loneSurrogate finds an escape such as \ud800 that has no other half.
func loneSurrogate(text []byte) (string, bool) {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 || at+1 >= len(text) {
			return "", false
		}
		text = text[at:]
		if text[1] != 'u' {
			text = text[2:]
			continue
		}
		unit, ok := unit16(text)
		if !ok {
			return "", false
		}
		escape := string(text[:6])
		text = text[6:]
		if unit < 0xd800 || unit > 0xdfff {
			continue
		}
		if low, ok := unit16(text); !ok || unit > 0xdbff || low < 0xdc00 || low > 0xdfff {
			return escape, true
		}
		text = text[6:]
	}
}

func unit16(text []byte) (uint64, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return unit, err == nil
}

// kind names what a JSON text is, by its first character.
func kind(text []byte) string {
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
