package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fsbench/fsbench/internal/wire"
)

// A scripted child speaks the protocol by hand, so that it can speak it badly.
// It is run as a function and as a process: the test binary is its own child.
const hostileEnv = "FSBENCH_STDIO_CHILD"

// actor is a scripted child on its stage.
type actor struct {
	ctx  context.Context
	in   *bufio.Reader
	out  io.Writer
	errs io.Writer
	life int // 1 for the first child of a test, where the test counts them

	heard []string // what the echo was asked
}

// script answers a request; methods that it leaves out are answered as they
// should be. It returns false to end the child.
type script map[string]func(*actor, wire.Message) bool

func (s script) play(a *actor) {
	for {
		line, err := a.in.ReadBytes('\n')
		if err != nil {
			return
		}
		m, fault := wire.Parse(line[:len(line)-1])
		if fault != nil {
			panic(fault) // the runner never departs from the protocol
		}
		act := s[m.Method]
		if act == nil {
			act = plain[m.Method]
		}
		if !act(a, m) {
			return
		}
	}
}

// say writes a line.
func (a *actor) say(format string, args ...any) bool {
	_, err := fmt.Fprintf(a.out, format+"\n", args...)
	return err == nil
}

// answer answers m.
func (a *actor) answer(m wire.Message, result string) bool {
	return a.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// hang does nothing until the child is killed.
func (a *actor) hang() bool {
	<-a.ctx.Done()
	return false
}

// ask makes a request of the runner and returns its answer.
func (a *actor) ask(method, params string) wire.Message {
	a.say(`{"jsonrpc":"2.0","id":"ask","method":%q,"params":%s}`, method, params)
	line, err := a.in.ReadBytes('\n')
	if err != nil {
		return wire.Message{}
	}
	m, fault := wire.Parse(line[:len(line)-1])
	if fault != nil {
		panic(fault)
	}
	return m
}

const (
	implementation = `"implementation":{"name":"scripted","version":"1","language":"go"},"limits":{"max_content":0,"concurrency":1}`
	goodGreeting   = `{"protocol":1,"roles":["tools","registry"],"capabilities":{"read":true,"write":true,"log":true,"confess":true},"policies":{"links":"refuse"},` + implementation + `}`
	applied        = `{"outcome":"applied"}`
)

func says(result string) func(*actor, wire.Message) bool {
	return func(a *actor, m wire.Message) bool { return a.answer(m, result) }
}

// plain is how a child should answer.
var plain = script{
	wire.MethodHello:    says(goodGreeting),
	wire.MethodOpen:     says(`{}`),
	wire.MethodDo:       says(applied),
	wire.MethodCancel:   func(*actor, wire.Message) bool { return true },
	wire.MethodLog:      says(`{"entries":[]}`),
	wire.MethodConfess:  says(`{"count":0,"denials":[]}`),
	wire.MethodQuiesce:  says(`{}`),
	wire.MethodClose:    says(`{}`),
	wire.MethodShutdown: says(`{}`),
}

// onFirst misbehaves in call 1 only.
func onFirst(act func(*actor, wire.Message) bool) script {
	return script{wire.MethodDo: func(a *actor, m wire.Message) bool {
		var params wire.Do
		if err := wire.Decode(m.Params, &params); err != nil {
			panic(err)
		}
		if params.Call.ID != 1 {
			return a.answer(m, applied)
		}
		return act(a, m)
	}}
}

// line has call 1 answered with a line made of its id.
func line(format string) script {
	return onFirst(func(a *actor, m wire.Message) bool { return a.say(format, m.ID) })
}

// before has call 1 answered as it should be, after a line.
func before(format string) script {
	return onFirst(func(a *actor, m wire.Message) bool { return a.say(format) && a.answer(m, applied) })
}

// asking has call 1 answered with the runner's answer as its message.
func asking(method, params string) script {
	return onFirst(func(a *actor, m wire.Message) bool {
		answer := a.ask(method, params)
		text := answer.Result
		if answer.Error != nil {
			text = answer.Error
		}
		message, _ := json.Marshal(string(text))
		return a.answer(m, fmt.Sprintf(`{"outcome":"unknown","error":{"message":%s}}`, message))
	})
}

func dies(*actor, wire.Message) bool { return false }

var bigLine = strings.Repeat("x", 17<<20)

// scripts are the ways to be a child.
var scripts = map[string]script{
	"good":                 {},
	"banner":               {wire.MethodHello: func(a *actor, m wire.Message) bool { return a.say("ready.") && a.answer(m, goodGreeting) }},
	"print in a call":      before("debugging, sorry"),
	"blank line":           before(""),
	"batch":                line(`[{"jsonrpc":"2.0","id":%s,"result":{"outcome":"applied"}}]`),
	"garbage after object": line(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":"applied"}} ok`),
	"bad bytes":            line("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"outcome\":\"applied\",\"x\":\"\xff\"}}"),
	"half a character":     line(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":"applied","x":"\ud800"}}`),
	"depth 65":             line(`{"jsonrpc":"2.0","id":%s,"result":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`),
	"depth 64":             line(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":"applied","x":` + strings.Repeat("[", 62) + strings.Repeat("]", 62) + `}}`),
	"17 MiB":               onFirst(func(a *actor, _ wire.Message) bool { return a.say("%s", bigLine) }),
	"duplicate key":        line(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":"not_applied","outcome":"applied"}}`),
	"no version member":    line(`{"id":%s,"result":{"outcome":"applied"}}`),
	"result and error":     line(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":"applied"},"error":{"code":1,"message":"m"}}`),
	"neither":              line(`{"jsonrpc":"2.0","id":%s}`),
	"stray member":         line(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":"applied"},"note":1}`),
	"unknown id":           before(`{"jsonrpc":"2.0","id":12345,"result":{"outcome":"applied"}}`),
	"null id":              before(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`),
	"request with null id": before(`{"jsonrpc":"2.0","id":null,"method":"broker/write","params":{}}`),
	"request without id":   before(`{"jsonrpc":"2.0","method":"broker/write","params":{}}`),
	"second answer": onFirst(func(a *actor, m wire.Message) bool {
		return a.answer(m, applied) && a.answer(m, `{"outcome":"unknown"}`)
	}),
	"unknown word":          line(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":"done"}}`),
	"unknown class":         line(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":"not_applied","error":{"class":"EACCES"}}}`),
	"no class":              line(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":"declined","error":{}}}`),
	"no outcome":            line(`{"jsonrpc":"2.0","id":%s,"result":{}}`),
	"receipt elsewhere":     line(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":"applied","receipt":{"dst":"/etc/passwd"}}}`),
	"relative receipt":      line(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":"applied","receipt":{"dst":"a"}}}`),
	"unknown notification":  before(`{"jsonrpc":"2.0","method":"progress","params":{}}`),
	"event of no worker":    before(`{"jsonrpc":"2.0","method":"event","params":{"seq":1,"actor":"fault"}}`),
	"unknown method":        asking("fs/read", `{}`),
	"edit of no worker":     asking(wire.MethodEdit, `{"edit":{"op":"remove","path":"a"}}`),
	"unknown handler":       asking(wire.MethodWrite, `{"handler":"h9","dst":"/r/a","content_b64":"","cause":{"class":"permission_denied"},"exclusive":false}`),
	"handler of other seam": asking(wire.MethodDelete, `{"handler":"h1","dst":"/r/a","cause":{"class":"permission_denied"},"confirmed_file":true}`),
	"no handler":            asking(wire.MethodWrite, `{"dst":"/r/a","content_b64":"","cause":{"class":"permission_denied"},"exclusive":false}`),
	"no content":            asking(wire.MethodWrite, `{"handler":"h1","dst":"/r/a","cause":{"class":"permission_denied"},"exclusive":false}`),
	"file of its choice":    asking(wire.MethodWrite, `{"handler":"h1","dst":"/r/a","content_file":"/etc/shadow","cause":{"class":"permission_denied"},"exclusive":false}`),
	"unknown cause":         asking(wire.MethodDelete, `{"handler":"h2","dst":"/r/a","cause":{"class":"because"},"confirmed_file":true}`),
	"list of params":        asking(wire.MethodPrompt, `[]`),
	"prompt":                asking(wire.MethodPrompt, `{"session":"s","text":"may I?"}`),
	"handler that lands":    asking(wire.MethodWrite, `{"handler":"h1","dst":"/r/a","content_b64":"QQ==","cause":{"class":"permission_denied","errno":"EPERM"},"session":"s1","exclusive":true}`),
	"handler that throws":   asking(wire.MethodDelete, `{"handler":"h2","dst":"/r/a","cause":{"class":"read_only_fs"},"confirmed_file":true}`),
	"refuses the call":      line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"out of order"}}`),
	"dies at once":          {wire.MethodHello: dies},
	"dies in a call":        onFirst(dies),
	"answers and dies":      onFirst(func(a *actor, m wire.Message) bool { a.answer(m, applied); return false }),
	"ends mid-line": onFirst(func(a *actor, m wire.Message) bool {
		fmt.Fprintf(a.out, `{"jsonrpc":"2.0","id":%s,"res`, m.ID)
		return false
	}),
	"ends before line feed": onFirst(func(a *actor, m wire.Message) bool {
		fmt.Fprintf(a.out, `{"jsonrpc":"2.0","id":%s,"result":{"outcome":"applied"}}`, m.ID)
		return false
	}),
	"silent in a call":     onFirst(func(*actor, wire.Message) bool { return true }),
	"silent in a greeting": {wire.MethodHello: func(*actor, wire.Message) bool { return true }},
	"never reads":          {wire.MethodHello: func(a *actor, _ wire.Message) bool { return a.hang() }},
	"stops reading":        onFirst(func(a *actor, _ wire.Message) bool { return a.hang() }),
	"deaf to the end":      {wire.MethodQuiesce: func(a *actor, _ wire.Message) bool { return a.hang() }},
	"closes stdout and lives": onFirst(func(a *actor, _ wire.Message) bool {
		if closer, ok := a.out.(io.Closer); ok {
			_ = closer.Close()
		}
		return a.hang()
	}),
	"late": onFirst(func(a *actor, m wire.Message) bool {
		cancel, err := a.in.ReadBytes('\n') // nothing else makes the deadline certain to have passed
		if err != nil || !strings.Contains(string(cancel), `"cancel"`) {
			panic(fmt.Sprintf("%s, %v: want a cancel", cancel, err))
		}
		return a.answer(m, applied)
	}),
	"floods stderr": onFirst(func(a *actor, m wire.Message) bool {
		chunk := strings.Repeat("noise ", 10000) + "\n"
		for range 100 {
			_, _ = io.WriteString(a.errs, chunk)
		}
		return a.answer(m, applied)
	}),
	"floods stdout": onFirst(func(a *actor, _ wire.Message) bool {
		for a.say("noise") {
		}
		return false
	}),
	"complains": onFirst(func(a *actor, m wire.Message) bool {
		_, _ = io.WriteString(a.errs, "plain text\n"+
			`{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"too quiet"}`+"\n"+
			`{"time":"2026-01-01T00:00:00Z","level":"WARN","msg":"handler failed","handler":2,"error":"boom","where":{"dst":"/r/a"}}`+"\n"+
			`{"level":"ERROR","msg":`)
		_, _ = io.WriteString(a.errs, `"in two pieces"}`+"\n")
		return a.answer(m, applied)
	}),
	"complains without end": onFirst(func(a *actor, m wire.Message) bool {
		for range 2 * maxDiags {
			_, _ = io.WriteString(a.errs, `{"level":"ERROR","msg":"again"}`+"\n")
		}
		return a.answer(m, applied)
	}),
	"version 99":      {wire.MethodHello: says(`{"protocol":99,"roles":[],"capabilities":{},"policies":{},` + implementation + `}`)},
	"unknown policy":  {wire.MethodHello: says(`{"protocol":1,"roles":[],"capabilities":{},"policies":{"links":"sometimes"},` + implementation + `}`)},
	"no capabilities": {wire.MethodHello: says(`{"protocol":1,"roles":[],"policies":{},` + implementation + `}`)},
	"refuses to open": {wire.MethodOpen: func(a *actor, m wire.Message) bool {
		return a.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`, m.ID)
	}},
	"changes its name": {wire.MethodHello: func(a *actor, m wire.Message) bool {
		return a.answer(m, strings.Replace(goodGreeting, "scripted", fmt.Sprint("scripted ", a.life), 1))
	}, wire.MethodDo: dies},
	"refuses log and confession": {
		wire.MethodLog: func(a *actor, m wire.Message) bool {
			return a.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no Log"}}`, m.ID)
		},
		wire.MethodConfess: says(`{"count":0}`),
	},
}

const workerGreeting = `{"protocol":{"min":1,"max":2},"roles":["tools","broker"],"capabilities":{"worker":true,"exclusive":false},"policies":{},` + implementation + `}`

// worker is a child that takes a plan: call 1 strikes, edits and dies.
var worker = script{
	wire.MethodHello: says(workerGreeting),
	wire.MethodArm: func(a *actor, m wire.Message) bool {
		return a.event(`"armed"`) && a.event(string(m.Params)) && a.answer(m, `{"unfired":["x"]}`)
	},
	wire.MethodDisarm: says(`{"unfired":["x"]}`),
	wire.MethodDo: func(a *actor, m wire.Message) bool {
		for n := range 50 {
			a.event(fmt.Sprint(n))
		}
		if answer := a.ask(wire.MethodEdit, `{"edit":{"op":"rename","path":"a","to":"b"}}`); answer.Error != nil {
			return a.answer(m, `{"outcome":"not_applied","error":{"class":"internal"}}`)
		}
		a.event(`"after the edit"`)
		return false
	},
}

// event sends a notification.
func (a *actor) event(of string) bool {
	return a.say(`{"jsonrpc":"2.0","method":"event","params":{"seq":1,"actor":"fault","of":%s}}`, of)
}

// echo is a child that says what it was asked.
var echo = script{
	wire.MethodHello: says(workerGreeting),
	wire.MethodOpen: func(a *actor, m wire.Message) bool {
		a.heard = append(a.heard, string(m.Params))
		return a.answer(m, `{}`)
	},
	wire.MethodDo: func(a *actor, m wire.Message) bool {
		a.heard = append(a.heard, string(m.Params))
		return a.answer(m, applied)
	},
	wire.MethodWrite: func(a *actor, m wire.Message) bool {
		a.heard = append(a.heard, string(m.Params))
		return a.answer(m, `{"landed":true}`)
	},
	wire.MethodDelete: func(a *actor, m wire.Message) bool {
		return a.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"not me"}}`, m.ID)
	},
	wire.MethodConfess: func(a *actor, m wire.Message) bool {
		a.heard = append(a.heard, string(m.Params))
		return a.answer(m, `{"status":"unavailable","denials":[]}`)
	},
}

// playProcess is main of the test binary as a child.
func playProcess(name string) {
	a := &actor{ctx: context.Background(), in: bufio.NewReader(os.Stdin), out: os.Stdout, errs: os.Stderr, life: 1}
	scripts[name].play(a)
}
