package realtarget

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Debian is an executable in a Debian package, in the version that the
// machine's package lists offer.
type Debian struct {
	Package string
	File    string // path of the executable inside the package
}

// String implements Source.
func (d Debian) String() string { return "Debian package " + d.Package }

func (d Debian) key() string { return "debian-" + d.Package }

func (d Debian) missing() string {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool
		}
	}
	return ""
}

func (d Debian) get(dir, name string) error {
	work, err := os.MkdirTemp(dir, "package-")
	if err != nil {
		return err
	}
	if err := d.download(work); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("apt-get left %d files instead of one package", len(files))
	}
	if err := run(work, nil, "dpkg-deb", "-x", files[0], "tree"); err != nil {
		return err
	}
	return os.Rename(filepath.Join(work, "tree", d.File), filepath.Join(dir, name))
}

// download puts the package into a directory. Lists that are missing or older
// than the archive make it fail: root then gets new ones.
func (d Debian) download(dir string) error {
	// The directory is closed to the user as whom apt-get likes to download.
	args := []string{"-q", "-o", "APT::Sandbox::User=root", "download", d.Package}
	err := run(dir, nil, "apt-get", args...)
	if err == nil {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w\nif the package is not known, root has to run apt-get update once", err)
	}
	root, dirErr := cacheDir()
	if dirErr != nil {
		return dirErr
	}
	unlock, lockErr := lock(filepath.Join(root, "apt-get-update.lock")) // apt-get itself does not wait
	if lockErr != nil {
		return lockErr
	}
	defer unlock()
	if err := run(dir, nil, "apt-get", "-q", "update"); err != nil {
		return err
	}
	return run(dir, nil, "apt-get", args...)
}
