"""What the sampler may be made of."""
import dataclasses

from gpu_code_rules import Contract, InstructionSet, OPS_PTX, OPS_SASS

# The sampler rounds unnormalized probabilities to integers, whose sums have no order, and turns a sum back into a float once.
SAMPLER = Contract(
    name="sampler",
    kernels=r"_ZN9reprofuse4cuda7sampler",
    ptx=dataclasses.replace(
        OPS_PTX, allowed_float=OPS_PTX.allowed_float + r"|(?:cvt\.rzi\.s64\.f32|cvt\.rn\.f32\.u64)(?=\s)"),
    sass=dataclasses.replace(OPS_SASS, allowed_float=OPS_SASS.allowed_float + r"|F2I\.S64\.TRUNC\b"),
)

# Integers alone: whatever computes with floating point is a violation.
NO_FLOAT = "(?!)"
LOGITS_ROOT = Contract(
    name="roots of logits",
    kernels=r"_ZN9reprofuse4cuda4hash",
    ptx=InstructionSet(forbidden=OPS_PTX.forbidden, allowed_float=NO_FLOAT, fma=r"fma\."),
    sass=InstructionSet(forbidden=OPS_SASS.forbidden, allowed_float=NO_FLOAT, fma=r"U?FFMA"),
)

CONTRACTS = (SAMPLER, LOGITS_ROOT)
