# The probe: notes the registers and the flags as it finds them. TRASH, when set, is what it leaves in the flags.
	movq %rax, 0x30000030
	lahf
	seto %al
	movq %rax, 0x30000038
	movq 0x30000030, %rax
	movq %rax, 0x30000100
	movq %rcx, 0x30000108
	movq %rdx, 0x30000110
	movq %rbx, 0x30000118
	movq %rsp, 0x30000120
	movq %rbp, 0x30000128
	movq %rsi, 0x30000130
	movq %rdi, 0x30000138
	movq %r8, 0x30000140
	movq %r9, 0x30000148
	movq %r10, 0x30000150
	movq %r11, 0x30000158
	movq %r12, 0x30000160
	movq %r13, 0x30000168
	movq %r14, 0x30000170
	movq %r15, 0x30000178
	movzwl 0x30000038, %eax
	movq %rax, 0x30000200
	incq 0x30000018
.ifdef TRASH
	movb $TRASH, %al
	addb $0x40, %al
	movb $TRASH, %ah
	sahf
.else
	movq 0x30000038, %rax
	addb $0x7f, %al
	sahf
.endif
	movq 0x30000030, %rax
