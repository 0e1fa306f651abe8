// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// EACH sets each byte of y to c. x is the lower half of y.
#define EACH(c, x, y) \
	MOVL         $c, AX; \
	MOVD         AX, x;  \
	VPBROADCASTB x, y

// LOOK checks the 32 bytes at off. In good it sets each byte that continues the text,
// in escapes each backslash.
//
// XOR with Y0 exchanges 0x20..0x23 in pairs, which puts the quote (0x22) next to the
// control characters, so that one comparison finds both. A quote after a backslash is
// text. So is a control character there, but then the backslash does not begin a known
// escape.
#define LOOK(off, text, good, escapes, t1, t2) \
	VMOVDQU  (off)(SI), text;         \
	VPXOR    text, Y0, t1;            \
	VPMAXUB  t1, Y1, t2;              \
	VPCMPEQB t1, t2, good;            \
	VPCMPEQB (off-1)(SI), Y2, t1;     \
	VPOR     t1, good, good;          \
	VPCMPEQB (off+1)(SI), Y3, t1;     \
	VPCMPEQB (off+1)(SI), Y4, t2;     \
	VPOR     t1, t2, t1;              \
	VPCMPEQB (off+1)(SI), Y5, t2;     \
	VPOR     t1, t2, t1;              \
	VPCMPEQB text, Y2, escapes;       \
	VPANDN   escapes, t1, t1;         \
	VPANDN   good, t1, good

// func skipBlocks(text []byte) (n int, high, escapes uint64)
TEXT ·skipBlocks(SB), NOSPLIT, $0-48
	MOVQ text_base+0(FP), SI
	MOVQ text_len+8(FP), CX
	INCQ SI
	LEAQ -1(SI)(CX*1), DX // after the text
	MOVQ SI, DI
	EACH(0x02, X0, Y0)
	EACH(0x21, X1, Y1)
	EACH(0x5C, X2, Y2)
	EACH(0x22, X3, Y3)
	EACH(0x6E, X4, Y4)
	EACH(0x74, X5, Y5)
	VPXOR Y14, Y14, Y14 // all text, or-ed
	VPXOR Y15, Y15, Y15 // all escapes
	XORL  R9, R9
	XORL  R10, R10

	// The byte after the block is read, too.
	SUBQ $65, DX
	CMPQ SI, DX
	JHI  done

block:
	LOOK(0, Y6, Y7, Y8, Y12, Y13)
	LOOK(32, Y9, Y10, Y11, Y12, Y13)
	VPAND     Y7, Y10, Y12
	VPMOVMSKB Y12, AX
	CMPL      AX, $-1
	JNE       stop
	VPOR      Y6, Y9, Y6
	VPOR      Y6, Y14, Y14
	VPOR      Y8, Y11, Y8
	VPOR      Y8, Y15, Y15
	ADDQ      $64, SI
	CMPQ      SI, DX
	JLS       block
	JMP       done

stop:
	// One bit for each byte of the block: continues the text, not ASCII, backslash.
	VPMOVMSKB Y7, R8
	VPMOVMSKB Y10, AX
	SHLQ      $32, AX
	ORQ       AX, R8
	VPMOVMSKB Y6, R9
	VPMOVMSKB Y9, AX
	SHLQ      $32, AX
	ORQ       AX, R9
	VPMOVMSKB Y8, R10
	VPMOVMSKB Y11, AX
	SHLQ      $32, AX
	ORQ       AX, R10

	// The bits before the stop.
	NOTQ R8
	BSFQ R8, BX
	ADDQ BX, SI
	LEAQ -1(R8), AX
	NOTQ R8
	ANDQ AX, R8
	ANDQ R8, R9
	ANDQ R8, R10

done:
	SUBQ DI, SI
	MOVQ SI, n+24(FP)
	VPMOVMSKB Y14, AX
	ORQ  AX, R9
	MOVQ R9, high+32(FP)
	VPMOVMSKB Y15, AX
	ORQ  AX, R10
	MOVQ R10, escapes+40(FP)
	VZEROUPPER
	RET

// func hasAVX2() bool
//
// The processor must have AVX2 (leaf 7), and the system must save its registers, which
// XGETBV reports; XGETBV exists if leaf 1 has OSXSAVE.
TEXT ·hasAVX2(SB), NOSPLIT, $0-1
	MOVB   $0, ret+0(FP)
	XORL   AX, AX
	CPUID
	CMPL   AX, $7
	JLT    none
	MOVL   $1, AX
	XORL   CX, CX
	CPUID
	ANDL   $(1<<27 | 1<<28), CX // OSXSAVE and AVX
	CMPL   CX, $(1<<27 | 1<<28)
	JNE    none
	XORL   CX, CX
	XGETBV
	ANDL   $(1<<1 | 1<<2), AX // the halves of the registers
	CMPL   AX, $(1<<1 | 1<<2)
	JNE    none
	MOVL   $7, AX
	XORL   CX, CX
	CPUID
	SHRL   $5, BX
	ANDL   $1, BX
	MOVB   BX, ret+0(FP)

none:
	RET
