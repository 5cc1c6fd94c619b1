// Command analyze measures how long it takes to analyze a large executable: to open it, to find the runtime's variables
// and to read the struct layouts. Each measurement runs in a separate process, after the executable is dropped from the
// page cache.
//
//	go run ./bench/analyze [-rounds 7] [FILE]
//
// Without FILE, it builds the Kubernetes API server from its modules, as built (about 145 MB) and stripped (about
// 100 MB). The first build takes minutes. The result is kept in the user's cache directory.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/bench/internal/program"
	"github.com/loupe-go/loupe/internal/gobin"
)

func main() {
	rounds := flag.Int("rounds", 7, "measurements of each executable")
	once := flag.Bool("once", false, "analyse FILE in this process and print the result")
	flag.Parse()
	var err error
	if *once {
		err = analyse(flag.Arg(0))
	} else {
		err = compare(flag.Args(), *rounds)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// analyse does what happens before a snapshot of a process that runs the executable, and prints milliseconds, peak
// memory in MB and where the layout comes from.
func analyse(path string) error {
	begin := time.Now()
	b, err := gobin.Open(path)
	if err != nil {
		return err
	}
	defer b.Close()
	layout, globals, reasons := b.Layout(), b.Globals(), b.WaitReasons()
	took := time.Since(begin)
	if globals.Allgs == 0 || len(reasons) == 0 {
		return fmt.Errorf("%s: the runtime's data was not found", path)
	}
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		return err
	}
	fmt.Println(float64(took.Microseconds())/1000, use.Maxrss/1024, layout.Source)
	return nil
}

func compare(files []string, rounds int) error {
	if len(files) == 0 {
		var err error
		if files, err = build(); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Println("| executable | size | layout from | cold | warm | peak memory |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, file := range files {
		st, err := os.Stat(file)
		if err != nil {
			return err
		}
		var cold, warm, memory []float64
		source := ""
		for range rounds {
			if err := forget(file); err != nil {
				return err
			}
			for _, times := range []*[]float64{&cold, &warm} {
				var ms, mb float64
				out, err := exec.Command(self, "-once", file).Output()
				if err != nil {
					return err
				}
				if _, err := fmt.Sscan(string(out), &ms, &mb, &source); err != nil {
					return err
				}
				*times, memory = append(*times, ms), append(memory, mb)
			}
		}
		fmt.Printf("| %s | %d MB | %s | %.0f ms | %.0f ms | %.0f MB |\n", filepath.Base(file), st.Size()>>20, source,
			program.Median(cold), program.Median(warm), slices.Max(memory))
	}
	return nil
}

// forget drops a file from the page cache.
func forget(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

const kubernetes, staging = "v1.34.1", "v0.34.1"

// stagingModules are the parts of Kubernetes that its module names by relative paths.
const stagingModules = `api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider
	cluster-bootstrap code-generator component-base component-helpers controller-manager cri-api cri-client
	csi-translation-lib dynamic-resource-allocation endpointslice externaljwt kms kube-aggregator kube-controller-manager
	kube-proxy kube-scheduler kubectl kubelet metrics mount-utils pod-security-admission sample-apiserver`

const mainFile = `package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
`

// build builds the API server, normal and stripped, unless they are in the cache.
func build() ([]string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "loupe-bench", "kube-apiserver-"+kubernetes)
	files := []string{filepath.Join(dir, "kube-apiserver"), filepath.Join(dir, "kube-apiserver-stripped")}
	if _, err := os.Stat(files[1]); err == nil {
		return files, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var mod strings.Builder
	fmt.Fprintf(&mod, "module bench\n\ngo 1.26\n\nrequire k8s.io/kubernetes %s\n\n", kubernetes)
	for _, name := range strings.Fields(stagingModules) {
		fmt.Fprintf(&mod, "replace k8s.io/%s => k8s.io/%s %s\n", name, name, staging)
	}
	for name, text := range map[string]string{"go.mod": mod.String(), "main.go": mainFile} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{
		{"mod", "tidy"}, {"build", "-o", files[0]}, {"build", "-ldflags=-s -w", "-o", files[1]},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, out)
		}
	}
	return files, nil
}
