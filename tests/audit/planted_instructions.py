"""What audit_gpu_code_test.py puts into clean code, and what the audit must say of it."""

# An instruction that is put into clean.ptx or clean.sass, and the reason that must be given.
PLANTED = {
    ".ptx": (
        ("wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8 {%r1}, %rd1, %rd2, 1;", "sums floats"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%r1}, {%r2}, {%r3}, {%r1};", "sums floats"),
        ("wgmma.fence.sync.aligned;", "tensor cores"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};", "tensor cores"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f1};", "tensor cores"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, p, 1, 1;", "tensor cores"),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, p;", "tensor cores"),
        ("add.ftz.f32 %f1, %f2, %f3;", "flushes subnormals"),
        ("@ready add.ftz.f32 %f1, %f2, %f3;", "flushes subnormals"),
        ("again: @!ready add.ftz.f32 %f1, %f2, %f3;", "flushes subnormals"),
        ("} { add.ftz.f32 %f1, %f2, %f3;", "flushes subnormals"),
        ("fma.rn.ftz.f32 %f1, %f2, %f3, %f4;", "flushes subnormals"),
        ("@%p1 ex2.approx.f32 %f1, %f2;", "approximation"),
        ("div.full.f32 %f1, %f2, %f3;", "approximation"),
        ("rsqrt.approx.f32 %f1, %f2;", "approximation"),
        ("atom.global.add.f32 %f1, [%rd1], %f2;", "atomic"),
        ("red.global.add.f32 [%rd1], %f2;", "atomic"),
        ("@!%p1 red.relaxed.gpu.global.add.noftz.bf16x2 [%rd1], %r2;", "atomic"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], 16;", "atomic"),
        ("mul.f32 %f1, %f2, %f3;", "product outside"),
        ("{ mul.rn.f32 %f1, %f2, %f3; }", "product outside"),
        ("mul.rn.f32x2 %rd1, %rd2, %rd3;", "product outside"),
        ("mul.f64 %fd1, %fd2, %fd3;", "product outside"),
        ("mul.bf16x2 %r1, %r2, %r3;", "product outside"),
        ("mad.rn.f32 %f1, %f2, %f3, %f4;", "product outside"),
        ("fma.rz.f32 %f1, %f2, %f3, %f4;", "not among"),
        ("fma.rn.f16x2 %r1, %r2, %r3, %r4;", "not among"),
        ("fma.rn.f64 %fd1, %fd2, %fd3, %fd4;", "not among"),
        ("add.rz.f32 %f1, %f2, %f3;", "not among"),
        ("cvt.rn.bf16.f32 %rs1, %f1;", "not among"),
    ),
    ".sass": (
        ("IGMMA.64x8x32.U8.S8 R24, R4, gdesc[UR4], R24", "sums floats"),
        ("IMMA.16832.U8.S8 R4, R4.ROW, R8.COL, R4", "sums floats"),
        ("HMMA.16816.F32.BF16 R4, R4, R8, R4", "tensor cores"),
        ("HGMMA.64x8x16.F32.BF16 R24, gdesc[UR4], RZ", "tensor cores"),
        ("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11]", "tensor cores"),
        ("FADD.FTZ R1, R2, R3", "flushes subnormals"),
        ("FFMA.FTZ R1, R2, R3, R4", "flushes subnormals"),
        ("@P0 MUFU.EX2 R1, R2", "special function unit"),
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R2.64], R4", "flushes subnormals"),
        ("REDG.E.ADD.F32.RN.STRONG.GPU desc[UR4][R2.64], R4", "atomic"),
        ("ATOMS.ADD.F16x2.RN R1, [R2], R3", "atomic"),
        ("FMUL R1, R2, R3", "product outside"),
        ("FMUL2 R2, R4.F32x2.HI_LO, R6.F32x2.HI_LO", "product outside"),
        ("DMUL R2, R4, R6", "product outside"),
        ("HMUL2.BF16_V2 R1, R2, R3", "product outside"),
        ("FFMA.RZ R1, R2, R3, R4", "round to nearest"),
        ("FADD.RZ R1, R2, R3", "round to nearest"),
        ("FADD.RM R1, R2, R3", "round to nearest"),
        ("FADD2.RZ R2, R4.F32x2.HI_LO, R6.F32x2.HI_LO", "round to nearest"),
        ("FADD.SAT R1, R2, R3", "clamps its result"),
        ("FFMA.SAT R1, R2, R3, R4", "clamps its result"),
        ("HFMA2 R1, R2, R3, R4", "not among"),
        ("HADD2 R1, R2, R3", "not among"),
        ("DFMA R2, R4, R6, R8", "not among"),
        ("F2FP.BF16.F32.PACK_AB R1, R2, R3", "not among"),
    ),
}

# The same for the operations beside the linear layer, which are made of more: what passes there, and what does not.
ALLOWED_IN_OPS = {
    ".ptx": ("mul.rn.f32 %f1, %f2, %f3;", "div.rn.f32 %f1, %f2, %f3;", "sqrt.rn.f32 %f1, %f2;",
             "max.f32 %f1, %f2, %f3;", "sub.rn.f32 %f1, %f2, %f3;", "cvt.rn.f32.s32 %f1, %r1;"),
    ".sass": ("FMUL R1, R2, R3", "MUFU.RCP R1, R2", "MUFU.RSQ R1, R2", "FCHK P0, R1, R2", "FMUL.FTZ R1, R2, R3",
              "FFMA.RP R1, R2, R3, R4", "FMNMX R1, R2, R3, PT", "I2FP.F32.S32 R1, R2"),
}
PLANTED_IN_OPS = {
    ".ptx": (
        ("ex2.approx.f32 %f1, %f2;", "approximation"),
        ("div.full.f32 %f1, %f2, %f3;", "approximation"),
        ("sqrt.approx.f32 %f1, %f2;", "approximation"),
        ("mul.ftz.f32 %f1, %f2, %f3;", "flushes subnormals"),
        ("red.global.add.f32 [%rd1], %f2;", "atomic"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};", "tensor cores"),
        ("mul.f64 %fd1, %fd2, %fd3;", "not among"),
        ("mad.rn.f32 %f1, %f2, %f3, %f4;", "not among"),
        ("div.rz.f32 %f1, %f2, %f3;", "not among"),
        ("cvt.rn.bf16.f32 %rs1, %f1;", "not among"),
    ),
    ".sass": (
        ("MUFU.EX2 R1, R2", "special function unit"),
        ("MUFU.LG2 R1, R2", "special function unit"),
        ("MUFU.SIN R1, R2", "special function unit"),
        ("FADD.SAT R1, R2, R3", "clamps its result"),
        ("REDG.E.ADD.F32.RN.STRONG.GPU desc[UR4][R2.64], R4", "atomic"),
        ("HMMA.16816.F32.BF16 R4, R4, R8, R4", "tensor cores"),
        ("DMUL R2, R4, R6", "not among"),
        ("HMUL2.BF16_V2 R1, R2, R3", "not among"),
    ),
}

# What some kernels may do and others may not, where it belongs and where it does not: the sampler's own conversions, and
# products of integers in attention. clean.* stands in a namespace of this name.
OPS, SAMPLER = "3ops", "7sampler"
ATTENTION = "17integer_attention"
# Kernels that no rule names: a template on a contract keeps the contract's rules, one on its Snap those of ops, and what is
# neither is caught.
OF_CONTRACT, OF_SNAP = "7integer7unnamedINS0_6exact18ContractEEvv", "7integer7unnamedINS0_5int164SnapEEvv"
OF_INT16, OF_NONE = "7integer7unnamedINS0_5int168ContractELi2EEvv", "7integer"
OF_UNKNOWN = "7integer7unnamedINS0_6exact98ContractEEvv"
PLACED = {
    ".ptx": (
        ("cvt.rzi.s64.f32 %rd1, %f1;", SAMPLER, ""),
        ("cvt.rn.f32.u64 %f1, %rd1;", SAMPLER, ""),
        ("div.rn.f32 %f1, %f2, %f3;", SAMPLER, ""),
        ("cvt.rni.s64.f32 %rd1, %f1;", SAMPLER, "not among"),
        ("cvt.rz.f32.u64 %f1, %rd1;", SAMPLER, "not among"),
        ("lg2.approx.f32 %f1, %f2;", SAMPLER, "approximation"),
        ("red.global.add.f32 [%rd1], %f2;", SAMPLER, "atomic"),
        ("cvt.rzi.s64.f32 %rd1, %f1;", OPS, "not among"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1}, {%r2}, {%r3}, {%r1};", ATTENTION, ""),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1}, {%r2}, {%r3}, {%r1};", OPS, "sums floats"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};", ATTENTION, "tensor cores"),
        ("ex2.approx.f32 %f1, %f2;", ATTENTION, "approximation"),
        ("cvt.rni.s32.f32 %r1, %f1;", OF_SNAP, ""),
        ("div.rn.f32 %f1, %f2, %f3;", OF_SNAP, ""),
        ("mov.f32 %f1, %f2;", OF_NONE, "belongs to no contract"),
        ("mov.f32 %f1, %f2;", OF_UNKNOWN, "belongs to no contract"),
    ),
    ".sass": (
        ("F2I.S64.TRUNC R2, R1", SAMPLER, ""),
        ("MUFU.LG2 R1, R2", SAMPLER, "special function unit"),
        ("F2I.S64 R2, R1", SAMPLER, "not among"),
        ("F2I.S64.TRUNC R2, R1", OPS, "not among"),
        ("IMMA.16832.S8.S8 R4, R4.ROW, R8.COL, R4", ATTENTION, ""),
        ("IMMA.16832.S8.S8 R4, R4.ROW, R8.COL, R4", OPS, "sums floats"),
        ("HMMA.16816.F32.BF16 R4, R4, R8, R4", ATTENTION, "tensor cores"),
        ("MUFU.EX2 R1, R2", ATTENTION, "special function unit"),
        ("MUFU.RSQ R1, R2", OF_SNAP, ""),
        ("FADD R1, R2, R3", OF_NONE, "belongs to no contract"),
        ("FADD R1, R2, R3", OF_UNKNOWN, "belongs to no contract"),
    ),
}

# What passes in kernels that break a rule on purpose, and in no other.
ABLATION = "8ablation"
ALLOWED_IN_ABLATIONS = {
    ".ptx": ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};",
             "mul.f32 %f1, %f2, %f3;"),
    ".sass": ("HMMA.16816.F32.BF16 R4, R4, R8, R4", "FMUL R1, R2, R3"),
}

# As PLANTED, for clean_exact1.ptx and clean_exact1.sass, in each of IN_EXACT1.
IN_EXACT1 = ("6exact1", OF_CONTRACT, OF_INT16)
PLANTED_IN_EXACT1 = {
    ".ptx": (
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, p, 1, 1;", "tensor cores"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1}, %rd1, %rd2, p, 1, 1;", "tensor cores"),
        ("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f1}, %rd1, %rd2, p, 1, 1;", "tensor cores"),
        ("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1}, %rd1, %rd2, p, 1, 1;", "tensor cores"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};", "tensor cores"),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1}, {%fd2}, {%fd3}, {%fd1};", "tensor cores"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f1};", "tensor cores"),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, p;", "tensor cores"),
        ("wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.u8.s8 {%r1}, %rd1, %rd2, 1;", "clamps its sums"),
        ("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32 {%r1}, {%r2}, {%r3}, {%r1};", "clamps its sums"),
        ("cvt.rzi.s32.f32 %r1, %f1;", "not among"),
        ("cvt.rz.f32.s64 %f1, %rd1;", "not among"),
        ("cvt.rni.ftz.s32.f32 %r1, %f1;", "flushes subnormals"),
        ("mul.f32 %f1, %f2, %f3;", "not among"),
        ("fma.rz.f32 %f1, %f2, %f3, %f4;", "not among"),
        ("add.f64 %fd1, %fd2, %fd3;", "not among"),
        ("div.rn.f32 %f1, %f2, %f3;", "not among"),
        ("rcp.approx.f32 %f1, %f2;", "approximation"),
        ("red.global.add.f32 [%rd1], %f2;", "atomic"),
    ),
    ".sass": (
        ("HGMMA.64x8x16.F32.BF16 R24, gdesc[UR4], RZ", "tensor cores"),
        ("QGMMA.64x8x32.F32.E4M3.E4M3 R24, gdesc[UR4], RZ", "tensor cores"),
        ("HMMA.16816.F32.BF16 R4, R4, R8, R4", "tensor cores"),
        ("DMMA.8x8x4 R4, R4, R8, R4", "tensor cores"),
        ("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11]", "tensor cores"),
        ("IMMA.16832.U8.S8.SAT R4, R4.ROW, R8.COL, R4", "clamps its sums"),
        ("FMUL.FTZ R1, R2, R3", "flushes subnormals"),
        ("FFMA.RZ R1, R2, R3, R4", "round to nearest"),
        ("FMUL.RM R1, R2, R3", "round to nearest"),
        ("MUFU.EX2 R1, R2", "special function unit"),
        ("MUFU.RSQ R1, R2", "special function unit"),
        ("F2I.TRUNC.NTZ R1, R2", "not among"),
        ("I2F.S64.RZ R1, R2", "not among"),
        ("DADD R2, R4, R6", "not among"),
        ("REDG.E.ADD.F32.RN.STRONG.GPU desc[UR4][R2.64], R4", "atomic"),
    ),
}
