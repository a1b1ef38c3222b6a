"""Builds data/starter: the English-French pairs that ship with the package.

The pairs follow from the tables in scripts/starter alone; a second run writes the same bytes.
Usage: python scripts/build_starter_corpus.py [FOLDER]
"""

import sys
from pathlib import Path

from starter.corpus import build, generate

DEFAULT_FOLDER = Path(__file__).resolve().parent.parent / "data" / "starter"


def main(folder: Path) -> None:
    """Write train, valid, test and the README under `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in build(generate()).items():
        (folder / name).write_bytes(content.encode("utf-8"))
        sys.stdout.write(f"{folder / name}: {content.count(chr(10))} lines\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER)
