package trampoline

// SP is the number of the stack pointer.
const SP = 31

// Tail is the code that goes back: LDR X16, [SP, #264]; BR X16.
var Tail = []byte{0xf0, 0x87, 0x40, 0xf9, 0x00, 0x02, 0x1f, 0xd6}
