"""What kernels that compute no results may be made of."""
from gpu_code_rules import Contract, InstructionSet, PTX_NEVER_IN_FP32, SASS_NEVER_IN_FP32

# Kernels that compute no results, such as the streaming read that benchmarks compare with: no arithmetic at all.
NO_ARITHMETIC = Contract(
    name="no arithmetic",
    kernels=r"_ZN9reprofuse4cuda\d+_GLOBAL__N_\w*11read_memory",
    ptx=InstructionSet(forbidden=PTX_NEVER_IN_FP32, allowed_float=r"(?:mov|ld|st)\.", fma=r"fma\."),
    sass=InstructionSet(forbidden=SASS_NEVER_IN_FP32, allowed_float=r"HFMA2\S* \w+, -RZ, RZ,", fma=r"U?FFMA"),
)

CONTRACTS = (NO_ARITHMETIC,)
