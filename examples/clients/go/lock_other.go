//go:build !windows && (!unix || solaris || illumos || aix)

// The lock of a spool, where a file cannot be locked with the standard library.

package headgate

import (
	"errors"
	"os"
)

func lockFile(string) (*os.File, error) {
	return nil, errors.New("a spool is not supported on this system")
}
