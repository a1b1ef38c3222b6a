"""The operations that have several implementations, called backends.

`reference.py` defines each operation in plain torch. `fused/`, `native/` and `triton/` are faster;
tests compare them with the reference. `backend.py` chooses a backend for a device and a dtype.
"""

from nmt.ops.reference import Operations as Operations
