"""What the linear layers of exact-1 may be made of."""
from gpu_code_rules import (
    CLAMPS_SUMS, Contract, InstructionSet, PTX_INTEGER_PRODUCT, PTX_PRODUCT_ORDER, PTX_ROUNDS_ANOTHER_WAY,
    PTX_TENSOR_CORES, Rule, SASS_CLAMPS, SASS_FLOAT_ATOMICS, SASS_INTEGER_PRODUCT, SASS_OTHER_ROUNDING,
    SASS_TENSOR_CORES, TENSOR_CORES_ROUND)


def kernels_of(namespace):
    """Those of a contract's namespace, and templates of linear/integer on the contract."""
    return rf"_ZN9reprofuse4cuda(?:{namespace}|7integer\d+[a-z][a-z0-9_]*INS0_{namespace}8ContractE)"


# Integers do the summing. Floats are snapped to them by one product or one fused multiply-add, and a sum becomes a float
# once, is scaled and gets its bias.
EXACT1 = Contract(
    name="exact-1",
    kernels=kernels_of("6exact1"),
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

CONTRACTS = (EXACT1,)
