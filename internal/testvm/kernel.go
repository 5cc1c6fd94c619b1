package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// findKernel returns the file with the kernel, which may have to be downloaded and unpacked.
func findKernel(o options, work string) (string, error) {
	if strings.Contains(o.kernel, "/") && !strings.HasSuffix(o.kernel, ".deb") {
		return o.kernel, nil
	}
	files := []string{o.kernel}
	if !strings.HasSuffix(o.kernel, ".deb") {
		var err error
		if files, err = packages(o, o.kernel, o.downloadKernel); err != nil {
			return "", err
		}
	}
	dir, err := unpack(files, work)
	if err != nil {
		return "", err
	}
	return only(filepath.Join(dir, "boot", "vmlinuz-*"))
}

// baseSystem returns a directory with the programs and libraries that tests use.
func baseSystem(o options, work string) (string, error) {
	files, err := packages(o, "base", func(a apt, dir string) error {
		args := append([]string{"install", "--yes", "--download-only", "--no-install-recommends",
			"-o", "Dir::Cache::archives=" + dir}, basePackages...)
		_, err := a.run("apt-get", dir, args...)
		return err
	})
	if err != nil {
		return "", err
	}
	return unpack(files, work)
}

// basePackages have programs that tests run, and the C library that targets with cgo are linked to.
var basePackages = []string{"coreutils", "dash", "libc6", "util-linux"}

// packages returns the files of Debian packages, which are downloaded once and kept in the user's cache directory.
func packages(o options, name string, download func(a apt, dir string) error) ([]string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(user, "loupe-testvm", o.arch, name)
	pattern := filepath.Join(dir, "*.deb")
	if files, _ := filepath.Glob(pattern); len(files) > 0 {
		return files, nil
	}
	// Only a complete download gets the name.
	fresh := dir + ".new"
	if err := errors.Join(os.RemoveAll(fresh), os.MkdirAll(filepath.Join(fresh, "partial"), 0o755)); err != nil {
		return nil, err
	}
	a, err := newApt(o.arch)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if err := download(a, fresh); err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(fresh, dir)); err != nil {
		return nil, err
	}
	return filepath.Glob(pattern)
}

// unpack returns a directory with the contents of packages.
func unpack(files []string, work string) (string, error) {
	dir, err := os.MkdirTemp(work, "packages-")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if _, err := output("dpkg-deb", "-x", file, dir); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// apt is the package manager for another architecture. It changes nothing of what this system knows of packages.
type apt struct {
	dir      string
	settings []string
}

func newApt(arch string) (apt, error) {
	dir, err := os.MkdirTemp("", "testvm-apt-")
	if err != nil {
		return apt{}, err
	}
	a := apt{dir: dir}
	status := filepath.Join(dir, "status")
	err = errors.Join(os.MkdirAll(filepath.Join(dir, "state/lists/partial"), 0o755),
		os.MkdirAll(filepath.Join(dir, "cache/archives/partial"), 0o755), os.WriteFile(status, nil, 0o644))
	a.settings = []string{
		"-o", "Dir::State=" + filepath.Join(dir, "state"), "-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "Dir::State::status=" + status, "-o", "APT::Architecture=" + arch, "-o", "APT::Architectures=" + arch,
		"-o", "APT::Sandbox::User=", // another user cannot write to our directory
	}
	if err == nil {
		_, err = a.run("apt-get", dir, "update")
	}
	if err != nil {
		a.close()
	}
	return a, err
}

func (a apt) close() { os.RemoveAll(a.dir) }

// run returns what a program of apt prints, run in a directory.
func (a apt) run(name, dir string, args ...string) (string, error) {
	cmd := exec.Command(name, append(slices.Clone(a.settings), args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// concrete are the packages that have a kernel in them, and do not just depend on one that has.
var concrete = regexp.MustCompile(`^linux-image-[0-9]`)

// downloadKernel downloads a kernel without what it needs to be installed.
func (o options) downloadKernel(a apt, dir string) error {
	name := o.kernel
	if !concrete.MatchString(name) {
		depends, err := a.run("apt-cache", dir, "depends", "--important", name)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(strings.Fields(depends), concrete.MatchString)
		if i < 0 {
			return fmt.Errorf("%s depends on no kernel: %s", name, depends)
		}
		name = strings.Fields(depends)[i]
	}
	_, err := a.run("apt-get", dir, "download", name)
	return err
}

// only returns the one file that a pattern matches.
func only(pattern string) (string, error) {
	files, err := filepath.Glob(pattern)
	if err == nil && len(files) != 1 {
		err = errors.New("not exactly one file")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", pattern, err)
	}
	return files[0], nil
}
