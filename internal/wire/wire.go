// Package wire is version 1 of the protocol between the bench and the process
// of a subject: what is said (messages.go), what it means in the words of
// package spec (convert.go), how a line is checked before anything believes it
// (line.go, conn.go), and how the process that says it is held (process.go).
//
// It knows the words and nothing else: not what a driver or a server does with
// a message, and not what a rule says about it. Both ends of the pipe import it,
// so a judgement made here would be one that neither end could be caught
// breaking.
package wire

// Limits of the protocol.
const (
	MaxLine   = 16 << 20            // bytes of one line, its line feed not counted
	MaxDepth  = 64                  // objects and arrays inside each other
	MaxInline = 64 << 10            // bytes of content; more travels by file where there is a folder for it
	MaxReply  = MaxLine/4*3 - 1<<20 // bytes of content that fit in an answer, which is always inline
)

// Speaks is the range of protocol versions that this package speaks.
var Speaks = Range{Min: 1, Max: 1}

// The methods. A subject's process is asked all of them but the last group,
// which it asks the runner.
const (
	MethodHello    = "hello"
	MethodOpen     = "open"
	MethodDo       = "do"
	MethodCancel   = "cancel" // a notification
	MethodLog      = "log"
	MethodConfess  = "confess"
	MethodRegistry = "registry"
	MethodTurn     = "turn"
	MethodBench    = "bench/run"
	MethodArm      = "worker/arm"
	MethodDisarm   = "worker/disarm"
	MethodQuiesce  = "quiesce"
	MethodClose    = "close"
	MethodShutdown = "shutdown"

	// These two go both ways: to a subject that is a broker, and from a subject
	// that is a registry to the runner's scripted brokers.
	MethodWrite  = "broker/write"
	MethodDelete = "broker/delete"

	MethodPrompt = "ui/prompt"
	MethodEvent  = "event" // a notification
	MethodEdit   = "worker/edit"
)

// The optional features, beside the call kinds, that a subject may claim.
const (
	FeatureExpectVersion = "expect_version"
	FeatureExclusive     = "exclusive"
	FeatureConfess       = "confess"
	FeatureLog           = "log"
	FeatureTurn          = "turn"
	FeatureBench         = "bench"
	FeatureWorker        = "worker"
)

// Roles lists the parts of the contract that a subject may claim.
var Roles = []string{"broker", "registry", "tools", "confessor", "host"}

// Error codes beside those that JSON-RPC itself reserves.
const (
	// CodeFault stands in the error with which an answer that departs from the
	// protocol is replaced, so that whoever waits for it is not left waiting.
	CodeFault = -32001

	// CodeState says that the request came too early or too late.
	CodeState = -32002
)
