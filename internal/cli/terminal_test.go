package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal with somebody in front of it: what is written to it becomes a picture of a screen.
type terminal struct {
	t       *testing.T
	user    *os.File // the side of the keyboard and the screen
	stdio   *os.File // the side of the program
	reads   sync.Mutex
	mu      sync.Mutex // guards what follows
	cells   [][]rune
	x, y    int
	top     int  // of the scrolling region
	bottom  int  // the first line below it
	noWrap  bool // at the end of a line the cursor stays there
	rest    []byte
	odd     map[string]bool // sequences that are not understood
	colours string          // the arguments of all sequences that chose a colour
}

func newTerminal(t *testing.T, width, height int) *terminal {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	stdio, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The user's side must be polled, so that closing it ends a read.
	unblocked, err := syscall.Dup(int(user.Fd()))
	if err == nil {
		err = syscall.SetNonblock(unblocked, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	user.Close()
	term := &terminal{t: t, user: os.NewFile(uintptr(unblocked), "terminal"), stdio: stdio, odd: map[string]bool{}}
	term.resize(width, height)
	done := make(chan struct{})
	go func() {
		defer close(done)
		term.read()
	}()
	t.Cleanup(func() {
		term.user.Close()
		stdio.Close()
		<-done
	})
	return term
}

// resize changes the size, as a window does.
func (m *terminal) resize(width, height int) {
	m.t.Helper()
	err := unix.IoctlSetWinsize(int(m.stdio.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)})
	if err != nil {
		m.t.Fatal(err)
	}
	m.mu.Lock()
	m.cells = make([][]rune, height)
	for i := range m.cells {
		m.cells[i] = []rune(strings.Repeat(" ", width))
	}
	m.x, m.y, m.top, m.bottom = 0, 0, 0, height
	m.mu.Unlock()
	syscall.Kill(os.Getpid(), syscall.SIGWINCH) // it is not this process's controlling terminal
}

func (m *terminal) read() {
	buf := make([]byte, 4096)
	for {
		m.reads.Lock()
		n, err := m.user.Read(buf)
		m.reads.Unlock()
		m.mu.Lock()
		m.rest = append(m.rest, buf[:n]...)
		m.interpret()
		m.mu.Unlock()
		if err != nil && !errors.Is(err, syscall.EIO) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// stall stops reading what is written; goOn reads on.
func (m *terminal) stall() {
	m.reads.Lock()
}

func (m *terminal) goOn() { m.reads.Unlock() }

// press types keys.
func (m *terminal) press(keys string) {
	m.t.Helper()
	if _, err := m.user.WriteString(keys); err != nil {
		m.t.Fatal(err)
	}
}

func (m *terminal) screen() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, row := range m.cells {
		b.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	return b.String()
}

// await waits until all texts are on the screen.
func (m *terminal) await(texts ...string) string {
	m.t.Helper()
	const patience = 2 * time.Minute
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		screen := m.screen()
		missing := ""
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				missing = text
			}
		}
		if missing == "" {
			return screen
		}
		if time.Since(begin) > patience {
			m.t.Fatalf("no %q on the screen:\n%s", missing, screen)
		}
	}
}

// understood fails when something was written that this terminal does not know: the picture may be wrong then.
func (m *terminal) understood() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.odd {
		m.t.Errorf("the terminal does not know %q", s)
	}
}

// interpret does what was written. The caller holds the lock.
func (m *terminal) interpret() {
	for len(m.rest) > 0 {
		n := 1
		switch c := m.rest[0]; {
		case c == 0x1b:
			if n = m.escape(); n == 0 {
				return // the rest is to come
			}
		case c == '\r':
			m.x = 0
		case c == '\n':
			m.lineFeed()
		case c == '\b':
			m.x = max(m.x-1, 0)
		case c == '\t':
			m.x = min(m.x/8*8+8, len(m.cells[0])-1)
		case c < ' ':
		default:
			if !utf8.FullRune(m.rest) {
				return
			}
			var r rune
			r, n = utf8.DecodeRune(m.rest)
			m.put(r)
		}
		m.rest = m.rest[n:]
	}
}

func (m *terminal) put(r rune) {
	if m.x >= len(m.cells[0]) {
		m.x = 0
		m.lineFeed()
	}
	m.cells[m.y][m.x] = r
	if m.x++; m.noWrap {
		m.x = min(m.x, len(m.cells[0])-1)
	}
}

func (m *terminal) lineFeed() {
	if m.y+1 == m.bottom {
		m.scroll(m.top, 1)
	} else {
		m.y = min(m.y+1, len(m.cells)-1)
	}
}

// scroll moves the lines from one on to the end of the region up; down when n is negative.
func (m *terminal) scroll(from, n int) {
	width := len(m.cells[0])
	if from >= m.bottom {
		return
	}
	for ; n > 0; n-- {
		copy(m.cells[from:m.bottom], m.cells[from+1:m.bottom])
		m.cells[m.bottom-1] = []rune(strings.Repeat(" ", width))
	}
	for ; n < 0; n++ {
		copy(m.cells[from+1:m.bottom], m.cells[from:m.bottom-1])
		m.cells[from] = []rune(strings.Repeat(" ", width))
	}
}

// escape does an escape sequence and returns its length; 0 when it is not complete.
func (m *terminal) escape() int {
	if len(m.rest) < 2 {
		return 0
	}
	switch m.rest[1] {
	case '[':
		for i := 2; i < len(m.rest); i++ {
			if c := m.rest[i]; c >= '@' && c <= '~' {
				m.control(string(m.rest[2:i]), c)
				return i + 1
			}
		}
		return 0
	case ']', 'P':
		for i := 2; i < len(m.rest); i++ {
			if m.rest[i] == 7 || m.rest[i] == '\\' && m.rest[i-1] == 0x1b {
				return i + 1
			}
		}
		return 0
	case 'M':
		m.scroll(m.top, -1)
	case '7', '8', '=', '>', 'c':
	default:
		m.odd[string(m.rest[:2])] = true
	}
	return 2
}

// control does a control sequence.
func (m *terminal) control(args string, final byte) {
	if final == 'm' {
		for _, a := range strings.Split(args, ";") {
			if len(a) == 2 && a != "39" && a[0] == '3' {
				m.colours += a
			}
		}
	}
	if args == "?7" {
		m.noWrap = final == 'l'
	}
	if strings.HasPrefix(args, "?1049") { // to another screen and back
		for i := range m.cells {
			m.cells[i] = []rune(strings.Repeat(" ", len(m.cells[i])))
		}
	}
	private := args != "" && strings.ContainsRune("?<>=", rune(args[0])) || strings.ContainsAny(args, " $!")
	if private || strings.IndexByte("mhlqupct", final) >= 0 {
		return // modes, colours, questions
	}
	numbers := []int{}
	for _, a := range strings.Split(args, ";") {
		n, _ := strconv.Atoi(a)
		numbers = append(numbers, n)
	}
	end := len(m.cells[0])
	if final != 'b' { // only what is written next, or repeated, goes to the next line
		end--
	}
	m.x = min(m.x, end)
	if !m.move(final, numbers) && !m.edit(final, numbers) {
		m.odd["\x1b["+args+string(final)] = true
	}
	m.x, m.y = max(min(m.x, end), 0), max(min(m.y, len(m.cells)-1), 0)
}

// move does a control sequence that moves the cursor; false when it is another one.
func (m *terminal) move(final byte, numbers []int) bool {
	n := max(numbers[0], 1)
	switch final {
	case 'A':
		m.y -= n
	case 'B':
		m.y += n
	case 'C':
		m.x += n
	case 'D':
		m.x -= n
	case 'G', '`':
		m.x = n - 1
	case 'I':
		m.x = (m.x/8 + n) * 8
	case 'Z':
		m.x = max((m.x+7)/8-n, 0) * 8
	case 'd':
		m.y = n - 1
	case 'H', 'f':
		m.y, m.x = n-1, 0
		if len(numbers) > 1 {
			m.x = max(numbers[1], 1) - 1
		}
	case 'r':
		m.x, m.y, m.top, m.bottom = 0, 0, n-1, len(m.cells)
		if len(numbers) > 1 && numbers[1] > 0 {
			m.bottom = min(numbers[1], len(m.cells))
		}
	default:
		return false
	}
	return true
}

// edit does a control sequence that changes what is on the screen; false when it is another one.
func (m *terminal) edit(final byte, numbers []int) bool {
	n, width := max(numbers[0], 1), len(m.cells[0])
	x := min(m.x, width)
	row := m.cells[m.y]
	blanks := []rune(strings.Repeat(" ", width))
	switch final {
	case 'J':
		from, to := m.y*width+x, len(m.cells)*width
		switch numbers[0] {
		case 1:
			from, to = 0, from+1
		case 2:
			from = 0
		}
		for i := from; i < to; i++ {
			m.cells[i/width][i%width] = ' '
		}
	case 'K':
		switch numbers[0] {
		case 0:
			copy(row[x:], blanks)
		case 1:
			copy(row[:min(x+1, width)], blanks)
		default:
			copy(row, blanks)
		}
	case 'X':
		copy(row[x:min(x+n, width)], blanks)
	case 'P':
		copy(row[x:], append(slices.Clone(row[min(x+n, width):]), blanks...))
	case '@':
		copy(row[x:], append(slices.Clone(blanks[:min(n, width)]), row[x:]...))
	case 'b':
		last := row[max(x-1, 0)]
		for range n {
			m.put(last)
		}
	case 'L':
		m.scroll(m.y, -n)
	case 'M':
		m.scroll(m.y, n)
	case 'S':
		m.scroll(m.top, n)
	case 'T':
		m.scroll(m.top, -n)
	default:
		return false
	}
	return true
}
