package spec

// Policies are choices that the contract leaves open and a SUT declares: what
// it does with links, hard links, modes and the like. Rules judge a SUT by what
// it declared.
type Policies map[string]string

// The policies that rules read.
const (
	PolicyLinks         = "links"
	PolicyHardlink      = "hardlink"
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

// PolicyValues lists, for every policy, the values a SUT may declare; the first
// is what the reference does.
var PolicyValues = map[string][]string{
	PolicyLinks:         {LinksRefuse, LinksFollow},
	"symlink_leaf":      {"refuse", "follow_inside", "replace"},
	PolicyHardlink:      {"break", "refuse", "in_place"},
	"durability":        {"durable", "crash_atomic", "atomic", "none"},
	PolicyMode:          {"0600", "umask", "preserve"},
	PolicyXattr:         {"preserve", "drop", "refuse"},
	"newline":           {"preserve", "normalise"},
	PolicyMissingParent: {"create", "refuse"},
	PolicyTempAfterKill: {"left", "own_sweep", "none"},
	"case":              {"exact", "fold"},
	PolicyParents:       {"remove", "keep"},
}
