package loupe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/census"
	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace"
)

// This example prints the waits of at least a millisecond in a process that is already running.
func ExampleAttach() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := loupe.Attach(ctx, loupe.PID(os.Getppid()), loupe.Options{MinBlock: time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for ev := range s.Events() {
		if ev.Kind == event.GoBlock && ev.Stack != nil && len(ev.Stack.Frames) > 0 {
			fmt.Println(ev.G, "waited", time.Duration(ev.Value), ev.Reason, "in", ev.Stack.Frames[0].Func)
		}
	}
	if err := s.Err(); err != nil {
		log.Print(err)
	}
	if lost := s.Stats().Lost; lost > 0 {
		log.Print(lost, " events were lost")
	}
}

// This example starts a program and observes it from its first goroutine on.
func ExampleCommand() {
	s, err := loupe.Attach(context.Background(), loupe.Command(orders()), loupe.Options{
		Kinds: event.KindsOf(event.GoCreate),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for ev := range s.Events() {
		if strings.HasSuffix(ev.Origin.CreatedBy.Func, ".takeOrders") {
			fmt.Println("an order is taken")
		}
	}
	status, _ := s.ExitStatus()
	fmt.Println("exit status", status)
	// Output:
	// an order is taken
	// an order is taken
	// an order is taken
	// exit status 0
}

// This example records a program from its start to its end, or at most for a minute, for go tool trace.
func ExampleSession_Record() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := loupe.Attach(ctx, loupe.Command(orders()), loupe.Options{Procs: true})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	var file bytes.Buffer
	recording, err := s.Record(&file, loupe.RecordOptions{MaxBytes: 100 << 20})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("complete:", !recording.Limited && s.Err() == nil && s.Stats().Lost == 0)
	fmt.Printf("%.5s...\n", file.String())
	// Output:
	// complete: true
	// go 1....
}

// This example draws an execution trace for ui.perfetto.dev.
func ExampleRecord() {
	draw := func(w io.Writer, file io.Reader) error {
		r, err := trace.NewReader(file)
		if err != nil {
			return err
		}
		var damage error
		events := func(yield func(*event.Event) bool) {
			for e, err := range r.Events() {
				if damage = err; err != nil || !yield(e) {
					return
				}
			}
		}
		_, err = loupe.Record(w, events, loupe.RecordOptions{Format: loupe.FormatPerfetto, Kinds: event.KindsTrace})
		return errors.Join(err, damage)
	}
	fmt.Println(draw(io.Discard, strings.NewReader("no trace")) != nil)
	// Output: true
}

// This example finds out which code of a program creates goroutines.
func ExampleSession_Profile() {
	s, err := loupe.Attach(context.Background(), loupe.Command(orders()), loupe.Options{Kinds: loupe.ProfileCreate.Kinds()})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	p, err := s.Profile(loupe.ProfileOptions{Type: loupe.ProfileCreate})
	if err != nil {
		log.Fatal(err)
	}
	for _, sample := range p.Sample {
		creator := sample.Location[1].Line[0].Function.Name // the leaf is the function that the goroutine starts with
		if strings.HasSuffix(creator, ".takeOrders") {
			fmt.Println(sample.Value[0], "orders")
		}
	}
	if err := p.Write(io.Discard); err != nil { // for go tool pprof
		log.Fatal(err)
	}
	// Output: 3 orders
}

// This example computes how long goroutines waited, from events that were collected before.
func ExampleProfile() {
	stack := &event.Stack{Frames: []event.Frame{{Func: "main.worker", File: "main.go", Line: 12}}}
	events := []*event.Event{
		{Time: 1000, Kind: event.GoBlock, G: 18, Reason: "chan receive", Stack: stack},
		{Time: 6000, Kind: event.GoUnblock, G: 18, By: 1},
	}
	p, err := loupe.Profile(slices.Values(events), loupe.ProfileOptions{Type: loupe.ProfileBlock})
	if err != nil {
		log.Fatal(err)
	}
	for _, sample := range p.Sample {
		fmt.Println(sample.Location[0].Line[0].Function.Name, sample.Value[0], "wait", time.Duration(sample.Value[1]))
	}
	// Output: main.worker 1 wait 5µs
}

// This example lists the goroutines of a process, grouped by state, wait reason and stack.
func ExampleProcess_Snapshot() {
	shop := startShop()
	defer shop.close()
	p, err := loupe.OpenProcess(shop.pid(), loupe.ProcessOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	snap, err := p.Snapshot(context.Background(), loupe.SnapshotOptions{})
	if err != nil {
		log.Fatal(err)
	}
	filter := census.Filter{Func: regexp.MustCompile(`\.serveCustomer$`)}
	for _, g := range census.Groups(filter.Select(snap).Goroutines, false) {
		fmt.Printf("%d goroutines [%s] in %s\n", len(g.Goroutines), g.Reason, path.Base(g.Stack[0].Func))
	}
	// Output:
	// 4 goroutines [chan receive] in loupe_test.serveCustomer
}

// This example makes a goroutine profile of a process that has no pprof endpoint.
func ExampleProcess_Profile() {
	shop := startShop()
	defer shop.close()
	p, err := loupe.OpenProcess(shop.pid(), loupe.ProcessOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	snap, err := p.Snapshot(context.Background(), loupe.SnapshotOptions{})
	if err != nil {
		log.Fatal(err)
	}
	prof := p.Profile(snap)
	if err := prof.Write(io.Discard); err != nil { // a file for go tool pprof
		log.Fatal(err)
	}
	fmt.Println(prof.SampleType[0].Type, prof.SampleType[1].Type)
	// Output:
	// goroutine wait
}

// This example lists Go processes, and looks for one that has more than three goroutines.
func ExampleProcesses() {
	shop := startShop()
	defer shop.close()
	for p, err := range loupe.Processes(context.Background()) {
		if err != nil {
			log.Print(err) // such as loupe.ErrPermission
			continue
		}
		if p.Goroutines > 3 && p.PID == shop.pid() {
			fmt.Println("the shop is busy:", p.Module)
		}
	}
	// Output:
	// the shop is busy: github.com/loupe-go/loupe
}

func ExampleFind() {
	_, err := loupe.Find("/no/such/program")
	fmt.Println(errors.Is(err, loupe.ErrNoProcess))
	// Output:
	// true
}

// This example reports why live events by eBPF are unavailable.
func ExampleCheckMachine() {
	report := loupe.CheckMachine()
	if live, ok := report.Ability(checkup.Uprobe); ok && !live.Available {
		log.Print("requires ", strings.Join(live.Missing, "; "))
	}
	fmt.Println("checked:", report.Machine[0].Name)
	// Output:
	// checked: kernel
}

func ExampleCheckProcess() {
	shop := startShop()
	defer shop.close()
	report := loupe.CheckProcess(context.Background(), shop.pid(), loupe.ProcessOptions{})
	for _, f := range report.Target {
		if f.Status != checkup.OK {
			fmt.Println(f.Name, f.Found, f.Means, f.Remedy)
		}
	}
	snapshots, _ := report.Ability(checkup.Snapshot)
	fmt.Println("snapshots are available:", snapshots.Available)
	// Output:
	// snapshots are available: true
}

func ExampleRepair() {
	shop := startShop()
	defer shop.close()
	places, found, err := loupe.Repair(shop.pid(), loupe.ProcessOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if found {
		fmt.Println("restored the code at", places, "places")
	} else {
		fmt.Println("nothing to repair")
	}
	// Output:
	// nothing to repair
}

// orders is the program of the example: this one, told to take orders.
func orders() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LOUPE_EXAMPLE=orders")
	return cmd
}

func takeOrders() {
	var wg sync.WaitGroup
	for range 3 {
		wg.Add(1)
		go func() { wg.Done() }()
	}
	wg.Wait()
}

// shop is a program whose goroutines wait.
type shop struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// startShop starts this test executable as a shop, and returns when its goroutines wait.
func startShop() shop {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LOUPE_EXAMPLE=shop")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		log.Fatal(err)
	}
	return shop{cmd, stdin}
}

func (s shop) pid() int { return s.cmd.Process.Pid }

// close ends the shop.
func (s shop) close() {
	s.stdin.Close()
	s.cmd.Wait()
}

// runShop is the program shop: four goroutines that wait until the end of stdin.
func runShop() {
	for range 4 {
		go serveCustomer(make(chan string))
	}
	stacks := make([]byte, 64<<10)
	for strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "[chan receive") < 4 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("open")
	io.Copy(io.Discard, os.Stdin)
}

func serveCustomer(wish chan string) { <-wish }
