package inline

// Registers as Go uses them.
const (
	gRegister  = r14
	registers  = 16
	fpRegister = rbp
)

var argRegisters = []int{rax, rbx, rcx, rdi, rsi}

// scratch are registers that a body may change.
var scratch = map[int]bool{r12: true, r13: true}

// setCaller sets the address that the function which is hit was called from.
func (th *thread) setCaller(pc uint64) { put(th.r.In[rsp], pc) }

// callerAfterMove is how far above the stack pointer the caller's address is, where that was moved by 16 bytes.
const callerAfterMove = 16
