"""What the operations of a model, attention included, may be made of."""
from gpu_code_rules import Contract, OPS_PTX, OPS_SASS

FMA1_OPS = Contract(name="fma-1 operations", kernels=r"_ZN9reprofuse4cuda3ops", ptx=OPS_PTX, sass=OPS_SASS)

CONTRACTS = (FMA1_OPS,)
