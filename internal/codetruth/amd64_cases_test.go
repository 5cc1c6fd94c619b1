package codetruth

import "github.com/loupe-go/loupe/internal/codepatch/insn"

// x86Callees stand before the functions: what grows the stack, and a callee that notes the address it returns to, which
// must be the same with a patch and without.
const x86Callees = `
data:
	.quad 0x1122334455667788, 0x0102030405060708
morestack:
	movq $0, 0x10(%r14)
	incq 0x28(%r14)
	ret
callee:
	movq (%rsp), %r11
	movq %r11, 8(%rdi)
	addq %rax, 16(%rdi)
	leaq 7(%rax), %rcx
	ret
`

// x86Short and x86Long are the two sizes of JBE.
const (
	x86Short = "site: jbe grow\n"
	x86Long  = "site: .byte 0x0f, 0x86\n .long grow - . - 4\n"
)

// x86Body is what functions do between prologue and return.
const x86Body = `
	movq %rax, 0x10(%rsp)
	movq %rdi, 0x18(%rsp)
	call callee
	addq 0x10(%rsp), %rcx
	movq %rcx, 24(%rdi)
`

const x86Grow = `
grow:
	call morestack
	jmp func
end:
`

var amd64Cases = []runCase{
	{name: "long stack check", kind: insn.SiteStackCheck, code: x86Callees + `
func:
	cmpq 0x10(%r14), %rsp
` + x86Long + probeLine + `
	pushq %rbp
	movq %rsp, %rbp
	subq $0x30, %rsp
` + x86Body + `
	addq $0x30, %rsp
	popq %rbp
	ret
` + x86Grow},
	{name: "short stack check, push", kind: insn.SiteStackCheck, code: x86Callees + `
func:
	cmpq 0x10(%r14), %rsp
` + x86Short + probeLine + `
	pushq %rbp
	movq %rsp, %rbp
	subq $0x30, %rsp
` + x86Body + `
	addq $0x30, %rsp
	popq %rbp
	ret
` + x86Grow},
	{name: "short stack check, g in thread-local storage", kind: insn.SiteStackCheck, code: x86Callees + `
func:
	movq %fs:-8, %rcx
	cmpq 0x10(%rcx), %rsp
` + x86Short + probeLine + `
	subq $0x30, %rsp
	movq %rbp, 0x28(%rsp)
	leaq 0x28(%rsp), %rbp
` + x86Body + `
	movq 0x28(%rsp), %rbp
	addq $0x30, %rsp
	ret
` + x86Grow},
	{name: "short stack check of a large frame before a loop", kind: insn.SiteStackCheck, start: "check", live: true, fault: true, code: x86Callees + `
func:
	leaq -0x100(%rsp), %r12
check:
	cmpq 0x10(%r14), %r12
` + x86Short + probeLine + `
loop:
	leaq 1(%rdx), %rdx
	decq %rax
	jg loop
	ret
` + x86Grow},
	{name: "push", kind: insn.SitePush, code: x86Callees + `
func:
` + probeLine + `
site:
	pushq %rbp
	movq %rsp, %rbp
	subq $0x30, %rsp
` + x86Body + `
	addq $0x30, %rsp
	popq %rbp
	ret
end:
`},
	{name: "push in a function with a jump table", kind: insn.SitePush, code: x86Callees + `
table:
	.long zero - table, one - table, two - table, two - table
func:
` + probeLine + `
site:
	pushq %rbp
	movq %rsp, %rbp
	subq $0x30, %rsp
	leaq table(%rip), %rcx
	movslq (%rcx,%rax,4), %rdx
	addq %rcx, %rdx
	jmp *%rdx
zero:
	movq $10, (%rdi)
	jmp out
one:
	movq $11, (%rdi)
	jmp out
two:
	movq $12, (%rdi)
out:
	xorl %edx, %edx
	xorl %ecx, %ecx
	addq $0x30, %rsp
	popq %rbp
	ret
end:
`},
	{name: "frame without push", kind: insn.SiteEntry, code: x86Callees + `
func:
` + probeLine + `
site:
	subq $0x30, %rsp
	movq %rbp, 0x28(%rsp)
	leaq 0x28(%rsp), %rbp
` + x86Body + `
	movq 0x28(%rsp), %rbp
	addq $0x30, %rsp
	ret
end:
`},
	{name: "load of static data", kind: insn.SiteEntry, live: true, code: x86Callees + `
func:
` + probeLine + `
site:
	movq data+8(%rip), %rcx
	movq %rcx, (%rdi)
	setb 8(%rdi)
	ret
end:
`},
	{name: "static data and constants", kind: insn.SiteNop, code: x86Callees + `
func:
` + probeLine + `
site:
	nop
	cmpb $0x88, data(%rip)
	sete (%rdi)
	movw $0x1234, data+8(%rip)
	movq data+8(%rip), %rcx
	ret
end:
`},
	{name: "static data last", kind: insn.SiteNop, code: x86Callees + `
func:
` + probeLine + `
site:
	nop
	addl $0x11223344, data+8(%rip)
	movq data+8(%rip), %rcx
	movl $0x05060708, data+8(%rip)
	ret
end:
`},
	{name: "thread-local storage of a PIE", kind: insn.SiteEntry, code: x86Callees + `
offset:
	.quad -8
func:
` + probeLine + `
site:
	movq offset(%rip), %rcx
	movq %fs:(%rcx), %rcx
	movq %rcx, (%rdi)
	ret
end:
`},
}

var amd64MoreCases = []runCase{
	{name: "call", kind: insn.SiteCall, code: x86Callees + `
func:
	movq %rax, %rdx
` + probeLine + `
site:
	call callee
	addq %rcx, %rdx
	ret
end:
`},
	{name: "tail call", kind: insn.SiteBranch, code: x86Callees + `
func:
	movq %rax, %rdx
` + probeLine + `
site:
	.byte 0xe9
	.long callee - . - 4
end:
`},
	{name: "short tail call", kind: insn.SiteBranch, start: "begin", code: x86Callees + `
func:
	incq %rdx
begin:
	leaq (%rax,%rdx), %rdx
` + probeLine + `
site:
	jmp callee
end:
`},
	{name: "return", kind: insn.SiteReturn, start: "begin", code: x86Callees + `
func:
	pushq %rbp
	movq %rsp, %rbp
	subq $0x30, %rsp
` + x86Body + `
begin:
	addq $0x30, %rsp
	popq %rbp
` + probeLine + `
site:
	ret
	nop
	nop
end:
`},
	{name: "return some way after a long instruction", kind: insn.SiteReturn, start: "begin", code: x86Callees + `
func:
	pushq %rbp
	movq %rsp, %rbp
	subq $0x30, %rsp
	testq %rax, %rax
	je begin
	movq %rdx, (%rdi)
begin:
	leaq 0x1234(%rdx,%rdx,2), %rbx
	subq %rbx, %rdx
	addq $0x30, %rsp
	popq %rbp
` + probeLine + `
site:
	ret
	nop
	nop
end:
`},
	{name: "return of a frame", kind: insn.SiteReturn, start: "begin", code: x86Callees + `
func:
	pushq %rbp
	movq %rsp, %rbp
	subq $16, %rsp
	testq %rax, %rax
	je site1
	movq %rdx, (%rdi)
site1:
begin:
	addq $16, %rsp
	popq %rbp
` + probeLine + `
site:
	ret
	int3
	int3
	int3
	int3
	int3
end:
`},
	{name: "branch with flags", kind: insn.SiteBranch, live: true, code: x86Callees + `
func:
	cmpq $2, %rax
` + probeLine + `
site:
	.byte 0x0f, 0x82
	.long below - . - 4
	setae (%rdi)
	leaq 1(%rdx), %rdx
	ret
below:
	setb 1(%rdi)
	ret
end:
`},
	{name: "short branches among what is displaced", kind: insn.SiteEntry, code: x86Callees + `
func:
` + probeLine + `
site:
	testl %eax, %eax
	je none
	jns some
	movq $1, (%rdi)
	ret
some:
	movq $2, (%rdi)
	ret
none:
	movq $3, (%rdi)
	ret
end:
`},
	{name: "carry used behind an increment", kind: insn.SiteEntry, live: true, code: x86Callees + `
func:
	cmpq $2, %rax
` + probeLine + `
site:
	leaq 1(%rdx), %rdx
	incq %rdx
	setb %cl
	ret
end:
`},
	{name: "flags used behind a branch", kind: insn.SiteEntry, live: true, code: x86Callees + `
func:
	cmpq $2, %rax
` + probeLine + `
site:
	movl $1, %edx
	jmp on
	ret
on:
	setb %cl
	ret
end:
`},
	{name: "return of a function that restores flags", kind: insn.SiteReturn, start: "begin", live: true, code: x86Callees + `
func:
	pushfq
	xorl %edx, %edx
	popfq
begin:
	leaq 64(%rdx), %rdx
	movq %rdx, %rcx
` + probeLine + `
site:
	ret
	int3
	int3
	int3
	int3
end:
`},
	{name: "loop to the site", kind: insn.SiteEntry, hits: func(small uint64) uint64 { return max(small, 1) }, code: x86Callees + `
func:
	xorl %edx, %edx
loop:
` + probeLine + `
site:
	addq %rax, %rdx
	decq %rax
	jg loop
	ret
end:
`},
	{name: "branch that is not always passed", kind: insn.SiteEntry, hits: func(small uint64) uint64 { return min(small, 1) }, code: x86Callees + `
func:
	cmpq $0, %rax
	je out
` + probeLine + `
site:
	xchgq %rax, %rdx
	movq %rdx, %rcx
	xorq %rax, %rcx
out:
	ret
end:
`},
}

func init() { amd64Cases = append(amd64Cases, amd64MoreCases...) }
