// Command flatten compiles a set of probes to machine code. It links each object into a blob without relocations or
// symbols: the code, starting at its beginning, which expects the settings (struct loupe_native_set) at the next page
// boundary after it. It writes the blobs, and a Go file with the names of the set's probes and settings and their
// offsets in the blobs. With -ebpf it also compiles the set to eBPF objects. It runs in the directory of the package
// that owns the set.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// machine is one architecture for which the probes are compiled.
type machine struct {
	goarch string
	define string // names the machine to the sources
	flags  []string
	page   uint64 // the largest page size of its kernels
}

// What all machines share: nothing that needs a C library, a loader, an exception table or floating point registers.
var flags = strings.Fields("-std=gnu17 -O2 -fno-unroll-loops -fno-strict-aliasing -ffreestanding -fPIC -fno-stack-protector" +
	" -fno-jump-tables -fno-asynchronous-unwind-tables -mgeneral-regs-only -fstack-usage" +
	" -Wall -Wextra -Werror -Wno-unused-parameter")

var ebpfFlags = strings.Fields("-target bpfel -O2 -g -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter" +
	" -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu")

// On arm64 X18 belongs to the platform, and X28 is where the signal handler of a Go program without cgo looks for the current
// g: it must be there all the time.
var machines = []machine{
	{"amd64", "-D__TARGET_ARCH_x86", strings.Fields("-target x86_64-linux-gnu -D__TARGET_ARCH_x86 -mno-red-zone -fcf-protection=none"), 4 << 10},
	{"arm64", "-D__TARGET_ARCH_arm64", strings.Fields("-target aarch64-linux-gnu -D__TARGET_ARCH_arm64 -ffixed-x18 -ffixed-x28 -mno-outline-atomics"), 64 << 10},
}

// owner is the package that a set belongs to.
type owner struct {
	headers string // the directory of package csrc
	source  string // C source for machine code, and with ebpf for eBPF
	list    string // file with the enums that name the set's probes and settings
	name    string // of the package
	out     string // Go file
	code    string // Go name of the set's code
	ebpf    bool
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("flatten: ")
	var o owner
	flag.StringVar(&o.headers, "headers", ".", "directory of package csrc")
	flag.StringVar(&o.source, "source", "probes.native.c", "C source")
	flag.StringVar(&o.list, "list", "runtime.h", "file with enum loupe_probe, loupe_setting and loupe_table_id")
	flag.StringVar(&o.name, "package", "csrc", "Go package")
	flag.StringVar(&o.out, "out", "natives.go", "Go file to write")
	flag.StringVar(&o.code, "code", "Runtime", "Go name of the set's code")
	flag.BoolVar(&o.ebpf, "ebpf", false, "also compile eBPF objects")
	flag.Parse()
	if err := o.run(); err != nil {
		log.Fatal(err)
	}
}

func (o *owner) run() error {
	header, err := os.ReadFile(o.list)
	if err != nil {
		return err
	}
	probes, err := names(header, "probe", "PROBE_")
	if err != nil {
		return err
	}
	settings, err := names(header, "setting", "SETTING_")
	if err != nil {
		return err
	}
	tables, err := names(header, "table_id", "TABLE_")
	if err != nil {
		return err
	}
	limit, err := stackLimit(filepath.Join(o.headers, "lanes.h"))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "flatten")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f := goFile{owner: o, probes: probes, settings: settings, tables: tables}
	for _, m := range machines {
		b, err := m.build(dir, o, probes)
		if err != nil {
			return fmt.Errorf("%s: %w", m.goarch, err)
		}
		if b.stack > limit {
			return fmt.Errorf("%s: the probes may use %d bytes of the stack, more than %d", m.goarch, b.stack, limit)
		}
		if err := os.WriteFile(nativeFile(m.goarch), b.code, 0o666); err != nil {
			return err
		}
		if o.ebpf {
			if err := m.buildEBPF(o); err != nil {
				return fmt.Errorf("%s: eBPF: %w", m.goarch, err)
			}
		}
		f.blobs = append(f.blobs, b)
	}
	return f.write()
}

// names returns the names of an enum's members in their order, without the prefix that all have. A member x followed by
// "x_end = x + N" is an array: its members are x, x1 to xN.
func names(header []byte, enum, prefix string) ([]string, error) {
	_, list, ok := bytes.Cut(header, []byte("enum loupe_"+enum+" {"))
	if !ok {
		return nil, errors.New("no enum loupe_" + enum)
	}
	list, _, _ = bytes.Cut(list, []byte(prefix+"COUNT"))
	var found []string
	for _, m := range regexp.MustCompile(prefix+`(\w+)(?: = `+prefix+`(\w+) \+ (\d+))?,`).FindAllSubmatch(list, -1) {
		if m[3] == nil {
			found = append(found, string(m[1]))
			continue
		}
		last, err := strconv.Atoi(string(m[3]))
		if err != nil || len(found) == 0 || found[len(found)-1] != string(m[2]) {
			return nil, fmt.Errorf("enum loupe_%s: %s does not end the array that the member before it begins", enum, m[0])
		}
		for i := range last {
			found = append(found, fmt.Sprint(string(m[2]), i+1))
		}
	}
	return found, nil
}

// stackLimit returns how much of the stack probes may use.
func stackLimit(header string) (int, error) {
	src, err := os.ReadFile(header)
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`LOUPE_STACK_USE = (\d+)`).FindSubmatch(src)
	if m == nil {
		return 0, fmt.Errorf("%s has no limit for the stack", header)
	}
	return strconv.Atoi(string(m[1]))
}

// build compiles the probes for a machine.
func (m *machine) build(dir string, o *owner, probes []string) (*blob, error) {
	object := filepath.Join(dir, m.goarch+".o")
	if err := command("clang-19", slices.Concat(m.flags, flags, []string{"-I" + o.headers, "-c", o.source, "-o", object})...); err != nil {
		return nil, err
	}
	b, err := flatten(object, m.page, probes)
	if err != nil {
		return nil, err
	}
	usage, err := os.ReadFile(strings.TrimSuffix(object, ".o") + ".su")
	if err != nil {
		return nil, err
	}
	b.stack, err = stackUse(usage)
	return b, err
}

// buildEBPF compiles the probes to an eBPF object for a machine, as bpf2go does.
func (m *machine) buildEBPF(o *owner) error {
	object := ebpfFile(m.goarch)
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	args := slices.Concat(ebpfFlags, []string{m.define, "-I" + o.headers, "-ffile-prefix-map=" + here + "=.", "-fdebug-compilation-dir", ".",
		"-c", o.source, "-o", object})
	if err := command("clang-19", args...); err != nil {
		return err
	}
	return command("llvm-strip-19", "-g", object)
}

func command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// stackUse adds up what the functions use of the stack, with a return address for each: more than any chain of calls can,
// since none calls itself. Of the probes, which no function calls, only the one that uses most counts.
func stackUse(usage []byte) (int, error) {
	sum, probe := 0, 0
	for line := range strings.Lines(string(usage)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 || fields[2] != "static" {
			return 0, fmt.Errorf("stack use is not bounded: %s", line)
		}
		n, err := strconv.Atoi(fields[1])
		if err != nil {
			return 0, err
		}
		if n += 8; strings.Contains(fields[0], ":probe_") {
			probe = max(probe, n)
		} else {
			sum += n
		}
	}
	return sum + probe, nil
}
