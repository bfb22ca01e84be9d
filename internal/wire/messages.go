package wire

import (
	"encoding/json"

	"github.com/fsbench/fsbench/spec"
)

// Empty is the result of a method that has nothing to say, and the parameters
// of one that needs none.
type Empty struct{}

// Hello is the first request to every process.
type Hello struct {
	Protocol Range    `json:"protocol"`
	Edition  string   `json:"edition"` // of the rules
	Runner   string   `json:"runner"`
	Wants    []string `json:"wants"` // roles
}

// Greeting answers Hello.
type Greeting struct {
	Protocol       Range           `json:"protocol"`
	Implementation Implementation  `json:"implementation"`
	Roles          []string        `json:"roles"`
	Capabilities   map[string]bool `json:"capabilities"`
	Policies       spec.Policies   `json:"policies"`
	Limits         Limits          `json:"limits"`
}

// Implementation says whose process it is.
type Implementation struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Language string `json:"language"`
	Homepage string `json:"homepage,omitempty"`
	Issues   string `json:"issues,omitempty"`
}

// Limits are what a subject can take.
type Limits struct {
	MaxContent  int64 `json:"max_content"` // bytes
	Concurrency int   `json:"concurrency"` // sessions open at a time
}

// Open gives the process a root.
type Open struct {
	Session   string          `json:"session"` // what is opened; not the agent session of a call
	Root      string          `json:"root"`    // absolute, links resolved
	Workspace string          `json:"workspace,omitempty"`
	AgentWork string          `json:"agent_work,omitempty"`
	Policy    json.RawMessage `json:"policy,omitempty"`  // write policy
	Brokers   []BrokerID      `json:"brokers,omitempty"` // the runner's scripted ones, to be registered in this order
	Allow     []string        `json:"allow,omitempty"`   // canonical destinations a broker may serve
}

// BrokerID names one scripted broker of the runner.
type BrokerID struct {
	ID   string    `json:"id"`
	Seam spec.Seam `json:"seam"`
}

// Do asks for one call.
type Do struct {
	Call     Call  `json:"call"`
	Deadline int64 `json:"deadline_ms,omitempty"` // milliseconds from now; absent means no limit
}

// Call is spec.Call on the wire.
type Call struct {
	ID      spec.CallID    `json:"id"`
	Session spec.SessionID `json:"session,omitempty"`
	Kind    spec.CallKind  `json:"kind"`
	Path    string         `json:"path"`
	To      string         `json:"to,omitempty"`
	Content
	ExpectVersion string          `json:"expect_version,omitempty"`
	Tool          string          `json:"tool,omitempty"`
	Args          json.RawMessage `json:"args,omitempty"`
}

// Content is file content under way: inline, or in a file of the runner's.
// Empty content and no content are different things.
type Content struct {
	B64  []byte `json:"content_b64,omitzero"`
	File string `json:"content_file,omitempty"`
}

// Word is the outcome word of an answer.
type Word string

// The outcome words.
const (
	Applied    Word = "applied"
	NotApplied Word = "not_applied"
	Unknown    Word = "unknown"
	Declined   Word = "declined"
)

// Words lists every Word.
var Words = []Word{Applied, NotApplied, Unknown, Declined}

// Outcome answers Do.
type Outcome struct {
	Outcome Word     `json:"outcome"`
	Error   *Failure `json:"error,omitempty"`
	Receipt *Receipt `json:"receipt,omitempty"`
	B64     []byte   `json:"content_b64,omitzero"` // reads only
}

// Failure says why. Class is required where the word is NotApplied or Declined.
type Failure struct {
	Class     spec.Class `json:"class,omitempty"`
	Errno     string     `json:"errno,omitempty"`
	Retryable bool       `json:"retryable,omitempty"`
	Message   string     `json:"message,omitempty"`
}

// Receipt is what a subject may say about the bytes that it placed or read.
type Receipt struct {
	Dst     string `json:"dst,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	Size    int64  `json:"size,omitempty"` // bytes
	Mode    string `json:"mode,omitempty"` // octal
	Durable string `json:"durable,omitempty"`
	Version string `json:"version,omitempty"`
}

// Durables lists what a receipt may claim.
var Durables = []string{"none", "file", "file+dir"}

// Cause is the error that a broker is asked because of.
type Cause struct {
	Class spec.Class `json:"class"`
	Errno string     `json:"errno,omitempty"`
}

// BrokerWrite asks a broker to place exact bytes. Handler is there when the
// runner's scripted brokers are asked, and says which one.
type BrokerWrite struct {
	Handler string `json:"handler,omitempty"`
	Dst     string `json:"dst"`
	Content
	Cause     Cause          `json:"cause"`
	Session   spec.SessionID `json:"session,omitempty"`
	Exclusive bool           `json:"exclusive"`
}

// BrokerDelete asks a broker for a plain unlink.
type BrokerDelete struct {
	Handler       string         `json:"handler,omitempty"`
	Dst           string         `json:"dst"`
	Cause         Cause          `json:"cause"`
	ConfirmedFile bool           `json:"confirmed_file"`
	Session       spec.SessionID `json:"session,omitempty"`
}

// Landed answers both.
type Landed struct {
	Landed bool `json:"landed"`
}

// Confess asks for an account of denials. Exactly one field is set.
type Confess struct {
	Session *spec.SessionID   `json:"session,omitempty"` // whose own Log is to be read
	Events  []json.RawMessage `json:"events,omitzero"`   // to be folded in this order
	Log     []byte            `json:"log_b64,omitzero"`  // a Log file, byte for byte
}

// Confession is spec.Confession on the wire.
type Confession struct {
	Count   *int              `json:"count,omitempty"`
	Status  string            `json:"status,omitempty"`
	Error   string            `json:"error,omitempty"`
	Denials []json.RawMessage `json:"denials"`
}

// Log asks for the whole Log of an agent session.
type Log struct {
	Session spec.SessionID `json:"session"`
}

// Entries answers Log, in file order.
type Entries struct {
	Entries []LogEntry `json:"entries"`
}

// LogEntry is spec.LogEntry on the wire. Nothing is required of an entry here:
// what a Log must hold is for the rules to say.
type LogEntry struct {
	ID      string          `json:"id,omitempty"`
	Session string          `json:"session_id,omitempty"`
	Seq     json.RawMessage `json:"seq,omitempty"`
	Time    string          `json:"ts,omitempty"`
	Type    string          `json:"type,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Cancel says that nobody waits for a request any more.
type Cancel struct {
	ID json.RawMessage `json:"id"` // of the request, as it stood on its line
}

// Session names an agent session, or with Close and Quiesce what was opened;
// absent means all.
type Session struct {
	Session string `json:"session,omitempty"`
}

// Registry changes what a registry holds.
type Registry struct {
	Action  string         `json:"action"` // one of RegistryActions
	Seam    spec.Seam      `json:"seam,omitempty"`
	Handler string         `json:"handler,omitempty"`
	Session spec.SessionID `json:"session,omitempty"`
}

// RegistryActions lists what Registry may ask for.
var RegistryActions = []string{"register", "dispose", "initialise", "shutdown"}

// Turn begins or ends a Turn of the host.
type Turn struct {
	Session spec.SessionID `json:"session"`
	Action  string         `json:"action"` // one of TurnActions
}

// TurnActions lists what Turn may ask for.
var TurnActions = []string{"begin", "end", "interrupt"}

// Prompt asks the person in front of the host.
type Prompt struct {
	Session spec.SessionID `json:"session"`
	Text    string         `json:"text"`
}

// Allowed answers Prompt.
type Allowed struct {
	Allowed bool `json:"allowed"`
}

// Bench asks the process to measure itself.
type Bench struct {
	Dir     string `json:"dir"`
	Size    int64  `json:"size"` // bytes
	N       int    `json:"n"`
	Writers int    `json:"writers"`
}

// Timing answers Bench.
type Timing struct {
	NS    int64 `json:"ns"`
	Empty int64 `json:"empty_loop_ns"`
}

// Arm gives the reference's own process a fault plan, before it is opened.
type Arm struct {
	Plan json.RawMessage `json:"plan"`
}

// Unfired answers Arm and Disarm: the injections that have had no effect.
type Unfired struct {
	Unfired []string `json:"unfired"`
}

// Edit asks the runner to change the tree as an adversary would.
type Edit struct {
	Edit spec.Edit `json:"edit"`
}

// Edited answers it. An edit that found nothing to act on, or its place taken, was
// not done, and is no failure.
type Edited struct {
	Done bool `json:"done"`
}
