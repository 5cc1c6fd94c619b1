package trampoline

// SP is the number of the stack pointer.
const SP = 4

// Tail is the code that goes back: JMP [RSP+264].
var Tail = []byte{0xff, 0xa4, 0x24, 0x08, 0x01, 0x00, 0x00}
