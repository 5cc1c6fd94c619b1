# Calls the function at FUNC once for each record, with the record's registers, and writes all records to standard output.
.set DATA,    0x30000000
.set COUNT,   DATA + 0x00
.set FUNC,    DATA + 0x08
.set CURSOR,  DATA + 0x10
.set PROBES,  DATA + 0x18
.set REC,     DATA + 0x20
.set TMP,     DATA + 0x28
.set LOG,     DATA + 0x100
.set RECORDS, DATA + 0x10000
.set STACK,   0x31010000

_start:
next:
	movq CURSOR, %rax
	cmpq COUNT, %rax
	jae done
	movq $0, PROBES
	shlq $12, %rax
	leaq RECORDS(%rax), %rbx
	movq %rbx, REC
	movq $LOG, %rdi
	movl $0x22, %ecx
	xorl %eax, %eax
	rep stosq
	movl $158, %eax           # arch_prctl
	movl $0x1002, %edi        # ARCH_SET_FS
	leaq 0x300(%rbx), %rsi
	syscall
	movq $STACK, %rsp
	pushq 0x100(%rbx)
	popfq
	movq 0x00(%rbx), %rax
	movq 0x08(%rbx), %rcx
	movq 0x10(%rbx), %rdx
	movq 0x28(%rbx), %rbp
	movq 0x30(%rbx), %rsi
	movq 0x38(%rbx), %rdi
	movq 0x40(%rbx), %r8
	movq 0x48(%rbx), %r9
	movq 0x50(%rbx), %r10
	movq 0x58(%rbx), %r11
	movq 0x60(%rbx), %r12
	movq 0x68(%rbx), %r13
	movq 0x70(%rbx), %r14
	movq 0x78(%rbx), %r15
	movq 0x18(%rbx), %rbx
	callq *FUNC
	movq %rbx, TMP
	movq REC, %rbx
	movq %rax, 0x300(%rbx)
	movq %rcx, 0x308(%rbx)
	movq %rdx, 0x310(%rbx)
	movq %rsp, 0x320(%rbx)
	movq %rbp, 0x328(%rbx)
	movq %rsi, 0x330(%rbx)
	movq %rdi, 0x338(%rbx)
	movq %r8, 0x340(%rbx)
	movq %r9, 0x348(%rbx)
	movq %r10, 0x350(%rbx)
	movq %r11, 0x358(%rbx)
	movq %r12, 0x360(%rbx)
	movq %r13, 0x368(%rbx)
	movq %r14, 0x370(%rbx)
	movq %r15, 0x378(%rbx)
	movq TMP, %rax
	movq %rax, 0x318(%rbx)
	pushfq
	popq 0x400(%rbx)
	movq $0, -8(%rsp)
	movq PROBES, %rax
	movq %rax, 0x408(%rbx)
	leaq 0x500(%rbx), %rdi
	movq $LOG, %rsi
	movl $0x22, %ecx
	rep movsq
	leaq 0x800(%rbx), %rdi
	movq $STACK - 0x200, %rsi
	movl $0x40, %ecx
	rep movsq
	incq CURSOR
	jmp next
done:
	movl $1, %eax             # write
	movl $1, %edi
	movq $RECORDS, %rsi
	movq COUNT, %rdx
	shlq $12, %rdx
	syscall
	movl $60, %eax            # exit
	xorl %edi, %edi
	syscall
