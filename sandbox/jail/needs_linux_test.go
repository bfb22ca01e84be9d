package jail_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fsbench/fsbench/sandbox/jail"
)

// plant makes files in a home that this process takes for its own, and returns it.
// Names that end in a slash are folders; a name with an arrow is a link.
func plant(t *testing.T, files ...string) string {
	t.Helper()
	home := filepath.Join(publicDir(t), "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	for _, f := range files {
		name, text, _ := strings.Cut(f, " = ")
		link, to, isLink := strings.Cut(name, " => ")
		p := filepath.Join(home, link)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		switch {
		case err != nil:
		case isLink:
			err = os.Symlink(strings.ReplaceAll(to, "HOME", home), p)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(p, 0o755)
		default:
			err = os.WriteFile(p, []byte(strings.ReplaceAll(text, "HOME", home)), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func TestNeeds(t *testing.T) {
	alsoAsUser(t)
	home := plant(
		t, "go/bin/tool = #!/bin/sh", "bin/mine = #!/bin/sh", "top = #!/bin/sh", "secret = s",
		".local/share/venvs/a/bin/a = #!HOME/.local/share/venvs/a/bin/python",
		".local/share/venvs/a/bin/python => HOME/.py/versions/3/bin/python3", ".local/share/venvs/a/lib/m.py = m",
		".local/share/venvs/a/pyvenv.cfg = c", ".local/share/keyrings/k = secret", ".local/lib/l = l",
		".local/bin/a => ../share/venvs/a/bin/a", ".py/versions/3/bin/python3 = binary", ".py/versions/3/lib/os.py = o",
		"proj/dist/index.js = x", "proj/node_modules/m/m.js = m", "proj/.env = secret", "proj/conf/c.json = {}",
		"cur => proj", "far => HOME/proj/dist/index.js", "env/run = #!/usr/bin/env -S X=1 HOME/go/bin/tool -v",
	)
	for _, tc := range []struct {
		name string
		argv []string // HOME stands for the home
		dir  string   // below it
		want []string // below it
		err  string
	}{
		{"what everybody sees", []string{"/bin/sh", "-c", "ls", "/etc/hostname", "/usr/share"}, "proj", nil, ""},
		{"what is not there", []string{"/bin/sh", "HOME/none", "{root}/x", ""}, "proj", nil, ""},
		{"a program", []string{"HOME/go/bin/tool"}, "proj", []string{"go/bin"}, ""},
		{"a program in a folder of programs of the home", []string{"HOME/bin/mine"}, "proj", []string{"bin"}, ""},
		{"a program in the home itself", []string{"HOME/top"}, "proj", []string{"top"}, ""},
		{
			"a program that is installed",
			[]string{"HOME/.local/bin/a"},
			"proj",
			[]string{
				".local/bin", ".local/lib", ".local/share/venvs/a/bin", ".local/share/venvs/a/lib",
				".local/share/venvs/a/pyvenv.cfg", ".py/versions/3/bin", ".py/versions/3/lib",
			},
			"",
		},
		{"an interpreter behind env", []string{"HOME/env/run"}, "proj", []string{"env", "go/bin"}, ""},
		{
			"a script with its packages",
			[]string{"/bin/sh", "HOME/proj/dist/index.js"},
			"go",
			[]string{"proj/dist", "proj/node_modules"},
			"",
		},
		{"an option", []string{"/bin/sh", "--config=HOME/proj/conf/c.json"}, "go", []string{"proj/conf", "proj/node_modules"}, ""},
		{"by links", []string{"/bin/sh", "HOME/cur/conf"}, "go", []string{"cur/conf"}, ""},
		{"relative", []string{"/bin/sh", "conf/c.json"}, "proj", []string{"proj", "proj/conf", "proj/node_modules"}, ""},
		{"a relative program", []string{"bin/tool"}, "go", []string{"go", "go/bin"}, ""},
		{"a home", []string{"/bin/sh", "HOME"}, "go", nil, `argument "HOME": HOME is a whole home`},
		{"all homes", []string{"/bin/sh", "/"}, "go", nil, `argument "/": / is a whole home`},
		{"a file in a home", []string{"/bin/sh", "HOME/secret"}, "go", nil, `argument "HOME/secret": HOME is a whole home`},
		{"a link in a home", []string{"/bin/sh", "HOME/far"}, "go", nil, `argument "HOME/far": HOME is a whole home`},
		{"in a home", []string{"/bin/sh", "./proj"}, "", nil, "the current folder: HOME is a whole home"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			argv := slices.Clone(tc.argv)
			for i := range argv {
				argv[i] = strings.ReplaceAll(argv[i], "HOME", home)
			}
			got, err := jail.Needs(argv, filepath.Join(home, tc.dir))
			if tc.err != "" {
				if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), home, "HOME"), tc.err) {
					t.Errorf("%v, want %s", err, tc.err)
				}
				return
			}
			var want []string
			for _, p := range tc.want {
				want = append(want, filepath.Join(home, p))
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%v (%v), want %v", got, err, want)
			}
		})
	}
	if _, err := jail.Needs(nil, home); err == nil {
		t.Error("without a command there is nothing to need")
	}
}

// TestWhatIsShown runs programs that lie in a home, with what Needs says.
func TestWhatIsShown(t *testing.T) {
	alsoAsUser(t)
	home := plant(
		t, "real/bin/tool = #!/bin/sh\ncat \"$1\"; cat HOME/secret HOME/real/lib/l; ls HOME; ls HOME/cur", "real/lib/l = library",
		"cur => real", "secret = secret", "proj/in = input",
	)
	argv := []string{home + "/cur/bin/tool", home + "/proj/in"}
	s := jailOf()
	var err error
	if s.Read, err = jail.Needs(argv, "/"); err != nil {
		t.Fatal(err)
	}
	s.Env = jail.Environment()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	wrap(t, s, cmd)
	out, _ := cmd.CombinedOutput()
	text := string(out)
	if !strings.HasPrefix(text, "input") || !strings.Contains(text, "library") || strings.Contains(text, "secret\n") || !strings.HasSuffix(text, "cur\nproj\nreal\nbin\nlib\n") {
		t.Errorf("it saw:\n%s", text)
	}
}

// TestNever expects that what holds people's files is not shown as a whole, and what
// was hidden by name not at all.
func TestNever(t *testing.T) {
	home := plant(t, "report/old/r = r", "key = k", "proj/report/r = r")
	link := filepath.Join(filepath.Dir(home), "link")
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ read, hide, want string }{
		{home, "", "a whole home"},
		{link, "", "a whole home"},
		{"/", "", "a whole home"},
		{"/home", "", "a whole home"},
		{"/run", "", "all that is in /run"},
		{os.TempDir(), "", ""},
		{home + "/gone", "", "no such file"},
		{"proj", "", "absolute"},
		{home + "/report/old", home + "/report", "report is hidden from subjects"},
		{home + "/report", home + "/report", "report is hidden from subjects"},
		{home + "/proj", home + "/proj/report", "-"},
		{home + "/proj", "/usr", "hide /usr"},
		{home + "/proj", home + "/gone", "hide " + home + "/gone"},
	} {
		s := jailOf()
		s.Read = []string{tc.read}
		if tc.hide != "" {
			s.Hide = []string{tc.hide}
		}
		err := s.Check()
		if tc.want == "-" {
			if err != nil {
				t.Errorf("%s without %s: %v", tc.read, tc.hide, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s without %s: %v, want %s", tc.read, tc.hide, err, tc.want)
		}
		if wrapErr := s.Wrap(command("report")); errors.Is(wrapErr, os.ErrNotExist) != errors.Is(err, os.ErrNotExist) || wrapErr == nil {
			t.Errorf("%s without %s: started with %v", tc.read, tc.hide, wrapErr)
		}
	}
}

// TestHide hides a folder and a file, also in the middle of what is shown.
func TestHide(t *testing.T) {
	alsoAsUser(t)
	home := plant(t, "proj/a = a", "proj/report/r = r", "proj/key = key")
	s := jailOf()
	s.Read, s.Hide = []string{home + "/proj"}, []string{home + "/proj/report", home + "/proj/key"}
	s.Env = jail.Environment()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `cd "$1"; cat a key; ls -A report; echo x >key; echo x >report/new; ls "$1"`, "sh", home+"/proj")
	wrap(t, s, cmd)
	out, _ := cmd.Output()
	if string(out) != "aa\nkey\nreport\n" {
		t.Errorf("it saw %q", out)
	}
}

func TestEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"PATH": "/bin:.::rel:/usr/bin", "LANG": "C", "LC_ALL": "C.UTF-8", "TZ": "UTC", "TOKEN": "secret", "HOME": "/root", "LD_PRELOAD": "x", "LCX": "1",
	} {
		t.Setenv(name, value)
	}
	got := slices.DeleteFunc(jail.Environment(), func(e string) bool { return strings.HasPrefix(e, "LC_") && e != "LC_ALL=C.UTF-8" })
	if want := []string{"HOME=/tmp", "LANG=C", "LC_ALL=C.UTF-8", "PATH=/bin:/usr/bin", "TZ=UTC"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
