// Command events measures the cost of observing the events of a running program: with Loupe, with the same probes at
// function entry, with bpftrace and with the runtime's own tracer. All of them observe the same process in one run.
//
//	go run ./bench/events [-rounds 5] [-time 2s] [-ways REGEXP] [-profile DIR] [NAME] ...
//
// NAME is the name of a table. Without names, all tables are printed:
//
//	engines   all engines and the runtime's tracer, on four programs
//	cost      nanoseconds per event, of a channel ping-pong
//	web       requests per second of net/http servers under wrk
//	drain     events per second that one core can process in the decoder and the state machine
//	latency   time from the probe to the handler
//	stop      time for which engine inline stops a program
//	attach    time to attach, until the first event, and to detach
//	agent     processor time and memory of the observer
//	recording processor time of commands that write all events
//	programs  nanoseconds per run of each eBPF program, according to the kernel's statistics
//
// The methods take turns, and between them the target runs alone, so that a slow phase of the machine affects all of
// them. Observers run in separate processes. The command requires root, two processors, wrk and bpftrace. The table
// attach requires the executables that bench/analyze builds.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/bench/internal/program"
)

func init() { runtime.LockOSThread() } // see startOn

func main() {
	b := &bench{}
	flag.IntVar(&b.rounds, "rounds", 5, "measurements of each way")
	flag.DurationVar(&b.time, "time", 2*time.Second, "length of a measurement")
	flag.Func("ways", "only ways whose name matches this `regexp`, in the tables cost and web", func(text string) (err error) {
		b.ways, err = regexp.Compile(text)
		return err
	})
	flag.StringVar(&b.profiles, "profile", "", "write profiles of the observers' processor time into this `directory`")
	orderText := flag.String("observe", "", "observe a process, as the benchmark's own processes do")
	attach := flag.Int("attach", 0, "attach to a process once, as the benchmark's own processes do")
	bystander := flag.Bool("bystander", false, "use some processor time, as one of the benchmark's own processes does")
	started := flag.Int64("started", 0, "start time of that, on the monotonic clock")
	flag.Parse()
	var err error
	switch {
	case *orderText != "":
		err = observe(*orderText)
	case *attach != 0:
		err = attachOnce(*attach, *started)
	case *bystander:
		err = beBystander()
	default:
		err = b.run(flag.Args())
	}
	if err != nil {
		log.Fatal(err)
	}
}

// bench is one run of the benchmark.
type bench struct {
	rounds   int
	time     time.Duration
	profiles string // directory
	ways     *regexp.Regexp

	self      string // this command
	dir       string // of the target programs
	observers int
}

// tables are what can be asked for, in the order in which they are printed.
var tables = []struct {
	name  string
	print func(*bench) error
}{
	{"engines", (*bench).engines}, {"cost", (*bench).cost}, {"web", (*bench).web}, {"drain", (*bench).drain},
	{"latency", (*bench).latency}, {"stop", (*bench).stop}, {"attach", (*bench).attach}, {"agent", (*bench).agent},
	{"recording", (*bench).recording}, {"programs", (*bench).programs},
}

func (b *bench) run(names []string) error {
	if b.rounds < 1 {
		return fmt.Errorf("-rounds %d is less than 1", b.rounds)
	}
	known := func(name string) bool {
		for _, t := range tables {
			if t.name == name {
				return true
			}
		}
		return false
	}
	for _, name := range names {
		if !known(name) {
			return fmt.Errorf("no table %q", name)
		}
	}
	var err error
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "loupe-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.profiles != "" {
		if err := os.MkdirAll(b.profiles, 0o755); err != nil {
			return err
		}
	}
	fmt.Printf("%s; medians of %d rounds of %v\n", machine(), b.rounds, b.time)
	for _, t := range tables {
		if len(names) > 0 && !slices.Contains(names, t.name) {
			continue
		}
		fmt.Printf("\n## %s\n\n", t.name)
		if err := t.print(b); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// machine says where the numbers are from.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel := "unknown kernel"
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		kernel = unix.ByteSliceToString(uts.Sysname[:]) + " " + unix.ByteSliceToString(uts.Release[:])
	}
	load := ""
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Fields(string(text))[0]
	}
	return fmt.Sprintf("%d processors (%s), %s, %s; initial load %s", runtime.NumCPU(), model, kernel, runtime.Version(), load)
}

// row prints a line of a table.
func row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
	}
	fmt.Println("| " + strings.Join(text, " | ") + " |")
}

// header prints the first lines of a table.
func header(names ...string) {
	cells := make([]any, len(names))
	for i, n := range names {
		cells[i] = n
	}
	row(cells...)
	fmt.Println(strings.Repeat("|---", len(names)) + "|")
}

// median returns the median of what a function says of results.
func median[R any](results []R, value func(R) float64) float64 {
	v := make([]float64, len(results))
	for i, r := range results {
		v[i] = value(r)
	}
	return program.Median(v)
}

// number prints a number in the way of its size.
func number(v float64) string {
	if v < 0 {
		return "-" + number(-v)
	}
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }
