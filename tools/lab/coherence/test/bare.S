/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A machine without a kernel whose transfers are known, for the test of the plugin
 *
 * QEMU loads this by Multiboot. CPU 0 wakes the others, and all CPUs run the same code, so that
 * they share QEMU's translated blocks. A phase is a window of the plugin; all CPUs meet before
 * and after. With C CPUs and ROUNDS = 200:
 *
 *	private		each CPU adds to a line of its own: nothing moves
 *	handover	the CPUs pass a baton, C * ROUNDS times. Each pass is one store that
 *			moves it, a load that moves it on each other CPU, and LOCK XADD on a
 *			counter, one transfer
 *	shared		all CPUs add to one line without waiting: a transfer per turn
 *	caused		as handover, but the counter is changed in a function that is called
 *			from the range (half of the passes, of these half by a tail call) or
 *			from elsewhere
 *	unclosed	with "!" on the command line: the machine stops within the window
 *
 * The last digit of the command line is C.
 */
#include "../marker.h"

	.set	ROUNDS, 200
	.set	APIC, 0xfee00000
	.set	TRAMPOLINE, 0x8000
	.set	STACKS, 0x400000

	.macro	mark number
	.byte	0x0f, 0x1f, 0x84, 0x00
	.long	\number
	.endm

	.macro	meet
	call	barrier
	.endm

	/* Open a window named by the label @name; CPU 0 only. */
	.macro	begin name
	meet
	testl	%ebx, %ebx
	jnz	1f
	movl	$\name, %edi
	mark	MARK_ARM
	movl	$100000, %ecx
0:	pause
	decl	%ecx
	jnz	0b
1:	meet
	call	warm_up
	meet
	testl	%ebx, %ebx
	jnz	2f
	mark	MARK_OPEN
2:	meet
	.endm

	.macro	end
	meet
	testl	%ebx, %ebx
	jnz	1f
	mark	MARK_CLOSE
	movl	$1000, %ecx
0:	pause
	decl	%ecx
	jnz	0b
1:	meet
	.endm

	.text
	.balign	4
	.long	0x1badb002, 0, -0x1badb002	/* Multiboot: no wishes */

	.code32
	.globl	_start
_start:
	cli
	movl	16(%ebx), %esi			/* the command line */
find_end:
	movb	(%esi), %al
	testb	%al, %al
	jz	at_end
	cmpb	$'1', %al
	jb	1f
	cmpb	$'9', %al
	ja	1f
	subb	$'0', %al
	movzbl	%al, %eax
	movl	%eax, nr_cpus
1:	cmpb	$'!', (%esi)
	jne	1f
	movl	$1, stays_open
1:	incl	%esi
	jmp	find_end
at_end:
	lgdt	gdt_at
	ljmp	$8, $1f
1:	movl	$16, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	movl	$trampoline, %esi
	movl	$TRAMPOLINE, %edi
	movl	$(trampoline_end - trampoline), %ecx
	rep movsb
	movl	$0x1ff, APIC + 0xf0		/* on */
	movl	$0xc4500, APIC + 0x300		/* INIT to all but this CPU */
	movl	$1000, %ecx
1:	pause
	decl	%ecx
	jnz	1b
	movl	$(0xc4600 | TRAMPOLINE >> 12), APIC + 0x300

	/* EBX is the CPU's number from here on, EBP its place among the batons. */
cpu_starts:
	movl	$1, %ebx
	lock xaddl %ebx, nr_started
	movl	%ebx, %eax
	incl	%eax
	shll	$14, %eax
	leal	STACKS - 256(%eax), %esp
	movl	$0, %edx			/* barriers passed */

	begin	private_window
	movl	$ROUNDS, %ecx
	movl	%ebx, %eax
	shll	$6, %eax
1:	incl	private(%eax)
	decl	%ecx
	jnz	1b
	end

	begin	handover_window
	movl	$ROUNDS, %ecx
1:	call	take_baton
	movl	$1, %eax
	.globl	handover_xadd
handover_xadd:
	lock xaddl %eax, counter
	call	pass_baton
	decl	%ecx
	jnz	1b
	end

	begin	shared_window
	movl	$(100 * ROUNDS), %ecx
1:
	.globl	shared_add
shared_add:
	lock incl counter
	decl	%ecx
	jnz	1b
	end

	begin	caused_window
	movl	$ROUNDS, %ecx
1:	call	take_baton
	testl	$1, %ecx
	jz	2f
	call	change
	jmp	4f
2:	testl	$2, %ecx
	jz	3f
	call	range_start
	jmp	4f
3:	call	range_tail
4:	call	pass_baton
	decl	%ecx
	jnz	1b
	end

	testl	%ebx, %ebx
	jnz	sleep
	cmpl	$0, stays_open
	je	1f
	movl	$unclosed_window, %edi
	mark	MARK_ARM
	movl	$100000, %ecx
0:	pause
	decl	%ecx
	jnz	0b
	mark	MARK_OPEN
1:	movl	$1, %eax
	outl	%eax, $0xf4
sleep:
	hlt
	jmp	sleep

	/* Wait until the baton is this CPU's. */
take_baton:
	.globl	baton_load
baton_load:
	movl	baton, %eax
	cmpl	%ebx, %eax
	jne	take_baton
	ret

	/* Hand it to the CPU that ran before: the others look at it in between, again and again. */
pass_baton:
	movl	%ebx, %eax
	testl	%eax, %eax
	jnz	1f
	movl	nr_cpus, %eax
1:	decl	%eax
	.globl	baton_store
baton_store:
	movl	%eax, baton
	ret

	.globl	change
change:
	lock incl counter
	ret

	/* Before the window: nothing of this counts. */
warm_up:
	movl	$ROUNDS, %ecx
1:
	.globl	warm_add
warm_add:
	lock incl counter
	decl	%ecx
	jnz	1b
	ret

	/* Wait for all CPUs. */
barrier:
	pushl	%ecx
	addl	nr_cpus, %edx
	lock incl nr_met
1:	pause
	cmpl	%edx, nr_met
	jb	1b
	popl	%ecx
	ret

	/* The code that windows name as theirs. */
	.balign	64
	.globl	range_start
range_start:
	nop
	call	change
	nop
	ret
range_tail:
	nop
	jmp	change
	.globl	range_end
range_end:
	nop

	.code16
trampoline:
	cli
	xorw	%ax, %ax
	movw	%ax, %ds
	lgdtl	TRAMPOLINE + gdt_copy - trampoline
	movl	$0x11, %eax
	movl	%eax, %cr0
	ljmpl	$8, $enter
	.balign	8
gdt_copy:
	.word	gdt_end - gdt - 1
	.long	gdt
trampoline_end:

	.code32
enter:
	movl	$16, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	jmp	cpu_starts

	.data
	.balign	8
gdt:	.quad	0, 0x00cf9a000000ffff, 0x00cf92000000ffff
gdt_end:
gdt_at:	.word	gdt_end - gdt - 1
	.long	gdt
nr_cpus:	.long	1
stays_open:	.long	0

	/* struct mark_window */
	.macro	window name
	.balign	8
\name\()_window:
	.asciz	"\name"
	.fill	64 - (. - \name\()_window), 1, 0
	.long	1, 0
	.long	range_start, 0, range_end, 0
	.fill	7 * 16, 1, 0
	.endm
	window	private
	window	handover
	window	shared
	window	caused
	window	unclosed

	.balign	64
nr_started:	.long	0
	.balign	64
nr_met:	.long	0
	.balign	64
	.globl	baton
baton:	.long	0
	.balign	64
	.globl	counter
counter:	.long	0
	.balign	64
private:	.fill	16 * 64, 1, 0
