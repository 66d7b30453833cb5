"""What ops may be made of that leave their results as digits: templates on a contract's Snap. The other kernels of this
folder are templates on the contract itself and keep its rules; what is neither belongs to no contract."""
import dataclasses

from gpu_code_rules import Contract, OPS_PTX, OPS_SASS

# As the ops they are, and what snaps: a float to an integer, ties to even.
ROWS = Contract(
    name="digits of ops",
    kernels=r"_ZN9reprofuse4cuda7integer\d+[a-z][a-z0-9_]*INS0_[a-z0-9]+4SnapE",
    ptx=dataclasses.replace(OPS_PTX, allowed_float=OPS_PTX.allowed_float + r"|cvt\.rni\.s32\.f32(?=\s)"),
    sass=dataclasses.replace(OPS_SASS, allowed_float=OPS_SASS.allowed_float + r"|F2I(?:\.(?:S32|NTZ))*(?=\s)"),
)

CONTRACTS = (ROWS,)
