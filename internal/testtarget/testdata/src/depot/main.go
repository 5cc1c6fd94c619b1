// Depot calls functions of a library, example.com/parcel, of which there are two versions with different structs (directories
// parcel1 and parcel2).
//
// It adds the commands
//
//	send N LABEL STREET CITY   sends N parcels with these texts, then `send N`
//	chain N       sends a parcel that is the first of a chain of N, then `chain N`
//	ring          sends a parcel whose chain leads back to itself, then `ring`
//	hostile CASE  sends a parcel whose label is not valid memory, then `hostile CASE`. The cases are huge, negative, border,
//	              unmapped, kernel, low, nil
//	addresses N   sends N parcels whose labels are anywhere within 256 MiB around an object of the heap, or within 64 MiB around a
//	              variable, then `addresses N`
//	weigh KIND N  weighs N parcels of a kind, then `weigh KIND N`
//	kinds N       weighs a parcel of each of N kinds, then `kinds N`
//	confine NUMBER  puts itself under a seccomp filter that kills it for a system call, then `confine NUMBER`
//	exec          replaces itself by itself, which is ready anew
//	load N        sends N parcels in each of eight goroutines, which grow their stacks, while the collector runs; then `load N`
package main

import (
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"example.com/parcel"
)

func main() {
	d := &depot{to: &parcel.Depot{}}
	serve(false, map[string]command{
		"send": d.send, "chain": d.chain, "ring": d.ring, "hostile": d.hostile, "weigh": d.weigh, "kinds": d.kinds, "load": d.load, "confine": confine,
		"addresses": d.addresses, "exec": again,
	})
}

type depot struct{ to *parcel.Depot }

func count(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintf(os.Stderr, "depot: %q is not a number\n", text)
		os.Exit(2)
	}
	return n
}

func (d *depot) send(args []string) string {
	for i := 0; i < count(args[0]); i++ {
		d.to.Send(parcel.New(args[1], args[2], args[3], i))
	}
	return "send " + args[0]
}

func (d *depot) chain(args []string) string {
	var first *parcel.Parcel
	for i := count(args[0]); i > 0; i-- {
		p := parcel.New(fmt.Sprintf("link %d", i), "chain", "chain", i)
		p.Next = first
		first = p
	}
	d.to.Send(first)
	return "chain " + args[0]
}

func (d *depot) ring([]string) string {
	p := parcel.New("ring", "ring", "ring", 1)
	p.Next = p
	d.to.Send(p)
	p.Next = nil
	return "ring"
}

// stringAt returns a string with any header.
func stringAt(addr, length uintptr) (s string) {
	header := (*[2]uintptr)(unsafe.Pointer(&s))
	header[0], header[1] = addr, length
	return s
}

// hostile sends parcels with labels that nothing but the probe reads. They are made without the collector, which does not expect
// such pointers.
func (d *depot) hostile(args []string) string {
	page := uintptr(syscall.Getpagesize())
	mem, err := syscall.Mmap(-1, 0, int(2*page), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return "error " + err.Error()
	}
	copy(mem, strings.Repeat("x", int(page)))
	if err := syscall.Mprotect(mem[page:], syscall.PROT_NONE); err != nil {
		return "error " + err.Error()
	}
	at := uintptr(unsafe.Pointer(&mem[0]))
	label := map[string][2]uintptr{
		"huge": {at, 1 << 46}, "negative": {at, ^uintptr(0) - 5}, "border": {at + page - 10, 100}, "unmapped": {at + page, 10},
		"kernel": {^uintptr(0) - 1<<20, 10}, "low": {8, 10}, "nil": {0, 10},
	}[args[0]]
	p := parcel.New("", "hostile", args[0], 1)
	d.to.SendRaw(p, &p.Label, label)
	return "hostile " + args[0]
}

var variable byte

func (d *depot) addresses(args []string) string {
	r := rand.New(rand.NewSource(1))
	p := parcel.New("", "street", "city", 1)
	for i := 0; i < count(args[0]); i++ {
		at, around := uintptr(unsafe.Pointer(p)), 256<<20
		if i%2 == 0 {
			at, around = uintptr(unsafe.Pointer(&variable)), 64<<20
		}
		d.to.SendRaw(p, &p.Label, [2]uintptr{at + uintptr(r.Intn(around)) - uintptr(around/2), uintptr(1 + r.Intn(100))})
	}
	return "addresses " + args[0]
}

// again executes the program once more.
func again([]string) string {
	return "error " + syscall.Exec("/proc/self/exe", os.Args, os.Environ()).Error()
}

func (d *depot) weigh(args []string) string {
	kind := uint64(count(args[0]))
	for i := 0; i < count(args[1]); i++ {
		d.to.Weigh(kind, 3)
	}
	return "weigh " + args[0] + " " + args[1]
}

func (d *depot) kinds(args []string) string {
	for i := 0; i < count(args[0]); i++ {
		d.to.Weigh(uint64(i), 1)
	}
	return "kinds " + args[0]
}

func (d *depot) load(args []string) string {
	var wg sync.WaitGroup
	for i := 0; i < 8; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < count(args[0]); i++ {
				deep(i%20, func() { d.to.Send(parcel.New("load", "street", "city", 1)) })
				if i%100 == 0 {
					runtime.GC()
				}
			}
		}()
	}
	wg.Wait()
	return "load " + args[0]
}

// confine puts all threads under a filter.
func confine(args []string) string {
	type instruction struct {
		code   uint16
		jt, jf uint8
		k      uint32
	}
	program := []instruction{
		{0x20, 0, 0, 0}, // load the number of the call
		{0x15, 0, 1, uint32(count(args[0]))},
		{0x06, 0, 0, 0x80000000}, // kill the process
		{0x06, 0, 0, 0x7fff0000}, // allow
	}
	filter := struct {
		n    uint16
		list *instruction
	}{uint16(len(program)), &program[0]}
	const setNoNewPrivs, modeFilter, allThreads = 38, 1, 1
	runtime.LockOSThread()
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, setNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return "error " + errno.Error()
	}
	if _, _, errno := syscall.RawSyscall(seccompCall[runtime.GOARCH], modeFilter, allThreads, uintptr(unsafe.Pointer(&filter))); errno != 0 {
		return "error " + errno.Error()
	}
	return "confine " + args[0]
}

// seccompCall is the number of the system call seccomp, which package syscall does not have.
var seccompCall = map[string]uintptr{"amd64": 317, "arm64": 277}

// deep calls f in a stack that grows.
func deep(n int, f func()) {
	var room [128]byte
	if n == 0 {
		f()
		return
	}
	room[n] = 1
	deep(n-1, f)
}
