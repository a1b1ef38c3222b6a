"""Models on a processor whose oneDNN lacks what newer ones have."""

import os
import subprocess
import sys

PROGRAM = """
import torch
from nmt.models.recurrent.encoder import RecurrentLayers
from nmt.ops.products import int8_product

largest = torch.full((64, 512), 127, dtype=torch.int8)
for rows in (largest[:1], largest):
    assert (int8_product(rows, largest.t()) == 512 * 127**2).all(), int8_product(rows, largest.t())
with torch.autocast("cpu", torch.bfloat16):
    layers = RecurrentLayers("lstm", 16, 16, 1, 0.0, True)
    layers.read(torch.randn(3, 7, 16), torch.tensor([7, 7, 7]))
"""


def test_without_vnni_int8_is_exact_and_an_lstm_in_bf16_runs() -> None:
    """oneDNN limited to AVX2 multiplies as on such a processor, where 16-bit sums saturate."""
    limited = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    subprocess.run([sys.executable, "-c", PROGRAM], env=limited, check=True)
