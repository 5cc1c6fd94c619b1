package inline

// Registers as Go uses them.
const (
	gRegister  = x28
	registers  = 31 // the stack pointer is compared beside them
	fpRegister = x29
)

var argRegisters = []int{0, 1, 2, 3, 4}

// scratch are registers that a body may change, and X18, which is not looked at.
var scratch = map[int]bool{16: true, 17: true, 18: true, 19: true, 20: true, 21: true, 22: true, 23: true, 24: true, 25: true}

// setCaller sets the address that the function which is hit was called from.
func (th *thread) setCaller(pc uint64) { th.r.In[x30] = pc }

// callerAfterMove is how far above the stack pointer the caller's address is, where that was moved by 16 bytes.
const callerAfterMove = 0
