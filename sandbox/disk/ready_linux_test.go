package disk

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fsbench/fsbench/sandbox/jail"
)

// TestPrepare: what fetches a subject has the network, and harms nobody all the same;
// the subject finds what was fetched, and neither the network nor a way to change it.
func TestPrepare(t *testing.T) {
	alsoAsUser(t)
	l := newLab(t)
	if err := l.Admit(Foreign{}); err != nil {
		t.Skip(err)
	}
	outside, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Skip(err)
	}
	line := strings.Join([]string{
		"readlink /proc/self/ns/net > net", "ls " + l.Dir + " > lab", "echo fetched > {cache}/it", `echo "$HOME" > home`,
		"touch " + l.Dir + "/escaped /etc/escaped 2> said || echo refused > tried",
	}, "; ")
	cache, err := l.Prepare(t.Context(), line, Foreign{Env: jail.Environment()})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"net": outside, "lab": cacheName, "it": "fetched", "home": cache, "tried": "refused"} {
		got, err := os.ReadFile(filepath.Join(cache, name))
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
	box := strangerBox(t, l, small)
	a, _ := armStranger(t, box)
	calls := []string{
		call("read", cache+"/it"), call("write", cache+"/it"), call("create", cache+"/new"), call("unlink", cache+"/it"), call("chmod", cache, "0777"), call("net"),
	}
	got := child(t, a, calls...)
	if want := []string{"ok", "EROFS", "EROFS", "EROFS", "EROFS"}; !slices.Equal(got[:5], want) {
		t.Errorf("in the folder a subject gets %v, want %v", got[:5], want)
	}
	if got[5] == outside {
		t.Error("a subject has the network")
	}
	stop(t, a)
}
