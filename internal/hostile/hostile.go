// Package hostile holds programs that mean harm, and looks at what they could have
// harmed: tests run them where subjects run. It is no part of the product, and knows
// nothing of what keeps them.
package hostile

// Name is the first argument of a hostile program; a move and a Prey follow.
const Name = "hostile"

// Prey is what hostile programs are told of.
type Prey struct {
	Tree   string // is theirs, and holds a file f
	Home   string // holds a file secret
	Beside string // a folder beside the tree that everybody may write
	Runner int    // the process that starts them
	Token  string // part of the name of whatever is made, and of what they are not to see
	TCP    string // address that the runner listens at
	Socket string // the same for a socket with a name in no folder
	Path   string // the same for one in a folder
}
