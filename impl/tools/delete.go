package tools

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/fsbench/fsbench/impl/publish"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// delete unlinks the entry at the call's path. The last component is never
// resolved through a link: it is the link that goes.
func (k *call) delete() spec.Outcome {
	place, err := k.walk(k.Path, false, false)
	if err != nil {
		return k.failed(blocked(err))
	}
	defer place.Close()
	if err := k.remove(place, k.Path, func(info vfs.Info) error { return k.deletable(place, info) }); err != nil {
		return k.failed(err)
	}
	return spec.Outcome{Status: spec.StatusOK}
}

func (k *call) deletable(place vfs.Place, info vfs.Info) error {
	switch k.ExpectVersion {
	case "":
		return nil
	case spec.VersionAbsent:
		return &refused{kind: spec.ErrExists, text: "the target exists"}
	}
	return k.holds(place, info.ID, k.ExpectVersion)
}

// remove unlinks one name, itself or by a handler. check sees what stands there
// before it goes; it is not called when that cannot be seen.
func (k *call) remove(place vfs.Place, path string, check func(vfs.Info) error) error {
	info, err := place.Dir.Lstat(place.Name)
	seen := err == nil
	switch {
	case seen && info.Mode.IsDir():
		// Refused by type and not by errno: a system may answer a permission errno
		// for a directory, and a handler must not be asked to unlink one (FB-018).
		return &fs.PathError{Op: "unlinkat", Path: place.Name, Err: syscall.EISDIR}
	case seen && info.Mode&fs.ModeSymlink != 0 && !k.t.Follow:
		return &fs.PathError{Op: "unlinkat", Path: place.Name, Err: syscall.ELOOP}
	case seen:
		err = check(info)
	case kindOf(err) == spec.ErrAccess:
		err = nil // its type stays unknown; the unlink itself decides
		if k.ExpectVersion != "" || k.Kind == spec.CallMove {
			// What stands there may be somebody else's by now, and must not go.
			err = &refused{kind: spec.ErrInspect, text: "cannot look at the target"}
		}
	}
	if err != nil {
		return err
	}
	if err := place.Dir.Remove(place.Name); err != nil {
		return k.notRemoved(place, path, info, seen, err)
	}
	if err := publish.SyncDir(place.Dir); err != nil {
		return &unknown{err}
	}
	return nil
}

// notRemoved deals with an unlink that failed. info is what stood there, if it was
// seen.
func (k *call) notRemoved(place vfs.Place, path string, info vfs.Info, seen bool, err error) error {
	now, lookErr := place.Dir.Lstat(place.Name)
	switch {
	case isGone(lookErr) && (seen || kindOf(err) != spec.ErrNotFound):
		return &unknown{err} // refused, or missed, and yet gone: whose doing it was cannot be told
	case lookErr == nil && seen && !k.t.Steps.Same(info, now):
		// Somebody else's is there now, and no handler may unlink that.
		return &unknown{fmt.Errorf("%w; and then another entry was there", err)}
	}
	// Nobody can say whether it is there, and a directory that may not be searched,
	// which would have refused both and for the same reason, is not the cause.
	unsure := lookErr != nil && (seen || kindOf(lookErr) != kindOf(err))
	if k.t.Steps.Denied(kindOf(err)) {
		r := k.deny(path, k.t.abs(place.Rel), err)
		landed := k.t.Seam.OfferDelete(k.ctx, spec.DeleteRequest{Denial: r.Denial, ConfirmedFile: seen && info.Mode.IsRegular()})
		if landed {
			_, lookErr = place.Dir.Lstat(place.Name)
			r.Landed = isGone(lookErr)
		}
		switch {
		case r.Landed:
			return nil
		case landed:
			return &unknown{errors.New("a handler reported success, but the entry is not seen to be gone")}
		}
		err = cmp.Or(k.givenUp(), err)
	}
	if unsure {
		return &unknown{fmt.Errorf("%w; and then the entry could not be looked at: %w", err, lookErr)}
	}
	return err
}

// isGone reports whether a look at a name said that it holds nothing. That it could
// not be looked at does not count.
func isGone(look error) bool { return errors.Is(look, syscall.ENOENT) }
