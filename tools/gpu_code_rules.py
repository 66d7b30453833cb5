"""Which GPU instructions each numerical contract allows, as one table that audit_gpu_code.py applies.

A kernel belongs to the first contract whose pattern finds its mangled name. The table is strict on purpose: what
touches floating point and is not listed as allowed is a violation, so a new instruction has to be thought about once.
"""
import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Rule:
    """Forbids the instructions that `pattern` matches from their start; the first rule that matches gives the reason."""

    pattern: str
    reason: str

    def matches(self, instruction):
        return re.match(self.pattern, instruction) is not None


@dataclasses.dataclass(frozen=True)
class InstructionSet:
    """The rules of one contract for PTX or for SASS."""

    forbidden: tuple  # of Rule
    allowed_float: str  # the floating-point instructions that the contract is made of
    fma: str  # what counts as a fused multiply-add in the report


@dataclasses.dataclass(frozen=True)
class Contract:
    name: str
    kernels: str  # searched in the mangled name
    ptx: InstructionSet
    sass: InstructionSet


# An operand type among the modifiers of a PTX opcode, and the SASS opcodes that read or write floating point.
PTX_FLOAT = r"\S*\.(?:b?f16(?:x2)?|tf32|f32(?:x2)?|f64|e\dm\d\w*|ue\dm\d\w*)\b"
SASS_FLOAT = r"U?(?:[FDH](?:ADD|FMA|MUL|MNMX|SEL|SET|CHK|SWZADD|CMP)|F2F|F2I|F2FP|I2F|FRND|MUFU)"

# Matrix products of 8-bit integers whose 32-bit sums wrap, and what a warp group orders its own products with.
PTX_INTEGER_PRODUCT = (r"(?:wgmma\.mma_async\.sync\.aligned\.m64n\d+k32\.s32\.[us]8\.[us]8"
                       r"|mma\.sync\.aligned\.m\d+n\d+k\d+\.row\.col\.s32\.[us]8\.[us]8\.s32)(?=\s)")
PTX_PRODUCT_ORDER = r"wgmma\.(?:fence|commit_group|wait_group)\.sync\.aligned(?=\s|$)"
SASS_INTEGER_PRODUCT = r"IG?MMA\b"

PTX_TENSOR_CORES = r"(?:mma|wmma|wgmma|tcgen05)\b"
TENSOR_CORES_ROUND = "tensor cores round in unspecified ways"
INTEGERS_ELSEWHERE = "an integer matrix product outside exact-1"
CLAMPS_SUMS = "an integer matrix product that clamps its sums"

PTX_ROUNDS_ANOTHER_WAY = (
    Rule(r"\S*\.ftz\b", "flushes subnormals to zero"),
    Rule(r"\S*\.approx\b|div\.full\b", "an approximation, not a correctly rounded result"),
    Rule(r"(?:atom|red|multimem|cp\.reduce)\.\S*(?<=\.)(?:b?f16(?:x2)?|f32|f64)\b",
         "a floating-point atomic: its order is left to the hardware"),
)
PTX_NEVER_IN_OPS = (
    Rule(PTX_INTEGER_PRODUCT, INTEGERS_ELSEWHERE),
    Rule(PTX_TENSOR_CORES, TENSOR_CORES_ROUND),
    *PTX_ROUNDS_ANOTHER_WAY,
)
PTX_NEVER_IN_FP32 = (
    *PTX_NEVER_IN_OPS,
    Rule(r"(?:mul|mad)\.(?:\w+\.)*(?:b?f16(?:x2)?|f32(?:x2)?|f64)\b", "a product outside a fused multiply-add"),
)

SASS_TENSOR_CORES = r"(?:UTC)?[A-Z]{1,3}MMA\b"
SASS_NO_TENSOR_CORES = (Rule(SASS_INTEGER_PRODUCT, INTEGERS_ELSEWHERE), Rule(SASS_TENSOR_CORES, TENSOR_CORES_ROUND))
SASS_FLOAT_ATOMICS = Rule(r"(?:RED|REDG|ATOM|ATOMS|ATOMG|UBLKRED|UREDGR)\.\S*(?:F16|BF16|F32|F64)",
                          "a floating-point atomic: its order is left to the hardware")
SASS_CLAMPS = Rule(r"U?F(?:FMA|ADD|MUL)2?\.(?:\w+\.)*SAT\b", "clamps its result")

SASS_OTHER_ROUNDING = Rule(r"U?F(?:FMA|ADD|MUL)2?\.(?:\w+\.)*R[ZMP]\b", "does not round to nearest")

SASS_NEVER_IN_FP32 = (
    *SASS_NO_TENSOR_CORES,
    Rule(r"\S*\.FTZ\b", "flushes subnormals to zero"),
    Rule(r"MUFU\b", "the special function unit approximates"),
    SASS_FLOAT_ATOMICS,
    Rule(r"U?(?:FMUL|DMUL|HMUL2)", "a product outside a fused multiply-add"),
    SASS_OTHER_ROUNDING,
    SASS_CLAMPS,
)

# A correctly rounded quotient or root is expanded into an estimate of the special function unit and steps that correct
# it, some of which flush or round another way. PTX has no such steps, so the audit of PTX keeps others out.
SASS_NEVER_IN_OPS = (
    *SASS_NO_TENSOR_CORES,
    Rule(r"MUFU\.(?!(?:RCP|RSQ)\b)", "the special function unit approximates"),
    SASS_FLOAT_ATOMICS,
    SASS_CLAMPS,
)

# Norms, rotary, softmax and gates are made of products, quotients and roots as well, each rounded on its own.
FMA1_OPS = Contract(
    name="fma-1 operations",
    kernels=r"^_ZN9reprofuse4cuda4fma13ops",
    ptx=InstructionSet(
        forbidden=PTX_NEVER_IN_OPS,
        allowed_float=r"(?:(?:fma|mul|div|sqrt)\.rn\.f32|(?:add|sub)(?:\.rn)?\.f32|mul\.f32|max\.f32|cvt\.f32\.b?f16"
                      r"|cvt\.rn\.f32\.s32)(?=\s)|(?:mov|ld|st|selp|setp|testp|abs|neg)\.",
        fma=r"fma\.",
    ),
    sass=InstructionSet(
        forbidden=SASS_NEVER_IN_OPS,
        # I2F, MUFU.RCP and F2I.FTZ.U32 are how an integer index is divided.
        allowed_float=r"U?(?:FFMA2?|FADD2?|FMUL2?|FMNMX3?|FSETP|FSET|FSEL|FCHK|I2FP?)\b|MUFU\.(?:RCP|RSQ)\b"
                      r"|F2I\.FTZ\.U32\.TRUNC\.NTZ\b"
                      r"|HADD2\.F32 \w+, -RZ,|HFMA2\S* \w+, -RZ, RZ,",
        fma=r"U?FFMA",
    ),
)

# The sampler rounds likelihoods to integers, whose sums have no order, and turns a sum back into a float once.
FMA1_SAMPLER = Contract(
    name="fma-1 sampler",
    kernels=r"^_ZN9reprofuse4cuda4fma1\d+_GLOBAL__N_\w*11sample_rows",
    ptx=dataclasses.replace(
        FMA1_OPS.ptx, allowed_float=FMA1_OPS.ptx.allowed_float + r"|(?:cvt\.rzi\.s64\.f32|cvt\.rn\.f32\.u64)(?=\s)"),
    sass=dataclasses.replace(FMA1_OPS.sass, allowed_float=FMA1_OPS.sass.allowed_float + r"|F2I\.S64\.TRUNC\b"),
)

FMA1 = Contract(
    name="fma-1",
    kernels=r"^_ZN9reprofuse4cuda4fma1",
    ptx=InstructionSet(
        forbidden=PTX_NEVER_IN_FP32,
        # fma and add, moves and comparisons, and the widening of a weight, which is exact.
        allowed_float=r"(?:fma\.rn\.f32(?:x2)?|add(?:\.rn)?\.f32(?:x2)?|cvt\.f32\.b?f16)(?=\s)"
                      r"|(?:mov|ld|st|selp|setp|testp|abs|neg)\.",
        fma=r"fma\.",
    ),
    sass=InstructionSet(
        forbidden=SASS_NEVER_IN_FP32,
        # HADD2.F32 with -RZ widens an FP16 weight; HFMA2 of -RZ and RZ loads a constant.
        allowed_float=r"U?(?:FFMA2?|FADD2?|FSETP|FSET|FSEL)\b|HADD2\.F32 \w+, -RZ,|HFMA2\S* \w+, -RZ, RZ,",
        fma=r"U?FFMA",
    ),
)

# Integers do the summing. Floats are snapped to them by one product or one fused multiply-add, and a sum becomes a float
# once, is scaled and gets its bias.
EXACT1 = Contract(
    name="exact-1",
    kernels=r"^_ZN9reprofuse4cuda6exact1",
    ptx=InstructionSet(
        forbidden=(
            Rule(PTX_TENSOR_CORES + r"\S*\.satfinite\b", CLAMPS_SUMS),
            Rule(rf"(?!{PTX_INTEGER_PRODUCT}|{PTX_PRODUCT_ORDER}){PTX_TENSOR_CORES}", TENSOR_CORES_ROUND),
            *PTX_ROUNDS_ANOTHER_WAY,
        ),
        allowed_float=r"(?:(?:fma|mul|add)\.rn\.f32|cvt\.f32\.b?f16|cvt\.rni\.s32\.f32|cvt\.rn\.f32\.s64)(?=\s)"
                      r"|(?:mov|ld|st|selp|setp|testp|abs|neg)\.",
        fma=r"fma\.",
    ),
    sass=InstructionSet(
        forbidden=(
            Rule(r"IG?MMA\S*\.SAT\b", CLAMPS_SUMS),
            Rule(rf"(?!{SASS_INTEGER_PRODUCT}){SASS_TENSOR_CORES}", TENSOR_CORES_ROUND),
            Rule(r"MUFU\.(?!RCP\b)", "the special function unit approximates"),
            Rule(r"(?!F2I\.FTZ\.U32\b)\S*\.FTZ\b", "flushes subnormals to zero"),
            SASS_FLOAT_ATOMICS,
            SASS_OTHER_ROUNDING,
            SASS_CLAMPS,
        ),
        # I2F.RP, MUFU.RCP and F2I.TRUNC of unsigned integers are how an index is divided; the PTX has none of them.
        allowed_float=r"U?(?:FFMA|FADD|FMUL|FSETP|FSET|FSEL)\b|F2I(?:\.(?:S32|NTZ))*(?=\s)|I2F\.S64(?=\s)"
                      r"|I2F\.(?:U32\.|U64\.)?RP\b|MUFU\.RCP\b|F2I\.(?:FTZ\.)?U(?:32|64)\.TRUNC\b"
                      r"|HADD2\.F32 \w+, -RZ,|HFMA2\S* \w+, -RZ, RZ,",
        fma=r"U?FFMA",
    ),
)

# Kernels that compute no results, such as the streaming read that benchmarks compare with: no arithmetic at all.
NO_ARITHMETIC = Contract(
    name="no arithmetic",
    kernels=r"^_ZN9reprofuse4cuda\d+_GLOBAL__N_\w*11read_memory",
    ptx=InstructionSet(forbidden=PTX_NEVER_IN_FP32, allowed_float=r"(?:mov|ld|st)\.", fma=r"fma\."),
    sass=InstructionSet(forbidden=SASS_NEVER_IN_FP32, allowed_float=r"HFMA2\S* \w+, -RZ, RZ,", fma=r"U?FFMA"),
)

# Changes of format around a vendor's product. A baseline pins no bits, but its casts are exact or round to nearest even.
BASELINE_CASTS = Contract(
    name="baseline casts",
    kernels=r"^_ZN9reprofuse4cuda4cast",
    ptx=InstructionSet(
        forbidden=PTX_NEVER_IN_FP32,
        allowed_float=r"(?:add(?:\.rn)?\.f32|cvt\.f32\.f16|cvt\.rn\.bf16(?:x2)?\.f32)(?=\s)|(?:mov|ld|st|selp|setp)\.",
        fma=r"fma\.",
    ),
    sass=InstructionSet(
        forbidden=FMA1_OPS.sass.forbidden,
        # The first three divide an integer index by the length of a row.
        allowed_float=r"I2F\.U(?:32|64)\.RP\b|MUFU\.RCP\b|F2I\.(?:FTZ\.)?U(?:32|64)\.TRUNC\b|F2F\.BF16\.F32\b"
                      r"|U?FADD\b|F2FP\.BF16\.(?:F32\.)?PACK_AB|HADD2\.F32 \w+, -RZ,|HFMA2\S* \w+, -RZ, RZ,",
        fma=r"U?FFMA",
    ),
)

# Kernels that break one rule each on purpose, to measure what it is for. They are in the command line tool, and no layer
# can be made of them.
ABLATIONS = Contract(
    name="ablations",
    kernels=r"^_ZN9reprofuse4cuda8ablation",
    ptx=InstructionSet(forbidden=(), allowed_float=r"", fma=r"fma\."),
    sass=InstructionSet(forbidden=(), allowed_float=r"", fma=r"U?FFMA"),
)

# A new contract adds its row here.
CONTRACTS = (FMA1_OPS, FMA1_SAMPLER, FMA1, EXACT1, NO_ARITHMETIC, BASELINE_CASTS, ABLATIONS)


def contract_of(kernel):
    """The contract a kernel belongs to, or None."""
    return next((contract for contract in CONTRACTS if re.search(contract.kernels, kernel)), None)


def violation(instructions, float_pattern, instruction):
    """Why the instruction breaks the contract, or None."""
    for rule in instructions.forbidden:
        if rule.matches(instruction):
            return rule.reason
    if re.match(float_pattern, instruction) and not re.match(instructions.allowed_float, instruction):
        return "not among the floating-point operations of the contract"
    return None
