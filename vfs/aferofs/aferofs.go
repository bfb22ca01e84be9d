// Package aferofs joins the port to afero, in both directions.
//
// Facade is the useful one: it shows a port as an afero.Fs, so that a tool
// written against afero runs on our backends and meets our faults unchanged.
//
// From lets an afero file system stand behind the port, for plumbing tests.
// afero works on whole paths, so the adaptor can promise neither handles nor
// that links are not followed, and its memory backend enforces nothing; it
// declares no capability, and scenarios that need one are skipped on it. What
// needs no capability it keeps, by looking before it acts: a race against it
// can be lost.
package aferofs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

// errUnsupported also matches an errno, as every failure of the port does.
var errUnsupported = fmt.Errorf("%w (%w)", vfs.ErrUnsupported, syscall.ENOTSUP)

// pathError gives the reason of err another operation and another name. What
// err said about them came from below: a name that the caller did not use.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: reason(err)}
}

func linkError(op, name, toName string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: name, New: toName, Err: reason(err)}
}

// reason returns what is wrapped in the errors that name an operation. os.IsExist
// and its like, which afero uses, look no deeper than one level.
func reason(err error) error {
	var walkErr *vfs.WalkError
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	for {
		switch {
		case errors.As(err, &walkErr):
			err = walkErr.Err
		case errors.As(err, &pathErr):
			err = pathErr.Err
		case errors.As(err, &linkErr):
			err = linkErr.Err
		default:
			return err
		}
	}
}
