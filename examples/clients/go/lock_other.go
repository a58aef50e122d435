//go:build !windows && (!unix || solaris || illumos || aix)

// The lock of a spool, where a file cannot be locked with the standard library: only .owner is left.

package headgate

import (
	"errors"
	"os"
)

func lockFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func processGone(int) bool { return false }
