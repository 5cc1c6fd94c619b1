package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/internal/testvm/job"
)

const (
	guestSource = "/src" // this repository in the machine
	users       = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
)

// makeInitrd writes the file system that the machine begins with.
func makeInitrd(o options, work, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	a := newArchive(f)
	if err := fill(a, o, work); err != nil {
		return err
	}
	if err := a.end(); err != nil {
		return err
	}
	return f.Close()
}

func fill(a *archive, o options, work string) error {
	root, err := output("go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return err
	}
	for _, dir := range []string{"/tmp", "/dev", "/proc", "/sys"} {
		if err := a.dir(dir); err != nil {
			return err
		}
	}
	if err := a.file("/etc/passwd", 0o644, []byte(users)); err != nil {
		return err
	}
	for path, pkg := range map[string]string{"/init": "./internal/testvm/init", "/bin/loupe": "./cmd/loupe"} {
		bin := filepath.Join(work, filepath.Base(path))
		if err := compile(o, root, "build", "-o", bin, pkg); err != nil {
			return err
		}
		if err := a.copy(path, bin); err != nil {
			return err
		}
	}
	system, err := baseSystem(o, work)
	if err != nil {
		return err
	}
	if err := a.tree("/", system, "usr/share"); err != nil {
		return err
	}
	if err := addSource(a, root); err != nil {
		return err
	}
	if err := addTargets(a, o); err != nil {
		return err
	}
	return addJobs(a, o, root, work)
}

// addSource adds the files of this repository: tests read some of them.
func addSource(a *archive, root string) error {
	list, err := output("git", "-C", root, "ls-files", "-co", "--exclude-standard")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(list) {
		if err := a.copy(filepath.Join(guestSource, name), filepath.Join(root, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// narrow are the architectures whose programs a kernel runs too.
var narrow = map[string]string{testtarget.AMD64: "386", testtarget.ARM64: "arm"}

// addTargets adds the programs that tests observe, where the tests look for them: in all shapes with the newest release.
func addTargets(a *archive, o options) error {
	added := map[string]bool{}
	for _, program := range o.programs {
		specs := []testtarget.Spec{
			{}, {Stripped: true}, {PIE: true}, {Stripped: true, PIE: true}, {Cgo: true}, {PIE: true, Cgo: true},
		}
		for _, release := range o.releases {
			specs = append(specs, testtarget.Spec{Go: release})
		}
		if program == "tiny" {
			specs = append(specs, testtarget.Spec{Arch: narrow[o.arch]})
		}
		for _, spec := range specs {
			spec.Program = program
			if spec.Arch == "" {
				spec.Arch = o.arch
			}
			if missing := spec.Unsupported(); missing != "" {
				fmt.Fprintln(os.Stderr, "testvm: left out:", missing)
				continue
			}
			path, err := testtarget.Executable(spec)
			if err != nil {
				return err
			}
			entry := filepath.Dir(path)
			if added[entry] {
				continue
			}
			added[entry] = true
			if err := a.tree(entry, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// addJobs adds the test programs, and the list of what is run.
func addJobs(a *archive, o options, root, work string) error {
	cache, err := os.UserCacheDir() // at the same place in the machine
	if err != nil {
		return err
	}
	var jobs []job.Job
	made := map[string]bool{}
	env := []string{"XDG_CACHE_HOME=" + cache}
	for _, args := range o.jobs {
		if filepath.IsAbs(args[0]) { // a program in the machine
			jobs = append(jobs, job.Job{Dir: "/", Limit: o.limit, Args: args, Env: env})
			continue
		}
		dir, err := output("go", "list", "-f", "{{.Dir}}", args[0])
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(filepath.Join("root", rel), "/", "-") + ".test"
		bin, path := filepath.Join(work, name), filepath.Join("/bin", name)
		if !made[name] {
			made[name] = true
			if err := compile(o, root, "test", "-c", "-o", bin, dir); err != nil {
				return err
			}
			if err := a.copy(path, bin); err != nil {
				return err
			}
		}
		jobs = append(jobs, job.Job{
			Dir: filepath.Join(guestSource, rel), Limit: o.limit, Args: append([]string{path}, args[1:]...),
			Env: env,
		})
	}
	list, err := json.Marshal(jobs)
	if err != nil {
		return err
	}
	return a.file(job.ListPath, 0o644, list)
}

// compile runs the go command for the machine.
func compile(o options, dir string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+o.arch)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// output returns what a command prints.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}
