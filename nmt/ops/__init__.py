"""The operations that have more than one implementation.

`reference.py` says what each computes and defines it in plain torch; `fused/`, `native/` and
`triton/` are faster implementations that the tests hold to it, values and gradients. `backend.py`
chooses one of them for a device and a dtype.
"""

from nmt.ops.reference import Operations as Operations
