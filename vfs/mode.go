package vfs

import "io/fs"

// The special permission bits, as Unix numbers them.
const (
	BitSetuid = 0o4000
	BitSetgid = 0o2000
	BitSticky = 0o1000
)

// Bits returns the twelve permission bits of m, as Unix numbers them.
func Bits(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		bits |= BitSetuid
	}
	if m&fs.ModeSetgid != 0 {
		bits |= BitSetgid
	}
	if m&fs.ModeSticky != 0 {
		bits |= BitSticky
	}
	return bits
}

// FromBits returns the permission part of a FileMode for twelve Unix bits.
func FromBits(bits uint32) fs.FileMode {
	m := fs.FileMode(bits & 0o777)
	if bits&BitSetuid != 0 {
		m |= fs.ModeSetuid
	}
	if bits&BitSetgid != 0 {
		m |= fs.ModeSetgid
	}
	if bits&BitSticky != 0 {
		m |= fs.ModeSticky
	}
	return m
}
