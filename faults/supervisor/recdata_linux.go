//go:build linux && (amd64 || arm64)

package supervisor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
)

// written is for a call that puts bytes into a file: where they go depends on the
// descriptor.
func written(r *recorder, d *draft) bool {
	if !handled(r, d) {
		return false
	}
	st, err := statOf(d.obj)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	if err := d.readPosition(); err != nil {
		d.odd = err
		return true
	}
	switch c := d.call; {
	case c.args.off >= 0 && (c.name != "pwritev2" || int64(d.info.arg(c.args.off)) != -1):
		d.pos = int64(d.info.arg(c.args.off))
	case c.args.offp >= 0 && d.info.arg(c.args.offp) != 0:
		raw, err := readBytes(d.tid, d.info.arg(c.args.offp), 8)
		if err == nil && len(raw) == 8 {
			d.pos = int64(binary.NativeEndian.Uint64(raw))
		}
	}
	appends := d.open&unix.O_APPEND != 0
	if d.call.name == "pwritev2" {
		const rwfNoAppend = 0x20
		appends = (appends || d.flags&unix.RWF_APPEND != 0) && d.flags&rwfNoAppend == 0
	}
	if appends {
		d.pos = int64(d.size) // even of a pwrite
	}
	return true
}

// readPosition reads what the kernel tells of a descriptor.
func (d *draft) readPosition() error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", d.tid, int32(d.info.arg(d.call.args.fd))))
	if err != nil {
		return err
	}
	found := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		for format, into := range map[string]any{"pos:\t%d": &d.pos, "flags:\t%o": &d.open} {
			if n, err := fmt.Sscanf(line, format, into); err == nil {
				found += n
			}
		}
	}
	if found < 2 {
		return errors.New("where it writes to is not told")
	}
	return nil
}

func wrote(r *recorder, d *draft, result int64) {
	o, fd := r.about(d)
	if o == nil || result == 0 {
		return
	}
	data, err := r.readBack(d, fd, d.pos, result)
	if err != nil {
		r.gap(d, "what was written could not be read back: "+err.Error())
		return
	}
	durable := d.open&unix.O_DSYNC != 0
	if d.call.name == "pwritev2" {
		durable = durable || d.flags&(unix.RWF_DSYNC|unix.RWF_SYNC) != 0
	}
	r.add(d, faults.Mutation{
		Do: faults.ChangeWrite, Object: o.id, Off: d.pos, Data: data, Durable: durable, Path: r.path(fd),
	})
	r.refresh(d, o, fd)
}

// readBack returns what a call has put into a file. What the subject has in memory
// may have changed since; it counts only where the file may not be read.
func (r *recorder) readBack(d *draft, fd int, off, n int64) ([]byte, error) {
	if n > most {
		return nil, fmt.Errorf("%d bytes at once", n)
	}
	data, err := readAt(fd, off, n)
	if err == nil && int64(len(data)) == n {
		return data, nil
	}
	switch c := d.call; {
	case c.args.buf >= 0:
		data, err = readBytes(d.tid, d.info.arg(c.args.buf), int(n))
	case c.args.iov >= 0:
		data, err = gather(d.tid, d.info.arg(c.args.iov), int(d.info.arg(c.args.count)), int(n))
	}
	if err == nil && int64(len(data)) != n {
		err = io.ErrUnexpectedEOF
	}
	return data, err
}

func readAt(fd int, off, n int64) ([]byte, error) {
	f, err := os.Open(selfFD(fd))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.NewSectionReader(f, off, n))
}

// gather reads n bytes that lie scattered in the subject's memory.
func gather(tid int, iov uint64, count, n int) ([]byte, error) {
	if count < 0 || count > 1024 {
		return nil, unix.EINVAL
	}
	raw, err := readBytes(tid, iov, 16*count)
	if err != nil {
		return nil, err
	}
	var out []byte
	for ; len(raw) >= 16 && n > len(out); raw = raw[16:] {
		size := min(binary.NativeEndian.Uint64(raw[8:]), uint64(n-len(out)))
		piece, err := readBytes(tid, binary.NativeEndian.Uint64(raw), int(size))
		if err != nil {
			return nil, err
		}
		out = append(out, piece...)
	}
	return out, nil
}

// whole records all of a file's content.
func (r *recorder) whole(d *draft, o *object, fd int) {
	st, err := statOf(fd)
	if err == nil && st.Size > most {
		err = fmt.Errorf("%d bytes at once", st.Size)
	}
	var data []byte
	if err == nil {
		data, err = readAt(fd, 0, int64(st.Size))
	}
	if err != nil {
		r.gap(d, "a file could not be read: "+err.Error())
		return
	}
	where := r.path(fd)
	r.add(d, faults.Mutation{Do: faults.ChangeResize, Object: o.id, Size: int64(len(data)), Path: where})
	if len(data) > 0 {
		r.add(d, faults.Mutation{Do: faults.ChangeWrite, Object: o.id, Data: data, Path: where})
	}
}

func resized(r *recorder, d *draft, _ int64) {
	o, fd := r.about(d)
	if o == nil {
		return
	}
	st, err := statOf(fd)
	if err != nil {
		r.gap(d, err.Error())
		return
	}
	r.add(d, faults.Mutation{Do: faults.ChangeResize, Object: o.id, Size: int64(st.Size), Path: r.path(fd)})
	r.refresh(d, o, fd)
}

func allocated(r *recorder, d *draft, _ int64) {
	o, fd := r.about(d)
	if o == nil {
		return
	}
	mode, off, size := d.info.arg(1), int64(d.info.arg(2)), int64(d.info.arg(3))
	m := faults.Mutation{Object: o.id, Off: off, Size: size, Path: r.path(fd)}
	switch mode &^ unix.FALLOC_FL_KEEP_SIZE {
	case 0, unix.FALLOC_FL_UNSHARE_RANGE:
		m.Do = faults.ChangeReserve
		r.add(d, m)
	case unix.FALLOC_FL_PUNCH_HOLE, unix.FALLOC_FL_ZERO_RANGE:
		m.Do = faults.ChangeClear
		r.add(d, m)
	default:
		// The content is right afterwards. Which blocks went where is not told.
		r.whole(d, o, fd)
		r.coarse(d, o, fd, "parts of the file were moved")
	}
	if st, err := statOf(fd); err == nil && st.Size > d.size {
		r.add(d, faults.Mutation{Do: faults.ChangeResize, Object: o.id, Size: int64(st.Size), Path: m.Path})
	}
	r.refresh(d, o, fd)
}

// controlled is for those numbers of ioctl that change files.
func controlled(r *recorder, d *draft, _ int64) {
	o, fd := r.about(d)
	switch request := uint32(d.flags); {
	case o == nil || request == unix.FIDEDUPERANGE: // which changes no content
	case request == unix.FICLONE || request == unix.FICLONERANGE:
		r.whole(d, o, fd)
		r.refresh(d, o, fd)
	case request == fsIocResvsp || request == fsIocUnresvsp || request == fsIocResvsp64 ||
		request == fsIocUnresvsp64 || request == fsIocZeroRange:
		r.whole(d, o, fd)
		r.refresh(d, o, fd)
	default:
		r.gap(d, fmt.Sprintf("ioctl %#x", request))
	}
}

// coarse records that the way to a content is not known.
func (r *recorder) coarse(d *draft, o *object, fd int, reason string) {
	r.out.Gaps = append(r.out.Gaps, faults.Gap{
		Key: d.key, Call: d.call.name, Object: o.id, Path: r.path(fd), Reason: reason, Coarse: true,
	})
}

const mostXattr = 64 << 10 // bytes

// attributed records an attribute as it is now.
func attributed(r *recorder, d *draft, _ int64) {
	o, fd := r.about(d)
	if o == nil {
		return
	}
	name, err := readString(d.tid, d.info.arg(d.call.args.text))
	if err != nil {
		r.gap(d, "the name of an attribute could not be read")
		return
	}
	r.refresh(d, o, fd) // an access list changes the mode
	value, err := xattrOf(fd, name)
	m := faults.Mutation{Do: faults.ChangeXattr, Object: o.id, Text: faults.Raw(name), Data: value, Path: r.path(fd)}
	switch {
	case errors.Is(err, unix.ENODATA):
		m.Do, m.Data = faults.ChangeNoXattr, nil
	case err != nil:
		r.gap(d, "an attribute could not be read: "+err.Error())
		return
	case !strings.HasPrefix(name, userXattr):
		return
	}
	r.add(d, m)
}

// userXattr begins the names of the attributes that an ordinary user can set. The
// others are no part of a World.
const userXattr = "user."

func xattrOf(fd int, name string) ([]byte, error) {
	buf := make([]byte, mostXattr)
	n, err := unix.Getxattr(selfFD(fd), name, buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

// attributes records those that a new object has already.
func (r *recorder) attributes(d *draft, o *object, fd int) error {
	buf := make([]byte, mostXattr)
	n, err := unix.Listxattr(selfFD(fd), buf)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !strings.HasPrefix(name, userXattr) {
			continue
		}
		value, err := xattrOf(fd, name)
		if err != nil {
			return err
		}
		r.add(d, faults.Mutation{Do: faults.ChangeXattr, Object: o.id, Text: faults.Raw(name), Data: value, Path: r.path(fd)})
	}
	return nil
}
