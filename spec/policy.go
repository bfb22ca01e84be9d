package spec

// Policies are choices that the contract leaves open and a SUT declares: what
// it does with links, hard links, modes and the like. Rules judge a SUT by what
// it declared.
type Policies map[string]string

// The policies that rules read.
const (
	PolicyLinks         = "links"
	PolicyHardlink      = "hardlink"
	PolicyDurability    = "durability"
	PolicyMode          = "mode"
	PolicyXattr         = "xattr"
	PolicyMissingParent = "missing_parent"
	PolicyParents       = "parents_on_failure"
	PolicyTempAfterKill = "temp_after_kill"
)

// Values of PolicyLinks.
const (
	LinksRefuse = "refuse" // a link in any component ends the call before staging
	LinksFollow = "follow" // components are resolved inside the root, as the kernel does
)

// Values of the other policies that rules read.
const (
	HardlinkBreak   = "break"    // the name parts from the others
	HardlinkRefuse  = "refuse"   // a file with several names is not written
	HardlinkInPlace = "in_place" // the others see the new bytes

	DurabilityDurable     = "durable"      // what was acknowledged survives a power cut
	DurabilityCrashAtomic = "crash_atomic" // old or new after a power cut
	DurabilityAtomic      = "atomic"       // old or new to readers, and after a kill
	DurabilityNone        = "none"         // written in place: an interrupted write may leave anything

	Mode0600     = "0600"
	ModeUmask    = "umask"
	ModePreserve = "preserve"

	XattrPreserve = "preserve"
	XattrDrop     = "drop"
	XattrRefuse   = "refuse"

	ParentCreate = "create"
	ParentRefuse = "refuse"

	TempLeft  = "left"
	TempSwept = "own_sweep"
	TempNone  = "none"

	ParentsRemove = "remove"
	ParentsKeep   = "keep"
)

// PolicyValues lists, for every policy, the values a SUT may declare; the first
// is what the reference does.
var PolicyValues = map[string][]string{
	PolicyLinks:         {LinksRefuse, LinksFollow},
	"symlink_leaf":      {"refuse", "follow_inside", "replace"},
	PolicyHardlink:      {HardlinkBreak, HardlinkRefuse, HardlinkInPlace},
	PolicyDurability:    {DurabilityDurable, DurabilityCrashAtomic, DurabilityAtomic, DurabilityNone},
	PolicyMode:          {Mode0600, ModeUmask, ModePreserve},
	PolicyXattr:         {XattrPreserve, XattrDrop, XattrRefuse},
	"newline":           {"preserve", "normalise"},
	PolicyMissingParent: {ParentCreate, ParentRefuse},
	PolicyTempAfterKill: {TempLeft, TempSwept, TempNone},
	"case":              {"exact", "fold"},
	PolicyParents:       {ParentsRemove, ParentsKeep},
}
