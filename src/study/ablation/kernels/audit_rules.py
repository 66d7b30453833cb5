"""What the ablated linear layers may be made of: anything."""
from gpu_code_rules import Contract, InstructionSet

# Kernels that break one rule each on purpose, to measure what it is for. They are in the command line tool, and no layer
# can be made of them.
ABLATIONS = Contract(
    name="ablations",
    kernels=r"_ZN9reprofuse4cuda8ablation",
    ptx=InstructionSet(forbidden=(), allowed_float=r"", fma=r"fma\."),
    sass=InstructionSet(forbidden=(), allowed_float=r"", fma=r"U?FFMA"),
    on_purpose=True,
)

CONTRACTS = (ABLATIONS,)
