package jail

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Environment returns what a foreign subject gets of this process's environment:
// where programs are, and how people here write and tell the time. All else may be
// a secret, a token among it. Its home is a folder of its own.
func Environment() []string {
	var paths []string
	for _, p := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(p) { // another one would mean whatever folder the subject is in
			paths = append(paths, p)
		}
	}
	if paths == nil {
		paths = []string{"/usr/local/bin", "/usr/bin", "/bin"}
	}
	env := []string{"HOME=/tmp", "PATH=" + strings.Join(paths, string(filepath.ListSeparator))}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if name == "LANG" || name == "TZ" || strings.HasPrefix(name, "LC_") {
			env = append(env, entry)
		}
	}
	slices.Sort(env)
	return env
}

// network are the variables that say how the network is reached from here, and whom to
// believe there.
var network = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "PIP_CERT",
	"NPM_CONFIG_REGISTRY", "PIP_INDEX_URL", "GOPROXY", "GONOSUMDB",
}

// NetworkNeeds returns what a child that has the network needs beside what every child
// gets: how the network is reached, and the files that it takes to look up a name.
func NetworkNeeds() (env, read []string) {
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if !slices.Contains(network, strings.ToUpper(name)) {
			continue
		}
		env = append(env, entry)
		if filepath.IsAbs(value) && there(value) {
			read = append(read, value)
		}
	}
	if there("/etc/resolv.conf") {
		read = append(read, "/etc/resolv.conf") // which may lead to a service's folder
	}
	return env, read
}

// Needs returns what Spec.Read has to name for a command that is started in dir: the
// program with what it is installed with and what interprets it, the folders of
// the files that its arguments name, and dir if one of them is relative to it. It
// looks at files and runs nothing; what a program finds only when it runs has to be
// named by somebody who knows.
//
// It fails where that would be a whole home, and says what to do.
func Needs(argv []string, dir string) ([]string, error) {
	if len(argv) == 0 {
		return nil, errors.New("want a command")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the current folder: %w", err)
	}
	n := needs{dir: dir, builtin: builtin(), read: map[string]bool{}}
	if err := n.program(argv[0], 0); err != nil {
		return nil, err
	}
	for _, arg := range argv[1:] {
		if err := n.argument(arg); err != nil {
			return nil, err
		}
	}
	if n.relative {
		if err := n.folder(dir); err != nil {
			return nil, fmt.Errorf("the current folder: %w; start it in another, and name files from / on", err)
		}
	}
	return slices.Sorted(maps.Keys(n.read)), nil
}

// needs are collected for one command.
type needs struct {
	dir      string
	builtin  map[string]kind
	read     map[string]bool
	relative bool
}

// maxHops bounds how many links lead to a file, and how many programs interpret each
// other.
const maxHops = 40

// add takes p in, if it is hidden.
func (n *needs) add(p string) {
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		return
	}
	if n.hidden(real) || n.hidden(named(n.builtin, p)) {
		n.read[p] = true
	}
}

func (n *needs) hidden(p string) bool {
	_, itself := n.builtin[p]
	return itself || surroundings(n.builtin, p) != shown
}

// folder takes a folder in, and refuses what is never shown as a whole.
func (n *needs) folder(p string) error {
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		return err
	}
	if what := whole(real); what != "" && n.hidden(real) {
		return fmt.Errorf("%s is %s, which a subject is not shown", p, what)
	}
	n.add(p)
	return nil
}

// hops calls f with every name that p has on the way to what it is: through a chain
// of links, each may lie where only it is needed. It returns the last.
func hops(p string, f func(string)) string {
	for range maxHops {
		f(p)
		to, err := os.Readlink(p)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			parent, err := filepath.EvalSymlinks(filepath.Dir(p))
			if err != nil {
				break
			}
			to = filepath.Join(parent, to)
		}
		p = to
	}
	return p
}

// program takes in what name needs to be started. A program that is not found is not
// reported here: starting it will.
func (n *needs) program(name string, depth int) error {
	p := name
	if strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(p) {
			p, n.relative = filepath.Join(n.dir, p), true
		}
	} else if found, err := exec.LookPath(name); err == nil {
		p = found
	}
	if !filepath.IsAbs(p) || !there(p) || depth > maxHops {
		return nil
	}
	last := hops(p, n.installation)
	for _, word := range interpreter(last) {
		if err := n.program(word, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func there(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// shares are the neighbours of a folder of programs that belong to them: libraries,
// and what tells an interpreter where it is installed. Anything else beside it may
// be somebody's own.
var shares = []string{
	"lib", "lib64", "libexec", "share", "bin", "pyvenv.cfg", "versions", "version", "plugins", "pyenv.d",
}

// installation takes in a program with what it was installed with.
func (n *needs) installation(p string) {
	folder := filepath.Dir(p)
	if n.folder(folder) != nil {
		n.add(p) // it lies among somebody's own files, and comes alone
		return
	}
	prefix := filepath.Dir(folder)
	switch real, err := filepath.EvalSymlinks(prefix); {
	case err != nil || whole(real) != "":
		return
	case !slices.Contains([]string{"bin", "sbin", "shims", "libexec"}, filepath.Base(folder)):
		return
	}
	for _, name := range shares {
		if name == "share" && filepath.Base(prefix) == ".local" {
			continue // keyrings and other programs' data
		}
		n.add(filepath.Join(prefix, name))
	}
}

// interpreter returns what a script names in its first line; nothing for any other
// file.
func interpreter(p string) []string {
	f, err := os.Open(p)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	line, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n') // as much as a kernel reads
	line, script := strings.CutPrefix(line, "#!")
	words := strings.Fields(line)
	if !script || len(words) == 0 {
		return nil
	}
	if filepath.Base(words[0]) != "env" {
		return words[:1]
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			return []string{words[0], word}
		}
	}
	return words[:1]
}

// argument takes in what arg names, if it names anything: a folder itself, a file
// with its folder, also behind the equals sign of an option.
func (n *needs) argument(arg string) error {
	if name, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(name, "-") {
		arg = value
	}
	p := arg
	if !filepath.IsAbs(p) {
		p = filepath.Join(n.dir, p)
	}
	if arg == "" || !there(p) {
		return nil
	}
	n.relative = n.relative || !filepath.IsAbs(arg)
	if info, err := os.Stat(p); err == nil && info.IsDir() {
		return n.named(arg, n.directory(p))
	}
	var err error
	hops(p, func(hop string) {
		if e := n.folder(filepath.Dir(hop)); err == nil {
			err = e
		}
		n.modules(filepath.Dir(hop))
	})
	return n.named(arg, err)
}

func (n *needs) directory(p string) error {
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		return err
	}
	what := whole(real)
	switch _, its := n.builtin[real]; {
	case what == wholeHome:
		return fmt.Errorf("%s is %s, which a subject is not shown", p, what)
	case its:
		return nil // it has one of its own
	}
	n.add(p)
	return nil
}

func (*needs) named(arg string, err error) error {
	if err != nil {
		return fmt.Errorf("argument %q: %w; keep it in a folder below, and show that with --read", arg, err)
	}
	return nil
}

// modules takes in the packages that a program in dir finds in the folders above
// it.
func (n *needs) modules(dir string) {
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		n.add(filepath.Join(dir, "node_modules"))
		n.add(filepath.Join(dir, "package.json"))
	}
}
