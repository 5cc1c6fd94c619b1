// Command agent measures the node agent: what it costs, and what it costs those that it observes.
//
//	go run ./bench/agent [-rounds 2] [-time 20s] [-only PART] [-agent FILE] [-obi FILE] [-auto FILE] [-dir DIR]
//
// The parts are services (ten services under a light load: alone, with the agent, with its spans, and with client_golang's Go collector in each of
// them), saturation (one service under wrk), events (latencies and losses), goroutines (memory for each), growth and exports (for docs/SCALING.md). It requires
// root, wrk, and two processors that nothing else uses. All ways alternate, and the tables have medians, or ratios to the time just before.
//
// With -obi, the parts services and saturation also measure OBI (OpenTelemetry eBPF Instrumentation), and with -auto the OpenTelemetry Go
// auto-instrumentation. bench/README.md says how to build them.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// bench is a run of this command.
type bench struct {
	dir    string
	agent  string        // executables
	obi    string        // the executable of OBI, or ""
	auto   string        // the executable of the OpenTelemetry Go auto-instrumentation, or ""
	plain  string        // the service
	with   string        // the service with client_golang
	rounds int           // measurements of each way
	time   time.Duration // of a measurement
}

func main() {
	b := &bench{}
	flag.IntVar(&b.rounds, "rounds", 2, "measurements of each way")
	flag.DurationVar(&b.time, "time", 20*time.Second, "how long a measurement takes")
	only := flag.String("only", "", "run only this part: services, saturation, events, goroutines, growth, exports")
	flag.StringVar(&b.agent, "agent", "", "the executable of the agent; it is built otherwise")
	flag.StringVar(&b.obi, "obi", "", "also measure this executable of OBI")
	flag.StringVar(&b.auto, "auto", "", "also measure this executable of the OpenTelemetry Go auto-instrumentation")
	flag.StringVar(&b.dir, "dir", "", "keep executables in this directory")
	flag.Parse()
	if err := b.run(*only); err != nil {
		log.Fatal(err)
	}
}

func (b *bench) run(only string) error {
	if b.dir == "" {
		dir, err := os.MkdirTemp("", "bench-agent-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		b.dir = dir
	}
	if err := b.build(); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{{"services", b.services}, {"saturation", b.saturation}, {"events", b.events}, {"goroutines", b.goroutines}, {"growth", b.growth}, {"exports", b.exports}} {
		if only != "" && only != part.name {
			continue
		}
		if err := part.run(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// build builds the executables that are not there.
func (b *bench) build() error {
	b.plain, b.with = filepath.Join(b.dir, "service"), filepath.Join(b.dir, "service-collector")
	ldflags := "-ldflags=-s -w"
	if b.obi != "" || b.auto != "" {
		b.plain, b.with, ldflags = b.plain+"-debug", b.with+"-debug", "-ldflags=" // they require symbols and DWARF of the services
	}
	list := [][]string{{b.plain, "./bench/agent/service"}, {b.with, "-tags", "collector", "./bench/agent/service"}}
	if b.agent == "" {
		b.agent = filepath.Join(b.dir, "loupe-agent")
		list = append(list, []string{b.agent, "./cmd/loupe-agent"})
	}
	for _, args := range list {
		if _, err := os.Stat(args[0]); err == nil {
			continue
		}
		cmd := exec.Command("go", append([]string{"build", "-trimpath", ldflags, "-o"}, args...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	return nil
}
