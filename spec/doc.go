// Package spec is the contract in words: what an agent host, the reference
// implementation and the oracle call things, and the catalogue of rules they
// are held to.
//
// It holds data and the text forms of data, and imports the standard library
// only. It deliberately has no predicate that decides a rule: "is this errno a
// denial" is asked once in impl and once in model, and the two answers must be
// able to differ. A predicate both sides read here would be a rule that neither
// can be caught breaking.
package spec
