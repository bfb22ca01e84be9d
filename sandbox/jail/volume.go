package jail

// Room says how much of a Volume is left to whoever writes there.
type Room string

// The kinds of room.
const (
	Roomy   Room = "roomy"
	NoBytes Room = "no bytes" // what is there can be written over, and nothing gets longer
	NoFiles Room = "no files" // no entry can be made
)

// volumeName is what the keeper of a volume is called as. No user types it.
const volumeName = "fsbench-volume"

// volumeTree is the folder of a volume that a child gets; what lies beside it is the
// bench's.
const volumeTree = "tree"
