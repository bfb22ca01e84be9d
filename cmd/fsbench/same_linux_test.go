package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/explore"
	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
)

// sameVar says how often a racing subject is explored. make same sets it.
const sameVar = "FSBENCH_SAME"

// eight writes a file and seven beside it at once, on the threads of Node's pool.
const eight = `
const fs = require('fs'), path = process.argv[1], data = fs.readFileSync(0);
Promise.all([...Array(8).keys()].map(async (i) => {
  const to = i ? path + '.' + i : path, tmp = to + '.tmp' + Math.random().toString(36).slice(2);
  const h = await fs.promises.open(tmp, 'wx');
  await h.writeFile(data);
  await h.sync();
  await h.close();
  await fs.promises.rename(tmp, to);
})).catch(() => process.exit(1));`

// sixteenName is what the test binary is told to be sixteen goroutines that do so.
const sixteenName = "sixteen-writers"

func init() {
	if len(os.Args) == 3 && os.Args[1] == sixteenName {
		sixteen(os.Args[2])
		os.Exit(0)
	}
}

func sixteen(path string) {
	data, _ := io.ReadAll(os.Stdin) // the content that it misses is seen in the tree
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			to := path
			if i > 0 {
				to = fmt.Sprintf("%s.%d", path, i)
			}
			if err := replace(to, data); err != nil {
				os.Exit(1)
			}
		})
	}
	all.Wait()
}

func replace(to string, data []byte) error {
	f, err := os.CreateTemp(to[:strings.LastIndexByte(to, '/')], to[strings.LastIndexByte(to, '/')+1:]+".tmp*")
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), to)
}

// TestSameFindings: what is found of subjects whose threads race is the same in each
// exploration, although all processors are busy with something else. Struck are the steps
// that put files in place, each with everything that can go wrong there.
func TestSameFindings(t *testing.T) {
	times, err := strconv.Atoi(os.Getenv(sameVar))
	if err != nil {
		t.Skip("it takes long: make same")
	}
	busy, end := context.WithCancel(t.Context())
	defer end()
	for range runtime.NumCPU() {
		go func() {
			for busy.Err() == nil {
				runtime.Gosched()
			}
		}()
	}
	for name, argv := range map[string][]string{
		"node": {"node", "-e", eight, "{path}"},
		"go":   {"/proc/self/exe", sixteenName, "{path}"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(argv[0]); err != nil {
				t.Skip(err)
			}
			var first []string
			for n := range times {
				got := findings(t, argv)
				if n == 0 {
					first = got
					t.Logf("%d points and findings", len(first))
				}
				if diff := cmp.Diff(first, got); diff != "" {
					t.Fatalf("exploration %d of %d finds something else (-first +this):\n%s", n+1, times, diff)
				}
			}
			if len(first) == 0 {
				t.Error("nothing was found: files beside the asked one were")
			}
		})
	}
}

// random is what the subjects themselves put into names.
var random = regexp.MustCompile(`\.tmp\w+`)

// findings explores a write of a subject, and returns each point with what came of it.
func findings(t *testing.T, argv []string) []string {
	t.Helper()
	g := enter(t, foreign{Exec: true, Cmd: argv})
	renames := func(s faults.Step) bool { return strings.HasPrefix(s.Call, "rename") }
	m, err := fsbench.Explore(t.Context(), g.arena, explore.Bases(spec.CallWrite)[0], explore.Options{Warm: true, Only: renames})
	if err != nil || m.Err() != nil {
		t.Fatal(err, m.Err())
	}
	var out []string
	for _, p := range m.Points {
		out = append(out, fmt.Sprintf("%s: %s %v", p, p.Verdict, p.Rules))
	}
	for _, f := range m.Findings {
		out = append(out, fmt.Sprintf("%d %s: %s", f.Point, f.Rule, random.ReplaceAllString(f.Got, ".tmp")))
	}
	slices.Sort(out)
	return out
}
