"""Draw the diagrams of the docs: attention, the encoder-decoders, and the Transformer.

python scripts/draw_diagrams.py --out docs/diagrams
"""

import argparse
import sys
from pathlib import Path

from diagrams.recurrent import attention, attention_decoder, captioner, fixed_context
from diagrams.transformer import multi_head, transformer

from nmt.lab.figure import figure_style, write_png

DIAGRAMS = {
    "attention": attention,
    "fixed-context": fixed_context,
    "attention-decoder": attention_decoder,
    "captioner": captioner,
    "multi-head": multi_head,
    "transformer": transformer,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder of the pictures")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name, draw in DIAGRAMS.items():
        with figure_style():
            write_png(draw(), out / f"{name}.png", force=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
