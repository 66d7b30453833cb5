"""What the operations of a model, attention by fma-1 and the merges of all contracts included, may be made of."""
from gpu_code_rules import Contract, OPS_PTX, OPS_SASS

OPS = Contract(name="operations in floats", kernels=r"_ZN9reprofuse4cuda3ops", ptx=OPS_PTX, sass=OPS_SASS)

CONTRACTS = (OPS,)
