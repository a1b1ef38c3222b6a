"""The check of the docs: what is stale fails, what is right passes, and all is on the list."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from check_docs import ROOT, main, read_list, transcripts
from PIL import Image

from nmt.lab.experiments import EXPERIMENTS

SAYS = ["| x | {a[b c][0]:.2f} | * | {a[b c][1]:.1fM} |", "{what} are {number:.2f} and {share:.1%}"]
WITHIN = {"BLEU": 1.5, "loss": 0.02}
FIGURES = {"numbers": {"a": {"b c": [0.5, 1234567]}, "share": 0.968}}
LIST = {
    "text": {"run": ["python -c 'print(1)'"], "same": {"stdout": "docs/one.md"}},
    "picture": {"run": ["cp {root}/now.png now.png"], "same": {"now.png": "docs/kept.png"}},
    "figures": {
        "run": ["cp {root}/figures.json figures.json", "python -c 'print(\"has words 7.0\")'"],
        "page": "docs/page.md",
        "json": "figures.json",
        "output": ["has (?P<what>[a-z]+) (?P<number>[0-9.]+)"],
        "says": SAYS,
    },
    "demo": {"needs": ["starter"], "transcripts": ["docs/demo.md"], "within": WITHIN},
}
DEMO = """```
$ nmt train --config configs/starter.yaml
run           runs/starter
...
step 1,616  epoch 8  6.5 min  valid loss 0.070  BLEU 94.2  ...
$ cat runs/starter/score.txt \\
    runs/starter/text.txt
BLEU 94.30 [92.96, 95.64] (n=1000)
Il ne mange jamais de viande.
Il est là.  # varies
```
"""
LOG = """2026-11-24 22:14:20 run           runs/starter
2026-11-24 22:24:20 step 1,616  epoch 8  9.9 min  valid loss 0.085  BLEU 95.1  (best so far)
"""
PAGE = "Some\n| x | 0.50 | 17 ms | 1.2 |\nwhere words are\n7.00 and 96.8 %.\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout whose docs are up to date."""
    for name in ("docs", "runs/starter"):
        (tmp_path / name).mkdir(parents=True)
    for name, text in {
        "docs/made.yaml": yaml.safe_dump(LIST, sort_keys=False),
        "docs/one.md": "1\n",
        "docs/page.md": PAGE,
        "docs/demo.md": DEMO,
        "figures.json": json.dumps(FIGURES),
        "runs/starter/train.log": LOG,
        "runs/starter/score.txt": "BLEU 93.80 [92.1, 95.14] (n=1000)\n",
        "runs/starter/text.txt": "Il ne mange jamais de viande.\nIl est.\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in ("now.png", "docs/kept.png"):
        Image.fromarray(np.full((60, 50, 3), 200, np.uint8)).save(tmp_path / name)
    return tmp_path


def run(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["--root", str(root), *words])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("one.md", "1", "2"),
        ("page.md", "0.50", "0.51"),
        ("page.md", "96.8 %", "96.7 %"),
        ("demo.md", "BLEU 94.30", "BLEU 95.31"),  # beyond the tolerance of 1.5
        ("demo.md", "loss 0.070", "loss 0.106"),  # beyond its own tolerance
    ],
)
def test_a_stale_page_fails_and_a_fresh_one_does_not(root, capsys, name, old, new) -> None:
    entries = ["demo", "--runs", str(root / "runs")] if name == "demo.md" else []
    code, printed = run(root, capsys, *entries)
    assert (code, printed.count(": ok\n")) == (0, 1 if entries else 3)
    page = root / "docs" / name
    page.write_text(page.read_text("utf-8").replace(old, new), encoding="utf-8")
    code, printed = run(root, capsys, *entries)
    assert (code, printed.count(": stale")) == (1, 1)
    assert f"docs/{name}" in printed


def test_a_stale_picture_fails_and_one_pixel_does_not(root, capsys) -> None:
    path = root / "docs" / "kept.png"
    pixels = np.full((60, 50, 3), 200, np.uint8)
    for side, code in ((1, 0), (5, 1)):
        pixels[:side, :side] = 0
        Image.fromarray(pixels).save(path)
        assert run(root, capsys, "picture")[0] == code
    path.unlink()
    assert run(root, capsys, "picture") == (1, "picture: stale\n  docs/kept.png: missing\n")


def test_every_picture_and_generated_file_is_on_the_list() -> None:
    entries = read_list(ROOT / "docs" / "made.yaml")
    listed = {str(path) for entry in entries.values() for path in entry.same.values()}
    pictures = [*(ROOT / "docs").rglob("*.png"), *(ROOT / "docs").rglob("*.svg")]
    tracked = {str(path.relative_to(ROOT)) for path in pictures}
    # The times of a machine, and sixteen trained models, are not made anew.
    assert tracked - listed == {"docs/lab/complexity.png", "docs/family/maps.png"}
    generated = {"docs/configuration.md", "docs/config.schema.json"}
    assert generated <= listed <= tracked | generated
    assert set(EXPERIMENTS) <= set(entries)


def test_every_answer_on_a_page_is_a_transcript_on_the_list() -> None:
    entries = read_list(ROOT / "docs" / "made.yaml")
    checked = {ROOT / page for entry in entries.values() for page in entry.transcripts}
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        answers = [line for _, lines in transcripts(text) for line in lines]
        assert page in checked or not any(c.startswith("nmt ") for c, _ in transcripts(text)), page
        blocks = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        scores = [line for block in blocks for line in block.splitlines() if "BLEU " in line]
        assert not [line for line in scores if line[:5] == "BLEU " and line not in answers], page
