package main

import (
	"strings"
	"testing"
)

func TestShortOfSpace(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    space
		want bool
	}{
		{"half empty", space{50 << 30, 100 << 30}, false},
		{"just enough of a small volume", space{1 << 30, 4 << 30}, false},
		{"under a GiB", space{1<<30 - 1, 4 << 30}, true},
		{"under one in twenty", space{49 << 30, 1000 << 30}, true},
		{"full", space{0, 4 << 30}, true},
	} {
		if got := tt.s.short(); got != tt.want {
			t.Errorf("%s: short = %v, want %v", tt.name, got, tt.want)
		}
	}
	if err := runsFull("reports", space{10 << 20, 100 << 20}); !strings.Contains(err.Error(), "reports has 10 MiB of 100 left") {
		t.Errorf("the message is %v", err)
	}
}

func TestGuardLooksAtTheVolume(t *testing.T) {
	a := &app{ctx: t.Context()}
	stop, err := a.guard(t.TempDir())
	if err != nil {
		t.Skip(err) // the machine that tests this is itself short of space
	}
	stop()
	if a.ctx.Err() == nil {
		t.Error("the guard goes on after stop")
	}
	if _, err := a.guard(t.TempDir() + "/nothing"); err == nil {
		t.Error("a folder that is not there is no error")
	}
}
