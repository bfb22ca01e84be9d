package spec

// Seam is a place where a denial may be offered to handlers. The two are
// separate registries: a capability to write is not one to delete.
type Seam string

// The two seams.
const (
	SeamWrite  Seam = "write"
	SeamDelete Seam = "delete"
)

// BrokerKind scripts a fallback handler that the bench supplies, honest or not.
type BrokerKind string

// The scripts.
const (
	Honest    BrokerKind = "honest"     // does exactly what was asked, then says so
	Liar      BrokerKind = "liar"       // says so and does nothing
	Short     BrokerKind = "short"      // places half of the bytes, then says so
	Declines  BrokerKind = "declines"   // says no
	Throws    BrokerKind = "throws"     // fails with an error
	Panics    BrokerKind = "panics"     // panics; over a wire, fails with an error
	LateThrow BrokerKind = "late-throw" // does what was asked, then fails with an error
	Mutates   BrokerKind = "mutates"    // scribbles over the request it was given, then says no
)

// BrokerKinds lists every script, for tables that must be total.
var BrokerKinds = []BrokerKind{Honest, Liar, Short, Declines, Throws, Panics, LateThrow, Mutates}

// Broker is one scripted handler. Handlers are registered in order.
type Broker struct {
	Seam Seam       `json:"seam"`
	Kind BrokerKind `json:"kind"`
}
