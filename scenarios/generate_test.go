package scenarios_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

func TestMain(m *testing.M) {
	if os.Getenv("SCENARIOS_DIGEST") != "" {
		_, _ = os.Stdout.WriteString(digest("smoke", 7) + "\n")
		return
	}
	os.Exit(m.Run())
}

// digest covers the first hundred scenarios of a seed.
func digest(profile string, seed uint64) string {
	p, err := scenarios.ProfileByName(profile)
	if err != nil {
		return err.Error()
	}
	h := sha256.New()
	for i := range 100 {
		_, _ = h.Write([]byte(p.Draw(seed, i, "golden").String()))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// TestDrawIsStable: a seed means the same scenarios until the version changes. When
// the generator is changed on purpose, these digests move in the commit that bumps
// fsbench.Version, which says so.
func TestDrawIsStable(t *testing.T) {
	for _, tt := range []struct {
		profile string
		seed    uint64
		want    string
	}{
		{"smoke", 0, "6c1cdefa49e0b879"},
		{"smoke", 7, "68d039191976b4b3"},
		{"soak", 11, "7a9cf39a8581ad03"},
	} {
		if got := digest(tt.profile, tt.seed); got != tt.want {
			t.Errorf("%s, seed %d: %s, want %s", tt.profile, tt.seed, got, tt.want)
		}
	}
}

// TestDrawInAnotherProcess: nothing that differs between processes (addresses, the
// order of maps) finds its way into a scenario.
func TestDrawInAnotherProcess(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := digest("smoke", 7)
	for range 3 {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), "SCENARIOS_DIGEST=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want+"\n", string(out)); diff != "" {
			t.Errorf("(-here +there):\n%s", diff)
		}
	}
}

func TestDrawSaysItsOrigin(t *testing.T) {
	p, err := scenarios.ProfileByName("soak")
	if err != nil {
		t.Fatal(err)
	}
	s := p.Draw(3, 14, "1.2.3")
	want := scenarios.Origin{Profile: "soak", Seed: 3, Version: "1.2.3"}
	if s.Name != "soak-3-14" || s.Name != p.NameOf(3, 14) || s.Origin != want {
		t.Errorf("%s of %+v", s.Name, s.Origin)
	}
	if a, b := p.Draw(3, 15, "").String(), p.Draw(4, 14, "").String(); a == b || a == s.String() {
		t.Error("neighbours are the same")
	}
}

func TestNoSuchProfile(t *testing.T) {
	_, err := scenarios.ProfileByName("smog")
	if want := `profile "smog": want one of smoke, soak`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestGeneratorReaches: what no scenario of a few thousand contains, no run tests.
func TestGeneratorReaches(t *testing.T) {
	p, err := scenarios.ProfileByName("smoke")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	const n = 2000
	for i := range n {
		s := p.Draw(1, i, "")
		if err := s.Check(); err != nil {
			t.Fatalf("%s: %v\n%s", s.Name, err, s)
		}
		if len(s.Calls()) > p.Calls {
			t.Errorf("%s has %d calls, want at most %d", s.Name, len(s.Calls()), p.Calls)
		}
		if len(s.Faults.Injections) > 0 {
			seen["fault"]++
		}
		for _, in := range s.Faults.Injections {
			seen["errno "+in.Do.Errno]++
			if in.Do.Swap != nil {
				seen["swap"]++
			}
			if in.Do.Crash {
				seen["crash"]++
			}
			if in.Do.Short != nil {
				seen["short"]++
			}
			if in.When.After {
				seen["after"]++
			}
		}
		for _, b := range s.Brokers {
			seen[string(b.Seam)+" "+string(b.Kind)]++
		}
		for _, st := range s.Steps {
			if st.Edit != nil {
				seen["edit"]++
				continue
			}
			seen[string(st.Call.Kind)]++
			switch v := st.Call.ExpectVersion; {
			case v == spec.VersionAbsent:
				seen["expect absent"]++
			case v != "" && v[0] == '@':
				seen["expect seen"]++
			}
		}
		if s.Policies[spec.PolicyLinks] == spec.LinksFollow {
			seen["links followed"]++
		}
	}
	want := []string{
		"swap", "crash", "short", "after", "edit", "read", "write", "delete", "move", "expect absent", "expect seen", "links followed",
		"errno EPERM", "errno EACCES", "errno EROFS", "errno ENOENT", "errno ENOSPC", "errno EDQUOT", "errno EIO", "errno EXDEV",
		"errno EBUSY", "errno ENAMETOOLONG", "errno ELOOP", "errno EMFILE",
	}
	for _, k := range spec.BrokerKinds {
		want = append(want, "write "+string(k), "delete "+string(k))
	}
	for _, what := range want {
		if seen[what] < 10 {
			t.Errorf("%s: %d of %d scenarios", what, seen[what], n)
		}
	}
	if seen["fault"] < n/2 {
		t.Errorf("%d of %d scenarios plan a fault", seen["fault"], n)
	}
}

func TestUnmet(t *testing.T) {
	for _, tt := range []struct {
		needs []string
		caps  vfs.Caps
		wire  bool
		want  string
	}{
		{nil, 0, false, ""},
		{[]string{"perm", "link"}, vfs.CapPerm | vfs.CapLink, false, ""},
		{[]string{"perm", "link"}, vfs.CapPerm, false, "the file system has no capability link"},
		{[]string{"wire"}, 0, true, ""},
		{[]string{"wire"}, 0, false, "the subject runs in this process: there is no wire"},
	} {
		s := scenarios.Scenario{Needs: tt.needs}
		if got := s.Unmet(tt.caps, tt.wire); got != tt.want {
			t.Errorf("needs %v: %q, want %q", tt.needs, got, tt.want)
		}
	}
}

func TestInitial(t *testing.T) {
	dir := spec.Node{Type: spec.TypeDir, Mode: 0o755}
	own := spec.Node{Type: spec.TypeDir, Mode: 0o700}
	for _, tt := range []struct{ world, want spec.World }{
		{nil, spec.World{"ws": dir}},
		{spec.World{"out": dir}, spec.World{"out": dir, "ws": dir}},
		{spec.World{"ws": own}, spec.World{"ws": own}},
	} {
		s := scenarios.Scenario{World: tt.world}
		if diff := cmp.Diff(tt.want, s.Initial()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if tt.world != nil && len(s.World) != len(tt.world) {
			t.Error("the scenario's own world changed")
		}
	}
}

func BenchmarkDraw(b *testing.B) {
	p, err := scenarios.ProfileByName("soak")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p.Draw(11, i, "")
		i++
	}
}

func BenchmarkParse(b *testing.B) {
	p, err := scenarios.ProfileByName("soak")
	if err != nil {
		b.Fatal(err)
	}
	text := []byte(p.Draw(11, 3, "").String())
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := scenarios.Parse("bench", "bench", text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkString(b *testing.B) {
	p, err := scenarios.ProfileByName("soak")
	if err != nil {
		b.Fatal(err)
	}
	s := p.Draw(11, 3, "")
	b.ReportAllocs()
	for b.Loop() {
		_ = s.String()
	}
}
