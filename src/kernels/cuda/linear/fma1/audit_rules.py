"""What the linear layers of fma-1 may be made of."""
from gpu_code_rules import Contract, InstructionSet, PTX_NEVER_IN_FP32, SASS_NEVER_IN_FP32

FMA1 = Contract(
    name="fma-1",
    kernels=r"_ZN9reprofuse4cuda4fma1",
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

CONTRACTS = (FMA1,)
