package goproc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/container/containertest"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestResolveContainer finds the processes of containers and pods.
func TestResolveContainer(t *testing.T) {
	id, otherID, uid := containertest.NewID(), containertest.NewID(), containertest.NewUID()
	logs := t.TempDir()
	for _, name := range []string{"shop_web-0_" + uid, "shop_web-0_" + containertest.NewUID(), "shop_gone-0_" + containertest.NewUID()} {
		if err := os.Mkdir(filepath.Join(logs, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	first, second := containertest.Container(t, uid, id), containertest.Container(t, uid, otherID)
	tiny := testtarget.Build(t, testtarget.Spec{Program: "tiny"})
	a, b, c := testtarget.Start(t, tiny), testtarget.Start(t, tiny), testtarget.Start(t, tiny)
	first.Add(t, a.PID())
	first.Add(t, b.PID())
	second.Add(t, c.PID())
	both, all := []int{a.PID(), b.PID()}, []int{a.PID(), b.PID(), c.PID()}
	slices.Sort(both)
	slices.Sort(all)
	for target, want := range map[string][]int{
		id:                       both,
		id[:12]:                  both,
		"container:" + id:        both,
		"container:" + id[:20]:   both,
		"container:" + otherID:   {c.PID()},
		otherID[:12]:             {c.PID()},
		"pod:web-0":              all,
		"pod:shop/web-0":         all,
		"pod:bank/web-0":         nil,
		"pod:gone-0":             nil,
		"pod:web":                nil,
		containertest.NewID():    nil,
		"container:000000000000": nil,
		"000000000000":           nil, // not a PID
	} {
		got, err := resolve(target, []string{logs})
		if !slices.Equal(got, want) || errors.Is(err, ErrNoProcess) != (want == nil) || err != nil && !strings.HasPrefix(err.Error(), target) {
			t.Errorf("%s: %v, %v; want %v", target, got, err, want)
		}
	}
	info, err := Describe(a.PID())
	if err != nil || info.Container != id {
		t.Errorf("container %q, %v; want %s", info.Container, err, id)
	}
}

// TestResolveNameLikeID prefers the name of a process to a container ID.
func TestResolveNameLikeID(t *testing.T) {
	const name = "deadbeefcafe"
	b, err := os.ReadFile(testtarget.Build(t, testtarget.Spec{Program: "tiny"}))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	p := testtarget.StartCmd(t, testcmd.Within(t, 0, path))
	if got, err := Resolve(name); err != nil || !slices.Equal(got, []int{p.PID()}) {
		t.Errorf("%v, %v; want %d", got, err, p.PID())
	}
}
