package discover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/gobin"
)

// A fileKey identifies the contents of an executable, which cannot change while it is executed.
type fileKey struct {
	major, minor      uint32 // of the device
	inode, size       uint64
	modified, changed unix.StatxTimestamp // the contents, and the inode
}

// A file is what is known about an executable.
type file struct {
	isGo    bool
	buildID string
	err     error // why it is unknown whether it is a Go program
}

// maxFiles bounds the executables that a fileCache keeps.
const maxFiles = 2048

// A fileCache keeps what is known about executables. That a build ID is of a Go program is kept, too, because each container has a file
// of its own for the same executable. A program can have a build ID that belongs to another one: then at most it is taken for a Go
// program.
type fileCache struct {
	files    *generations[fileKey, file]
	buildIDs *generations[string, struct{}]
}

func newFileCache() *fileCache {
	return &fileCache{newGenerations[fileKey, file](maxFiles), newGenerations[string, struct{}](maxFiles)}
}

// executable returns what is known about the executable of a process. analyzed is set if the file was analyzed for this. The error wraps
// fs.ErrNotExist if the process has ended.
func (c *fileCache) executable(pid int) (f file, analyzed bool, err error) {
	link := fmt.Sprintf("/proc/%d/exe", pid)
	fd, err := unix.Open(link, unix.O_PATH|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return file{}, false, fs.ErrNotExist
	case errors.Is(err, unix.EACCES):
		return file{}, false, fmt.Errorf("%w: requires CAP_SYS_PTRACE, unless a security module has refused it", err)
	case err != nil:
		return file{}, false, err
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
		return file{}, false, err
	}
	key := fileKey{st.Dev_major, st.Dev_minor, st.Ino, st.Size, st.Mtime, st.Ctime}
	if f, ok := c.files.get(key); ok {
		return f, false, nil
	}
	r, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		return file{}, false, fmt.Errorf("only the owner may read its executable: %w: requires CAP_DAC_READ_SEARCH", fs.ErrPermission)
	}
	if err != nil {
		return file{}, false, err
	}
	defer r.Close()
	f, analyzed = c.read(r, link, int64(st.Size))
	c.files.put(key, f)
	return f, analyzed, nil
}

// read returns what is known about an executable that is open.
func (c *fileCache) read(r *os.File, name string, size int64) (f file, analyzed bool) {
	f.buildID, _ = gobin.BuildID(r) // gobin.New reports what is wrong
	if f.buildID != "" {
		if _, ok := c.buildIDs.get(f.buildID); ok {
			f.isGo = true
			return f, false
		}
	}
	_, err := gobin.New(r, size, name)
	switch {
	case err == nil:
		f.isGo = true
		if f.buildID != "" {
			c.buildIDs.put(f.buildID, struct{}{})
		}
	case errors.Is(err, gobin.ErrNotELF), errors.Is(err, gobin.ErrNotGo):
	default:
		f.err = err
	}
	return f, true
}
