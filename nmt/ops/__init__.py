"""The operations that have more than one implementation.

`contract.py` says what each computes. `reference.py` is the definition, in plain torch; `fused/`,
`native/` and `triton/` are faster implementations that the tests hold to it, values and gradients.
`backend.py` chooses one of them for a device and a dtype.
"""

from nmt.ops.contract import Operations as Operations
