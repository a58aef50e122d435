// Server-Sent Events, as the HTML standard cuts them: lines end with LF, CR or CR LF.

package headgate

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// eventBytesMost is how long an event may be.
const eventBytesMost = 64 << 20

var errLongEvent = errors.New("an event is too long")

// events reads the data of one event after the other. Names and ids are in the data, too.
type events struct {
	in *bufio.Reader
	cr bool // the line before ended with CR: an LF that follows belongs to it
}

func newEvents(in io.Reader) *events { return &events{in: bufio.NewReaderSize(in, 32<<10)} }

// next is the data of an event that came whole.
func (e *events) next() ([]byte, error) {
	var data []byte
	for {
		line, err := e.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if data != nil {
				return data[:len(data)-1], nil
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "data" {
			continue
		}
		data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
		if len(data) > eventBytesMost {
			return nil, errLongEvent
		}
	}
}

func (e *events) line() ([]byte, error) {
	var line []byte
	for {
		char, err := e.in.ReadByte()
		if err != nil {
			return nil, err
		}
		followsCR := e.cr
		e.cr = char == '\r'
		switch {
		case char == '\n' && followsCR:
		case char == '\n' || char == '\r':
			return line, nil
		case len(line) >= eventBytesMost:
			return nil, errLongEvent
		default:
			line = append(line, char)
		}
	}
}
