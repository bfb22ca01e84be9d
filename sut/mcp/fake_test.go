package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fsbench/fsbench/spec"
)

// The test binary is the server. The variable says which.
const childEnv = "FSBENCH_MCP_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		servers[name]()
		return
	}
	os.Exit(m.Run())
}

// servers are what a child may be. Those that misbehave do so when they are to
// write the file "bad", and serve all else as they should.
var servers map[string]func()

func init() {
	servers = map[string]func(){
		"plain":   func() { serve(nil) },
		"hangs":   hang,
		"dies":    func() { fmt.Fprintln(os.Stderr, "no\nlicence"); os.Exit(3) },
		"toolish": func() { raw(`{"tools":[{"name":"other","inputSchema":{"type":"object"}}]}`, "") },

		"crashes": func() { serve(func() { fmt.Fprintln(os.Stderr, "out of memory"); os.Exit(3) }) },
		"silent":  func() { serve(hang) },
		"deaf":    func() { serve(nil); hang() }, // it does not end with its input
		"prints":  func() { serve(func() { fmt.Fprint(os.Stdout, "hello\n[1]\n{}\n{\"x\":\"\xff\"}\n\n") }) },
		"shouts": func() {
			serve(func() {
				for {
					fmt.Fprintln(os.Stdout, "hello")
				}
			})
		},
		"long": func() {
			serve(func() {
				for line := []byte(strings.Repeat("x", 1<<20)); ; {
					_, _ = os.Stdout.Write(line)
				}
			})
		},
		"storms": func() { serve(func() { storm(20_000) }) },
		"raves":  func() { serve(func() { storm(-1) }) },
		"logs": func() {
			serve(func() {
				for _, level := range []string{"info", "warning", "alert"} {
					fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"logger":"disk","data":"it is full"}}`+"\n", level)
				}
			})
		},
		"asks": func() {
			serve(func() {
				for i := range maxRequests + 1 {
					fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","id":"q%d","method":"ping"}`+"\n", i)
				}
				hang()
			})
		},

		"shape": func() { raw(rawTools, `{"content":"none"}`) },
		"input": func() { raw(rawTools, `{"resultType":"input_required","inputRequests":{},"content":[]}`) },
		"bytes": func() {
			raw(rawTools, `{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"AP8="},`+
				`{"type":"resource","resource":{"uri":"file:///f","blob":"/w=="}},{"type":"resource","resource":{"uri":"file:///f","text":"z"}}]}`)
		},
	}
}

// hang ignores the end of its input.
func hang() { <-make(chan struct{}) }

func storm(n int) {
	out := bufio.NewWriter(os.Stdout)
	for i := 0; i != n; i++ {
		fmt.Fprintln(out, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
	}
	_ = out.Flush()
}

// fakeBinding is how the fake servers are bound.
func fakeBinding(argv ...string) Binding {
	return Binding{
		Name: "fake", Version: "1", Command: append(argv, phRoot), Paths: PathsRelative,
		Tools: map[spec.CallKind]Tool{
			spec.CallRead:   {Name: "take", Args: map[string]string{"at": phPath}},
			spec.CallWrite:  {Name: "put", Args: map[string]string{"at": phPath, "what": phContent}, Constants: map[string]any{"mode": "over"}},
			spec.CallEdit:   {Name: "put", Args: map[string]string{"at": phPath, "what": phBase64}, Constants: map[string]any{"mode": "add"}},
			spec.CallDelete: {Name: "drop", Args: map[string]string{"at": phPath}},
			spec.CallMove:   {Name: "shift", Args: map[string]string{"at": phPath, "to": phTo}},
			spec.CallView:   {Name: "look", Args: map[string]string{"at": phPath}},
			spec.CallTool:   {},
		},
		Errors: []ErrorText{
			{"permission denied", spec.ErrAccess},
			{"^ENOTDIR", spec.ErrNotDir},
			{"no such file", spec.ErrNotFound},
			{"file", spec.ErrBusy}, // the first that matches counts
			{"no such tool", spec.ErrUnsupported},
		},
		Policies: spec.Policies{spec.PolicyLinks: spec.LinksFollow},
	}
}

// serve is an honest server, but for what it does when it is to write "bad".
func serve(misbehave func()) {
	root := os.Args[len(os.Args)-1]
	server := sdk.NewServer(&sdk.Implementation{Name: "fake", Version: "0"}, nil)
	for _, name := range []string{"take", "put", "drop", "shift", "look"} {
		tool := &sdk.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}
		server.AddTool(tool, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var args struct{ At, To, What, Mode string }
			if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
				return nil, err
			}
			if args.At == "bad" && misbehave != nil {
				misbehave()
			}
			switch args.At {
			case "refused":
				return nil, &jsonrpc.Error{Code: -32000, Message: "permission denied: " + args.At}
			case "denied":
				args.What = "EACCES: permission denied, open"
			case "odd":
				args.What = "it did not work"
			default:
				text, err := act(filepath.Join(root, args.At), filepath.Join(root, args.To), name, args.What, args.Mode)
				if err == nil {
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
				}
				args.What = err.Error()
			}
			return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: args.What}}}, nil
		})
	}
	if err := server.Run(context.Background(), &sdk.StdioTransport{}); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
	}
}

func act(at, to, tool, what, mode string) (string, error) {
	switch tool {
	case "take", "look":
		b, err := os.ReadFile(at)
		return string(b), err
	case "put":
		flag := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
		if mode == "add" {
			flag = os.O_CREATE | os.O_WRONLY | os.O_APPEND
		}
		f, err := os.OpenFile(at, flag, 0o600)
		if err != nil {
			return "", err
		}
		_, err = f.WriteString(what)
		return "done", errors.Join(err, f.Close())
	case "drop":
		return "done", os.Remove(at)
	default:
		return "done", os.Rename(at, to)
	}
}

const rawTools = `{"tools":[{"name":"take"},{"name":"put"},{"name":"drop"},{"name":"shift"},{"name":"look"}]}`

// raw answers by hand, every call with result, and notes each call in its root.
func raw(tools, result string) {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(line, &m); err != nil {
			panic(err)
		}
		answer := `"error":{"code":-32601,"message":"no such method"}`
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"0"}}`
		case "tools/list":
			answer = `"result":` + tools
		case "tools/call":
			f, err := os.OpenFile(filepath.Join(os.Args[len(os.Args)-1], "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				panic(err)
			}
			fmt.Fprintln(f, "call")
			_ = f.Close()
			answer = `"result":` + result
		}
		if m.ID != nil {
			fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer)
		}
	}
}

// again makes cmd the fake server of that name.
func again(cmd *exec.Cmd, name string) error {
	self, err := os.Executable()
	cmd.Path = self
	cmd.Env = append(os.Environ(), childEnv+"="+name, "GORACE=atexit_sleep_ms=0")
	return err
}
