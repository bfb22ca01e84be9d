//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fsbench/fsbench/faults"
)

// TestRecordOfTheOfficialServer: the file server that everybody has writes, edits,
// makes a folder, moves, and writes through a link and to a file of two names.
func TestRecordOfTheOfficialServer(t *testing.T) {
	need(t, "node")
	const where = "FSBENCH_MCP_FILESYSTEM" // as in the tests of sut/mcp
	folder := os.Getenv(where)
	if folder == "" {
		t.Skip(where + " does not name a folder with the official server")
	}
	server := filepath.Join(folder, "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")
	if _, err := os.Stat(server); err != nil {
		t.Skip(err)
	}
	tp := newTape(t, func(base string) {
		put(t, base+"/ws/f", "old\n")
		put(t, base+"/ws/twin", "twin\n")
		for _, err := range []error{os.Symlink("f", base+"/ws/l"), os.Link(base+"/ws/twin", base+"/ws/d")} {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	root := tp.base + "/ws"
	big := strings.Repeat("0123456789abcde\n", 1<<14)
	said := tp.talk([]string{"node", server, root}, []tool{
		{"write_file", map[string]any{"path": root + "/new", "content": "one\n"}},
		{"write_file", map[string]any{"path": root + "/f", "content": "new\n"}},
		{"write_file", map[string]any{"path": root + "/l", "content": "through a link\n"}},
		{"write_file", map[string]any{"path": root + "/twin", "content": "alone\n"}},
		{"write_file", map[string]any{"path": root + "/big", "content": big}},
		{"edit_file", map[string]any{"path": root + "/f", "edits": []map[string]string{{"oldText": "link", "newText": "edit"}}}},
		{"create_directory", map[string]any{"path": root + "/made/deep"}},
		{"move_file", map[string]any{"source": root + "/new", "destination": root + "/made/deep/moved"}},
		{"move_file", map[string]any{"source": root + "/made", "destination": root + "/elsewhere"}},
		{"read_text_file", map[string]any{"path": root + "/f"}},
	})
	if last := said[len(said)-1]; !strings.Contains(last, "through a edit") {
		t.Errorf("the server reads %s, want what it has edited", last)
	}
	rec := tp.replay()
	complete(t, rec)
	for _, call := range []string{"rename", "mkdir", "write"} {
		done := func(m faults.Mutation) bool { return strings.Contains(m.Call, call) }
		if !slices.ContainsFunc(rec.Mutations, done) {
			t.Errorf("no %s is on record", call)
		}
	}
}

// tool is one call of a server's tool.
type tool struct {
	name string
	args map[string]any
}

// talk has a server of the Model Context Protocol do one call after the other, and
// returns its answers. All of them must be good.
func (tp *tape) talk(argv []string, calls []tool) (answers []string) {
	t := tp.t
	t.Helper()
	var out io.ReadCloser
	var in io.WriteCloser
	tp.converse = func(cmd *exec.Cmd) func() {
		var err error
		if in, err = cmd.StdinPipe(); err == nil {
			out, err = cmd.StdoutPipe()
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			defer in.Close()
			enc, dec := json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))
			ask := func(id int, method string, params any) string {
				_ = enc.Encode(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
				for {
					var got struct {
						ID     *int
						Result json.RawMessage
					}
					if err := dec.Decode(&got); err != nil {
						t.Errorf("%s: %v", method, err)
						return ""
					}
					if got.ID != nil && *got.ID == id {
						return string(got.Result)
					}
				}
			}
			ask(0, "initialize", map[string]any{
				"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "fsbench", "version": "1"},
			})
			_ = enc.Encode(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
			for i, c := range calls {
				said := ask(i+1, "tools/call", map[string]any{"name": c.name, "arguments": c.args})
				if said == "" || strings.Contains(said, `"isError":true`) {
					t.Errorf("%s: %s", c.name, said)
				}
				answers = append(answers, said)
			}
		}
	}
	tp.run(argv...)
	return answers
}
