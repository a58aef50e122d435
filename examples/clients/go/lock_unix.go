//go:build unix && !solaris && !illumos && !aix

// The lock of a spool, where flock is.

package headgate

import (
	"os"
	"syscall"
)

// lockFile holds a file until it is closed, or the process ends.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
