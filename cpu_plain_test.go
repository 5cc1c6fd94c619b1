package loupe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// maxLate is the largest share of samples without eBPF whose thread has run before its goroutine was read. On a busy machine the
// kernel does not always let the reader run at once.
const maxLate = 0.8

// checkPlain checks what applies to profiles without eBPF only.
func checkPlain(t *testing.T, p *loupe.CPUProfile, maxLate float64) {
	t.Helper()
	late := float64(p.Late) / float64(max(1, p.Samples))
	t.Logf("%d samples of %v, sampled %.2f %%; %.1f %% late, %d lost, %d unknown, %d cut, %d labels, %d refused, %v unseen, user only: %v",
		p.Samples, p.CPU, 100*p.Sampled(), 100*late, p.Lost, p.Unknown, p.Cut, p.Labels, p.Refused, p.Unseen, p.UserOnly)
	if p.NoEBPF == "" || p.Lost > 0 || p.Refused > 0 {
		t.Errorf("without eBPF: %q, %d lost, %d refused", p.NoEBPF, p.Lost, p.Refused)
	}
	if late > maxLate {
		t.Errorf("%d late of %d samples", p.Late, p.Samples)
	}
	unknown := uint64(0)
	for _, s := range p.Sample {
		if strings.Join(s.Label["goroutine"], "") == "unknown" {
			unknown += uint64(s.Value[0])
			if len(s.Label) != 1 {
				t.Errorf("a late sample with the labels %v", s.Label)
			}
		}
	}
	if unknown != p.Late {
		t.Errorf("%d samples have no goroutine, %d are late", unknown, p.Late)
	}
}

// TestCPUPlainTruth compares CPU profiles without eBPF with those that the target records of itself.
func TestCPUPlainTruth(t *testing.T) {
	eachBurner(t, comparePlain)
}

func comparePlain(t *testing.T, spec testtarget.Spec, loads ...string) {
	target := burn(t, spec, loads...)
	defer target.Stop()
	ours, own := bothProfiles(t, target, func() *loupe.CPUProfile { return cpuProfile(t, target.PID(), loupe.CPUOptions{NoEBPF: true}) })
	checkPlain(t, ours, maxLate)
	if bound := 0.03 + 2*float64(ours.Period)/float64(ours.CPU); math.Abs(ours.Sampled()-1) > bound+0.4/math.Sqrt(float64(ours.Samples)) {
		t.Errorf("the samples stand for %.2f %% of the processor time", 100*ours.Sampled())
	}
	judgeCPU(t, spec, ours, own, loads, maxZ)
}

// TestCPUPlainUser takes profiles as a process without capabilities, of a process without capabilities.
func TestCPUPlainUser(t *testing.T) {
	if pid := os.Getenv("LOUPE_TEST_CPU"); pid != "" {
		profileAsUser(t, pid)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("leaving out capabilities needs root")
	}
	testtarget.Build(t, testtarget.Spec{Program: "burner"})
	keepCapabilities(t) // the thread ends with the test
	loads := []string{"shares", "labels", "deep"}
	target := burn(t, testtarget.Spec{}, loads...)
	ours, own := bothProfiles(t, target, func() *loupe.CPUProfile {
		file := t.TempDir() + "/ours"
		child := testcmd.Command(t, os.Args[0], "-test.run=^TestCPUPlainUser$")
		child.Env = append(os.Environ(), "LOUPE_TEST_CPU="+strconv.Itoa(target.PID()), "LOUPE_TEST_FILE="+file)
		out, err := child.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		prof := &loupe.CPUProfile{}
		line, _, _ := bytes.Cut(out, []byte("\n"))
		if err := json.Unmarshal(line, prof); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if prof.Profile, err = profile.ParseData(b); err != nil {
			t.Fatal(err)
		}
		return prof
	})
	checkPlain(t, ours, maxLate)
	if !strings.Contains(ours.NoEBPF, "CAP_BPF and CAP_PERFMON missing") || !strings.Contains(strings.Join(ours.Comments, "\n"), "CAP_BPF and CAP_PERFMON missing") {
		t.Errorf("why without eBPF: %q, comments %q", ours.NoEBPF, ours.Comments)
	}
	if !ours.UserOnly || ours.Kernel > 0 {
		t.Errorf("user only: %v, %d samples in the kernel", ours.UserOnly, ours.Kernel)
	}
	if ours.Sampled() < 0.7 || ours.Sampled() > 1.05 { // the time in the kernel is missing
		t.Errorf("the samples stand for %.2f %% of the processor time", 100*ours.Sampled())
	}
	judgeCPU(t, testtarget.Spec{}, ours, own, loads, maxZ)
}

// profileAsUser takes a profile, writes it to a file, and prints the rest as one line.
func profileAsUser(t *testing.T, pid string) {
	n, _ := strconv.Atoi(pid)
	prof := cpuProfile(t, n, loupe.CPUOptions{})
	f, err := os.Create(os.Getenv("LOUPE_TEST_FILE"))
	if err == nil {
		err = prof.Write(f)
	}
	prof.Profile = nil
	line, err2 := json.Marshal(prof)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	fmt.Println(string(line))
	os.Exit(0)
}

// TestCPUPlainThreads samples threads that start while the process is sampled, and closes the events of those that end.
func TestCPUPlainThreads(t *testing.T) {
	target := burn(t, testtarget.Spec{}, "shares")
	before := openFiles(t)
	p, err := loupe.OpenProcess(target.PID(), loupe.ProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), cpuWithin)
	defer cancel()
	go func() {
		time.Sleep(300 * time.Millisecond)
		target.Command("threads 500")
		for first := cpuTime(target.PID()); ctx.Err() == nil && cpuTime(target.PID())-first < cpuEnough; {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	prof, err := p.CPUProfile(ctx, loupe.CPUOptions{Rate: 250, NoEBPF: true})
	if err != nil {
		t.Fatal(err)
	}
	checkPlain(t, prof, 1)                                                                         // the reader also opens the events of the threads
	if seen := prof.Sampled() + prof.Unseen.Seconds()/prof.CPU.Seconds(); math.Abs(seen-1) > 0.1 { // most threads run too shortly to have a sample
		t.Errorf("the samples and the time of new threads stand for %.2f %% of the processor time", 100*seen)
	}
	p.Close()
	if n := openFiles(t); n > before {
		t.Errorf("%d open files, %d before", n, before)
	}
}

// TestCPULabels checks each sample of functions that one set of labels applies to, at a high rate and while the labels change
// frequently: labels of another moment are noticed.
func TestCPULabels(t *testing.T) {
	phases := map[string]string{"main.labels.func2": "load", "main.labels.func3": "store"}
	for _, noEBPF := range []bool{false, true} {
		t.Run(fmt.Sprintf("no eBPF %v", noEBPF), func(t *testing.T) {
			target := burn(t, testtarget.Spec{}, "labels")
			prof := cpuProfile(t, target.PID(), loupe.CPUOptions{Rate: loupe.MaxCPURate, NoEBPF: noEBPF})
			right, wrong := int64(0), int64(0)
			for _, s := range prof.Sample {
				if strings.Join(s.Label["goroutine"], "") == "unknown" {
					continue
				}
				for _, name := range frames(s) {
					switch phase := phases[name]; {
					case phase == "":
					case strings.Join(s.Label["phase"], "") == phase:
						right += s.Value[0]
					default:
						t.Logf("%s has the labels %v", name, s.Label)
						wrong += s.Value[0]
					}
				}
			}
			t.Logf("%d samples, %d late, %d with uncertain labels; right %d, wrong %d", prof.Samples, prof.Late, prof.Labels, right, wrong)
			if right < 20 || wrong > 0 {
				t.Errorf("%d samples have the right label, %d a wrong one", right, wrong)
			}
		})
	}
}
