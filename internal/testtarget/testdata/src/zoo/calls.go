package main

import (
	"reflect"
	"sort"
	"strings"

	"loupe.test/zoo/asmcall"
	cage "loupe.test/zoo/cage.v2"
)

func init() { exhibit(showCalls) }

func showCalls() {
	go deepRecursion(300)
	go deepRecursion(98)
	go deepRecursion(60)
	go wideFrames(20)

	a := &animal{c: never}
	go a.rest(7)
	go animal.restByValue(*a)
	go (*animal).rest(a, 8)
	bound := a.rest
	go bound(9)
	var r rester = a
	go r.rest(10)
	var wrapped rester = herd{a}
	go callInterface(wrapped)
	go wrapped.rest(11)
	var pointer rester = &pack{animal{c: never}, 3}
	go callInterface(pointer)
	var byValue valueRester = a
	go callValueInterface(byValue)
	go deferMethod(a)

	go func() { <-never }()
	go func(n int) {
		func() {
			func() {
				<-never
			}()
		}()
	}(1)
	go storedClosure()
	makeClosure(3)()

	go cage.Enter(never)
	go cage.Keeper{C: never}.Wait()
	(&cage.Keeper{C: never}).Feed()
	go asmcall.Through()

	go reflectCall()
	go reflectMethod(a)
	go reflectMakeFunc()
	go sortLess()
	go stringsMap()
	go größe("ü")
	go manyArguments(1, 2, 3, "four", []int{5}, 6.5, a, r)
	go lineDirective()
	go func() {
		go grandchild()
	}()
	spawn(spawned)
	spawnClosure()
}

//go:noinline
func deepRecursion(n int) int {
	if n == 0 {
		return <-never
	}
	return deepRecursion(n-1) + 1
}

// wideFrames makes the stack grow to some hundred kilobytes.
//
//go:noinline
func wideFrames(n int) byte {
	var room [16 << 10]byte
	room[n] = byte(n)
	if n == 0 {
		<-never
		return room[0]
	}
	return wideFrames(n-1) + room[n]
}

type rester interface{ rest(n int) }

type valueRester interface{ restByValue() }

type animal struct {
	c    chan int
	name string
}

//go:noinline
func (a *animal) rest(n int) { <-a.c }

//go:noinline
func (a animal) restByValue() { <-a.c }

// herd and pack get their methods from what they embed, through wrappers that
// the compiler makes.
type herd struct{ *animal }

type pack struct {
	animal
	size int
}

//go:noinline
func callInterface(r rester) { r.rest(1) }

//go:noinline
func callValueInterface(r valueRester) { r.restByValue() }

func deferMethod(a *animal) { defer a.rest(12) }

var storedClosure = func() { <-never }

func makeClosure(n int) func() {
	return func() {
		go func() {
			n++
			<-never
		}()
	}
}

func reflectCall() {
	reflect.ValueOf(reflected).Call([]reflect.Value{reflect.ValueOf(3), reflect.ValueOf("three")})
}

func reflected(n int, s string) { <-never }

func reflectMethod(a *animal) {
	f := reflect.ValueOf(a).MethodByName("Exported").Interface().(func(int))
	f(3)
}

// Exported is a method that reflection can find.
func (a *animal) Exported(n int) { <-a.c }

func reflectMakeFunc() {
	var f func(int) int
	made := reflect.MakeFunc(reflect.TypeOf(f), func(args []reflect.Value) []reflect.Value {
		<-never
		return args
	})
	made.Interface().(func(int) int)(3)
}

func sortLess() {
	numbers := []int{3, 1, 2}
	sort.Slice(numbers, func(i, j int) bool {
		<-never
		return numbers[i] < numbers[j]
	})
}

func stringsMap() {
	strings.Map(func(r rune) rune {
		<-never
		return r
	}, "abc")
}

func größe(ü string) { <-never }

//go:noinline
func manyArguments(a int8, b int, c uint64, s string, list []int, f float64, p *animal, i interface{}) {
	<-never
}

func grandchild() { <-never }

// spawn is short enough to be inlined where a release can inline go statements.
func spawn(f func()) { go f() }

func spawned() { <-never }

func spawnClosure() {
	spawner := func() { go spawned() }
	spawner()
}
