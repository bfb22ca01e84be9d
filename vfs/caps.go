package vfs

import (
	"fmt"
	"strings"
)

// Caps is the set of behaviours that a backend promises. They are values and
// not optional interfaces, because a wrapper would hide the latter.
type Caps uint32

// The capabilities.
const (
	CapSymlink    Caps = 1 << iota // Symlink, Readlink, and Lstat sees links
	CapLink                        // hard links
	CapPerm                        // permission bits, owner and group are kept and enforced
	CapNoFollow                    // a name is never followed behind the caller's back
	CapHandle                      // a Dir keeps naming its directory after a rename
	CapIdentity                    // Info.ID tells objects apart
	CapNoReplace                   // Rename can refuse to replace
	CapExchange                    // Rename can trade places
	CapPublish                     // a file without a name can be given one by handle
	CapDurability                  // Sync has meaning
	CapSyncFS                      // SyncFS works
	CapSyncRange                   // SyncRange works
	CapXattr                       // extended attributes in the user namespace
	CapBirth                       // Info.Btime is filled in
	CapMountID                     // Info.MountID is filled in
	CapSpecial                     // FIFOs exist
)

var capNames = []struct {
	cap  Caps
	name string
}{
	{CapSymlink, "symlink"},
	{CapLink, "link"},
	{CapPerm, "perm"},
	{CapNoFollow, "no-follow"},
	{CapHandle, "handle"},
	{CapIdentity, "identity"},
	{CapNoReplace, "no-replace"},
	{CapExchange, "exchange"},
	{CapPublish, "publish"},
	{CapDurability, "durability"},
	{CapSyncFS, "sync-fs"},
	{CapSyncRange, "sync-range"},
	{CapXattr, "xattr"},
	{CapBirth, "birth"},
	{CapMountID, "mount-id"},
	{CapSpecial, "special"},
}

// Has reports whether c includes all of want.
func (c Caps) Has(want Caps) bool { return c&want == want }

// String lists the capabilities of c, separated by spaces.
func (c Caps) String() string {
	var names []string
	for _, n := range capNames {
		if c.Has(n.cap) {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, " ")
}

// ParseCap returns the capability called name.
func ParseCap(name string) (Caps, error) {
	known := make([]string, len(capNames))
	for i, n := range capNames {
		if n.name == name {
			return n.cap, nil
		}
		known[i] = n.name
	}
	return 0, fmt.Errorf("capability %q: want one of %s", name, strings.Join(known, ", "))
}
