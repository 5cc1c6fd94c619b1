package godwarf

import (
	"bytes"
	"encoding/binary"
)

// The abbreviations that the programs of these tests use.
const (
	codeUnit = iota + 1
	codeStruct
	codeMember
	codeTypedef
	codeBase
	codePointer
	codeVariable
	codeConst
	codeFunction
	codeOldMember
)

// testAbbrev is the table of those abbreviations.
func testAbbrev() []byte {
	var b []byte
	add := func(code, tag byte, children bool, attrs ...byte) {
		b = append(b, code, tag, 0)
		if children {
			b[len(b)-1] = 1
		}
		b = append(b, attrs...)
		b = append(b, 0, 0)
	}
	const tagSubprogram = 0x2e
	add(codeUnit, tagCompileUnit, true, attrName, formString, attrLanguage, formData1, attrProducer, formString)
	add(codeStruct, tagStructType, true, attrName, formString, attrByteSize, formUdata)
	add(codeMember, tagMember, false, attrName, formString, attrMemberLocation, formUdata, attrType, formRefAddr)
	add(codeTypedef, tagTypedef, false, attrName, formString, attrType, formRefAddr)
	add(codeBase, tagBaseType, false, attrName, formString, attrByteSize, formData1)
	add(codePointer, tagPointerType, false, attrName, formString, attrType, formRefAddr)
	add(codeVariable, tagVariable, false, attrName, formString, attrType, formRefAddr)
	add(codeConst, tagConstant, false, attrName, formString, attrConstValue, formSdata)
	add(codeFunction, tagSubprogram, true, attrName, formString)
	add(codeOldMember, tagMember, false, attrName, formString, attrMemberLocation, formBlock1, attrType, formRef4)
	return append(b, 0)
}

// infoBuilder writes a .debug_info.
type infoBuilder struct {
	bytes.Buffer
	version int
	start   int // of the unit
}

// unit begins a compile unit.
func (b *infoBuilder) unit(name string, language byte) {
	b.start = b.Len()
	b.Write([]byte{0, 0, 0, 0, byte(b.version), 0})
	if b.version >= 5 {
		b.Write([]byte{unitCompile, 8, 0, 0, 0, 0})
	} else {
		b.Write([]byte{0, 0, 0, 0, 8})
	}
	b.entry(codeUnit, name, language, "Go cmd/compile go1.22.12; regabi")
}

// end ends a unit: its children and its length.
func (b *infoBuilder) end() {
	b.WriteByte(0)
	binary.LittleEndian.PutUint32(b.Bytes()[b.start:], uint32(b.Len()-b.start-4))
}

// ref is a reference to an offset in the section, near one to an offset in the unit.
type (
	ref  uint32
	near uint32
)

// entry writes an entry, its attributes in order, and returns where it is.
func (b *infoBuilder) entry(code byte, attrs ...any) ref {
	off := b.Len()
	b.WriteByte(code)
	for _, a := range attrs {
		switch a := a.(type) {
		case string:
			b.WriteString(a)
			b.WriteByte(0)
		case byte:
			b.WriteByte(a)
		case []byte:
			b.Write(a)
		case uint64:
			b.Write(binary.AppendUvarint(nil, a))
		case ref:
			b.Write(binary.LittleEndian.AppendUint32(nil, uint32(a)))
			if b.version == 2 { // as wide as an address
				b.Write([]byte{0, 0, 0, 0})
			}
		case near:
			b.Write(binary.LittleEndian.AppendUint32(nil, uint32(a)))
		default:
			panic(a)
		}
	}
	return ref(off)
}

func uleb(n int) uint64 { return uint64(n) }

// typesUnit writes what stands for the runtime's types: a runtime.g with a nested struct, a pointer, an atomic and a
// blank field, and a runtime.m that is reached only by name.
func (b *infoBuilder) typesUnit() {
	b.unit("runtime", langGo)
	b.entry(codeConst, "runtime._Gwaiting", byte(4))
	b.entry(codeConst, "runtime.unwanted", byte(5))
	b.entry(codeFunction, "runtime.gopark")
	b.entry(codeConst, "runtime._Gidle", byte(9)) // inside of a function: not the package's
	b.WriteByte(0)
	word := b.entry(codeBase, "uintptr", byte(8))
	half := b.entry(codeBase, "uint32", byte(4))
	pointer := b.entry(codePointer, "*runtime.m", word)
	atomic := b.entry(codeStruct, "internal/runtime/atomic.Uint32", uleb(4))
	b.entry(codeMember, "value", uleb(0), half)
	b.WriteByte(0)
	stack := b.entry(codeStruct, "runtime.stack", uleb(16))
	b.entry(codeMember, "lo", uleb(0), word)
	b.entry(codeMember, "hi", uleb(8), word)
	b.WriteByte(0)
	named := b.entry(codeTypedef, "runtime.stack", stack)
	b.entry(codeStruct, "runtime.g", uleb(40))
	b.entry(codeMember, "stack", uleb(0), named)
	b.entry(codeMember, "m", uleb(16), pointer)
	b.entry(codeMember, "_", uleb(24), half)
	b.entry(codeMember, "atomicstatus", uleb(28), atomic)
	b.entry(codeOldMember, "goid", []byte{2, opPlusUconst, 32}, near(word)-near(b.start))
	b.WriteByte(0)
	b.entry(codeStruct, "runtime.m", uleb(8))
	b.entry(codeMember, "g0", uleb(0), pointer)
	b.WriteByte(0)
	work := b.entry(codeStruct, "struct { tstart int64 }", uleb(64))
	b.entry(codeMember, "tstart", uleb(56), word)
	b.WriteByte(0)
	b.entry(codeVariable, "runtime.work", work)
	b.end()
}

// program returns a .debug_info with units before and behind the one of the types.
func program(version int) []byte {
	b := &infoBuilder{version: version}
	const langC99 = 0x0c
	b.unit("main", langGo)
	b.entry(codeStruct, "runtime.g", uleb(1)) // another package's, whatever it calls itself
	b.WriteByte(0)
	b.end()
	b.unit("runtime", langC99)
	b.entry(codeStruct, "runtime.g", uleb(2))
	b.WriteByte(0)
	b.end()
	b.typesUnit()
	b.unit("last", langGo)
	b.end()
	return b.Bytes()
}
