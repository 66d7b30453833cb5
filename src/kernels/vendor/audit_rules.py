"""What the casts of baselines may be made of."""
from gpu_code_rules import Contract, InstructionSet, OPS_SASS, PTX_NEVER_IN_FP32

# Changes of format around a vendor's product. A baseline pins no bits, but its casts are exact or round to nearest even.
BASELINE_CASTS = Contract(
    name="baseline casts",
    kernels=r"_ZN9reprofuse4cuda4cast",
    ptx=InstructionSet(
        forbidden=PTX_NEVER_IN_FP32,
        allowed_float=r"(?:add(?:\.rn)?\.f32|cvt\.f32\.f16|cvt\.rn\.bf16(?:x2)?\.f32)(?=\s)|(?:mov|ld|st|selp|setp)\.",
        fma=r"fma\.",
    ),
    sass=InstructionSet(
        forbidden=OPS_SASS.forbidden,
        # The first three divide an integer index by the length of a row.
        allowed_float=r"I2F\.U(?:32|64)\.RP\b|MUFU\.RCP\b|F2I\.(?:FTZ\.)?U(?:32|64)\.TRUNC\b|F2F\.BF16\.F32\b"
                      r"|U?FADD\b|F2FP\.BF16\.(?:F32\.)?PACK_AB|HADD2\.F32 \w+, -RZ,|HFMA2\S* \w+, -RZ, RZ,",
        fma=r"U?FFMA",
    ),
)

CONTRACTS = (BASELINE_CASTS,)
