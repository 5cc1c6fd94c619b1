package realtarget

import (
	"testing"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// A Spec is one real program: where it comes from and how it is run.
type Spec struct {
	// Name is the name of its executable, unique among Programs.
	Name string
	// Source is where the executable comes from: a Debian or a Module.
	Source Source

	plan func(*site) (*plan, error)
}

// A Source is a place that executables come from.
type Source interface {
	// String names the source and version: "Debian package caddy".
	String() string
	// missing says what the machine lacks to get the executable; "" when it
	// lacks nothing.
	missing() string
	// key returns a file name that tells this source from all others.
	key() string
	// get puts the executable into dir by the given name.
	get(dir, name string) error
}

// Programs returns all programs, those of Debian first.
func Programs() []Spec {
	return []Spec{
		Prometheus(),
		{"etcd", Debian{"etcd-server", "usr/bin/etcd"}, planEtcd},
		{"caddy", Debian{"caddy", "usr/bin/caddy"}, planCaddy},
		{"syncthing", Debian{"syncthing", "usr/bin/syncthing"}, planSyncthing},
		{"nsqd", Module{Path: "github.com/nsqio/nsq", Version: "v1.2.0", Dir: "apps/nsqd", Go: "1.13.15"}, planNsqd},
		{"nats-server", Module{Path: "github.com/nats-io/nats-server/v2", Version: "v2.15.2", Go: "1.27.4"}, planNats},
		{"gopls", Module{Path: "golang.org/x/tools/gopls", Version: "v0.24.0", Go: "1.27.4", Ldflags: "-w"}, planGopls},
	}
}

// Servers returns servers that use libraries of which Loupe makes spans. They are not among Programs. All of them are stripped.
// The build of the last one takes longer than that of the others.
func Servers() []Spec {
	const flags = "-s -w"
	return []Spec{
		{"etcd-3.7", Module{Path: "go.etcd.io/etcd/server/v3", Version: "v3.7.3", Go: "1.27.4", Ldflags: flags, Required: true}, planEtcdServer},
		{"registry", Module{Path: "github.com/distribution/distribution/v3", Version: "v3.1.2", Dir: "cmd/registry", Go: "1.27.4", Ldflags: flags}, planRegistry},
		{"ferretdb", Module{Path: "github.com/FerretDB/FerretDB", Version: "v1.24.2", Dir: "cmd/ferretdb", Go: "1.27.4", Ldflags: flags,
			Files: map[string]string{"build/version/version.txt": "v1.24.2\n"}}, planFerretDB},
		{"miniflux", Module{Path: "miniflux.app/v2", Version: "v2.3.5", Go: "1.27.4", Ldflags: flags}, planMiniflux},
		{"step-ca", Module{Path: "github.com/smallstep/certificates", Version: "v0.30.2", Dir: "cmd/step-ca", Go: "1.26.11", Ldflags: flags}, planStepCA},
	}
}

// Chosen returns the programs that tests are to run with: all of them if LOUPE_RELEASES chooses all releases, and one server of
// Debian's otherwise. It has gopls, whose build takes minutes, only if LOUPE_RELEASES is "each". The test logs what it leaves out.
func Chosen(tb testing.TB) []Spec {
	tb.Helper()
	var usual, rare []Spec
	for _, s := range Programs() {
		if s.Name == "caddy" {
			usual = append(usual, s)
		} else {
			rare = append(rare, s)
		}
	}
	rare = testtarget.EachOr(tb, testtarget.Rare(tb, rare...), func(s Spec) bool { return s.Name != "gopls" })
	return append(usual, rare...)
}

func (s Spec) String() string { return s.Name }

// Path returns the path of the program's executable. When the cache does not
// have it, it is downloaded or built; other test processes that want it wait
// meanwhile. The test fails when it cannot be had and is skipped when the
// machine has no means to get it.
func (s Spec) Path(tb testing.TB) string {
	tb.Helper()
	if missing := s.Source.missing(); missing != "" {
		tb.Skipf("%s is from a %s, which needs %s", s.Name, s.Source, missing)
	}
	path, err := cached(s.Source, s.Name)
	if err != nil {
		tb.Fatalf("realtarget: get %s from the %s: %v", s.Name, s.Source, err)
	}
	return path
}
