"""The words that audit rules are written in, and the rules of every contract, found beside its kernels.

A folder of kernels has a file audit_rules.py with `CONTRACTS`: which GPU instructions its kernels may be made of. The rules
are strict on purpose: what touches floating point and is not listed as allowed is a violation, so a new instruction has to
be thought about once.
"""
import dataclasses
import functools
import pathlib
import re
import runpy


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
    kernels: str  # the start of their mangled names
    ptx: InstructionSet
    sass: InstructionSet
    on_purpose: bool = False  # breaks rules to measure what they are for; in the command line tool alone


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
INTEGERS_ELSEWHERE = "an integer matrix product where a contract sums floats"
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
OPS_PTX = InstructionSet(
    forbidden=PTX_NEVER_IN_OPS,
    allowed_float=r"(?:(?:fma|mul|div|sqrt)\.rn\.f32|(?:add|sub)(?:\.rn)?\.f32|mul\.f32|max\.f32|cvt\.f32\.b?f16"
                  r"|cvt\.rn\.f32\.s32)(?=\s)|(?:mov|ld|st|selp|setp|testp|abs|neg)\.",
    fma=r"fma\.",
)
OPS_SASS = InstructionSet(
    forbidden=SASS_NEVER_IN_OPS,
    # I2F, MUFU.RCP and F2I.FTZ.U32 are how an integer index is divided.
    allowed_float=r"U?(?:FFMA2?|FADD2?|FMUL2?|FMNMX3?|FSETP|FSET|FSEL|FCHK|I2FP?)\b|MUFU\.(?:RCP|RSQ)\b"
                  r"|F2I\.FTZ\.U32\.TRUNC\.NTZ\b"
                  r"|HADD2\.F32 \w+, -RZ,|HFMA2\S* \w+, -RZ, RZ,",
    fma=r"U?FFMA",
)


@functools.cache
def contracts():
    """Those that the folders of the kernels bring along."""
    sources = pathlib.Path(__file__).resolve().parents[1] / "src"
    found = [runpy.run_path(str(path))["CONTRACTS"] for path in sorted(sources.rglob("audit_rules.py"))]
    return tuple(contract for some in found for contract in some)


@functools.cache
def contract_of(kernel):
    """The contract whose pattern covers most of the kernel's mangled name, or None."""
    matches = ((re.match(contract.kernels, kernel), contract) for contract in contracts())
    covered = [(match.end(), contract) for match, contract in matches if match]
    return max(covered, key=lambda found: found[0], default=(0, None))[1]


def violation(instructions, float_pattern, instruction):
    """Why the instruction breaks the contract, or None."""
    for rule in instructions.forbidden:
        if rule.matches(instruction):
            return rule.reason
    if re.match(float_pattern, instruction) and not re.match(instructions.allowed_float, instruction):
        return "not among the floating-point operations of the contract"
    return None
