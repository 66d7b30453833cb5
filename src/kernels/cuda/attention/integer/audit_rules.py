"""What attention by contracts int16-1 and exact-2 may be made of."""
from gpu_code_rules import (
    CLAMPS_SUMS, Contract, InstructionSet, OPS_PTX, OPS_SASS, PTX_INTEGER_PRODUCT, PTX_PRODUCT_ORDER,
    PTX_ROUNDS_ANOTHER_WAY, PTX_TENSOR_CORES, Rule, SASS_CLAMPS, SASS_FLOAT_ATOMICS, SASS_INTEGER_PRODUCT,
    SASS_TENSOR_CORES, TENSOR_CORES_ROUND)

# Integers do the summing inside a block of keys. Softmax and folds are made as those of the other contracts are.
INTEGER_ATTENTION = Contract(
    name="int16-1 and exact-2 attention",
    kernels=r"_ZN9reprofuse4cuda17integer_attention",
    ptx=InstructionSet(
        forbidden=(
            Rule(PTX_TENSOR_CORES + r"\S*\.satfinite\b", CLAMPS_SUMS),
            Rule(rf"(?!{PTX_INTEGER_PRODUCT}|{PTX_PRODUCT_ORDER}){PTX_TENSOR_CORES}", TENSOR_CORES_ROUND),
            *PTX_ROUNDS_ANOTHER_WAY,
        ),
        allowed_float=OPS_PTX.allowed_float + r"|(?:cvt\.rn\.f32\.s64|min\.f32)(?=\s)",
        fma=OPS_PTX.fma,
    ),
    sass=InstructionSet(
        forbidden=(
            Rule(r"IG?MMA\S*\.SAT\b", CLAMPS_SUMS),
            Rule(rf"(?!{SASS_INTEGER_PRODUCT}){SASS_TENSOR_CORES}", TENSOR_CORES_ROUND),
            Rule(r"MUFU\.(?!(?:RCP|RSQ)\b)", "the special function unit approximates"),
            SASS_FLOAT_ATOMICS,
            SASS_CLAMPS,
        ),
        allowed_float=OPS_SASS.allowed_float,
        fma=OPS_SASS.fma,
    ),
)

CONTRACTS = (INTEGER_ATTENTION,)
