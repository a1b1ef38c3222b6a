"""The check of the docs: what is stale fails, what is right passes, and all is on the list."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from check_docs import ROOT, Entry, agrees, main, read_list, transcripts
from PIL import Image

from nmt.lab.experiments import EXPERIMENTS

FIGURES = {"numbers": {"a": {"b c": [0.5, 1234567]}, "far": {"2": 2.4e-7}, "share": 0.968}}
LIST = {
    "text": {"run": ["python -c 'print(1)'"], "same": {"stdout": "docs/one.md"}},
    "picture": {"run": ["cp {root}/now.png now.png"], "same": {"now.png": "docs/kept.png"}},
    "figures": {
        "run": ["cp {root}/figures.json figures.json", "N=3 python -c 'print(\"has words 7.0\")'"],
        "page": "docs/page.md",
        "json": "figures.json",
        "output": ["has (?P<what>[a-z]+) (?P<number>[0-9.]+)"],
        "says": [
            "| x | {a[b c][0]:.2f} | * | {a[b c][1]:.1fM} |",
            "{what} are {number:.2f} and {share:.1%}, {far[2]:.1fpow}",
        ],
    },
    "lines": {
        "run": ["cp {root}/table.md table.md"],
        "page": "docs/page.md",
        "lines_of": "table.md",
    },
    "late": {"run": ["false"], "slow": True},
    "demo": {
        "needs": ["starter"],
        "transcripts": ["docs/demo.md"],
        "within": {"BLEU": 1.5, "loss": 0.02},
    },
}
DEMO = """# A page
```
$ nmt train --config configs/starter.yaml
run           runs/starter
...
step 1,616  epoch 8  6.5 min  valid loss 0.070  BLEU 94.2  ...
    -> Sais-tu où Luc habite ?
$ cat runs/starter/score.txt \\
    runs/starter/text.txt
BLEU 94.30 [92.96, 95.64] (95 % bootstrap, n=1000)  nrefs:1|...|version:2.6.0
Il ne mange jamais de viande.
Il est là.  # varies
$ nmt attention --out cat.png
```
"""
LOG = """2026-11-24 22:14:20 run           runs/starter
2026-11-24 22:14:20 device        cpu (1 thread), fp32
2026-11-24 22:24:20 step 1,616  epoch 8  9.9 min  valid loss 0.085  BLEU 95.1  (best so far)
    -> Sais-tu où Luc habite ?
"""
SCORE = "BLEU 93.80 [92.1, 95.14] (95 % bootstrap, n=1000)  nrefs:1|bs:1000|tok:13a|version:2.6.0\n"
PAGE = "Some\n| x | 0.50 | 17 ms | 1.2 |\nwhere words are\n7.00 and 96.8 %, 2.4 · 10⁻⁷.\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout whose docs are up to date."""
    (tmp_path / "docs").mkdir()
    text = yaml.safe_dump(LIST, sort_keys=False)
    (tmp_path / "docs" / "made.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "docs" / "one.md").write_text("1\n", encoding="utf-8")
    (tmp_path / "docs" / "page.md").write_text(PAGE, encoding="utf-8")
    (tmp_path / "docs" / "demo.md").write_text(DEMO, encoding="utf-8")
    run_path = tmp_path / "runs" / "starter"
    run_path.mkdir(parents=True)
    (run_path / "train.log").write_text(LOG, encoding="utf-8")
    (run_path / "score.txt").write_text(SCORE, encoding="utf-8")
    (run_path / "text.txt").write_text("Il ne mange jamais de viande.\nIl est.\n", "utf-8")
    (tmp_path / "table.md").write_text("Some\n\n| x | 0.50 | 17 ms | 1.2 |\n", encoding="utf-8")
    (tmp_path / "figures.json").write_text(json.dumps(FIGURES), encoding="utf-8")
    pixels = np.full((60, 50, 3), 200, np.uint8)
    for path in ("now.png", "docs/kept.png"):
        Image.fromarray(pixels).save(tmp_path / path)
    return tmp_path


def run(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The answer, and what was printed."""
    code = main(["--root", str(root), *words])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_what_is_up_to_date_passes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, capsys) == (0, "text: ok\npicture: ok\nfigures: ok\nlines: ok\n")


@pytest.mark.parametrize(
    ("old", "new", "stale"),
    [
        ("0.50", "0.51", ["figures", "lines"]),
        ("17 ms", "18 ms", ["lines"]),  # a time: figures do not look at it
        ("| 1.2 |", "| 1.3 |", ["figures", "lines"]),
        ("7.00", "7.01", ["figures"]),
        ("96.8 %", "96.7 %", ["figures"]),
        ("10⁻⁷", "10⁻⁸", ["figures"]),
        ("Some", "None", ["lines"]),
    ],
)
def test_a_stale_page_fails(
    root: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, stale: list[str]
) -> None:
    (root / "docs" / "page.md").write_text(PAGE.replace(old, new), encoding="utf-8")
    code, said = run(root, capsys)
    assert code == 1
    assert re.findall("^(.*): stale", said, re.MULTILINE) == stale
    assert "docs/page.md: does not say: " in said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BLEU 94.30", "BLEU 95.31"),  # beyond the tolerance of 1.5
        ("95.64]", "96.65]"),
        ("loss 0.070", "loss 0.106"),  # beyond its own tolerance, far within that of BLEU
        ("n=1000", "n=1001"),  # a count has no tolerance
        ("1,616", "1,617"),
        ("jamais de viande", "pas de viande"),
        ("jamais de viande.", "jamais de viande"),
        ("Luc habite", "Marc habite"),
        ("score.txt", "scores.txt"),  # the command fails
    ],
)
def test_a_false_transcript_fails(
    root: Path, capsys: pytest.CaptureFixture[str], old: str, new: str
) -> None:
    runs = ("--runs", str(root / "runs"))
    assert run(root, capsys, "demo", *runs) == (0, "demo: ok\n")
    assert old in DEMO
    (root / "docs" / "demo.md").write_text(DEMO.replace(old, new), encoding="utf-8")
    code, said = run(root, capsys, "demo", *runs)
    assert (code, said.count("\n")) == (1, 2)
    assert new.split()[-1] in said
    assert "docs/demo.md: " in said


@pytest.mark.parametrize(
    ("expected", "text", "ok"),
    [
        ("| x | 50.0 % | 1.20 |", "| x | 51.9 % | 1.25 |", True),
        ("| x | 50.0 % | 1.20 |", "| x | 52.1 % | 1.25 |", False),
        ("| x | 50.0 % | 1.20 |", "| x | 51.9 % | 1.35 |", False),
        ("| x | 5 % | 1,200 |", "| x | 7 % | 1,200 |", True),
        ("| x | 5 % | 1,200 |", "| x | 7 % | 1,201 |", False),
        ("| size words | 5 % |", "| size words | 9 % |", True),  # a key before it goes first
        ("| shape words | 5 % |", "| shape words | 9 % |", False),
    ],
)
def test_percentages_and_decimals_have_tolerances(expected: str, text: str, ok: bool) -> None:
    entry = Entry(run=(), within={"size words": 4, "words": 1, "%": 2, "": 0.1})
    assert agrees(expected, text, entry) == ok
    assert agrees(expected, expected, Entry(run=()))


def test_entries_of_runs_need_the_runs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "demo" not in run(root, capsys, "--slow")[1]
    code, said = run(root, capsys, "--runs", str(root / "docs"))
    assert (code, said.count("\n")) == (2, 1)
    assert "starter" in said


def test_a_stale_file_fails(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "docs" / "one.md").write_text("2\n", encoding="utf-8")
    code, said = run(root, capsys, "text")
    assert (code, said) == (1, "text: stale\n  docs/one.md: differs from what is made now\n")


def test_a_stale_picture_fails_and_one_pixel_does_not(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = root / "docs" / "kept.png"
    pixels = np.asarray(Image.open(path)).copy()
    pixels[0, 0] = 0
    Image.fromarray(pixels).save(path)
    assert run(root, capsys, "picture")[0] == 0
    pixels[:5, :5] = 0
    Image.fromarray(pixels).save(path)
    assert "0.8% of the pixels differ" in run(root, capsys, "picture")[1]
    Image.fromarray(pixels[1:]).save(path)
    assert "another size" in run(root, capsys, "picture")[1]
    path.unlink()
    assert run(root, capsys, "picture") == (1, "picture: stale\n  docs/kept.png: missing\n")


def test_a_figure_that_is_gone_or_a_command_that_fails_is_stale(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "figures.json").write_text(json.dumps({"numbers": {"a": {}}}), encoding="utf-8")
    code, said = run(root, capsys, "figures")
    assert code == 1
    assert "docs/page.md: the figures have no 'b c', for | x | {a[b c][0]" in said
    text = (root / "docs" / "made.yaml").read_text(encoding="utf-8")
    (root / "docs" / "made.yaml").write_text(text.replace("has (?P", "had (?P"), encoding="utf-8")
    code, said = run(root, capsys, "figures")
    assert "docs/page.md: the output has nothing like 'had (?P<what>" in said
    code, said = run(root, capsys, "late")
    assert (code, said) == (1, "late: stale\n  false: exit code 1: no message\n")


def test_slow_ones_run_when_asked_for(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "late" not in run(root, capsys)[1]
    assert "late: stale" in run(root, capsys, "--slow")[1]


def test_a_wrong_name_or_list_is_one_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(root, capsys, "figure")
    names = ", ".join(LIST)
    assert code == 2
    assert said == f"error: got 'figure', allowed: {names}; did you mean 'figures'?\n"
    (root / "docs" / "made.yaml").write_text("x: {run: [a], sane: {}}", encoding="utf-8")
    code, said = run(root, capsys)
    assert (code, said.count("\n")) == (2, 1)
    assert "made.yaml:1: x.sane: unknown key; did you mean 'x.same'?" in said


def test_every_picture_and_generated_file_is_on_the_list() -> None:
    made = read_list(ROOT / "docs" / "made.yaml")
    kept = {str(path) for entry in made.values() for path in entry.same.values()}
    pictures = [*(ROOT / "docs").rglob("*.png"), *(ROOT / "docs").rglob("*.svg")]
    there = {str(path.relative_to(ROOT)) for path in pictures}
    assert there - kept == {
        "docs/lab/complexity.png",  # of times
        "docs/lab/key-size.png",  # the same
        "docs/family/maps.png",  # of sixteen trained models
    }
    assert {"docs/configuration.md", "docs/config.schema.json"} <= kept
    assert kept <= there | {"docs/configuration.md", "docs/config.schema.json"}
    assert set(EXPERIMENTS) <= set(made)


def test_every_answer_on_a_page_is_a_transcript_on_the_list() -> None:
    made = read_list(ROOT / "docs" / "made.yaml")
    checked = {ROOT / page for entry in made.values() for page in entry.transcripts}
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        answers = [line for _, lines in transcripts(text) for line in lines]
        assert page in checked or not any(c.startswith("nmt ") for c, _ in transcripts(text)), page
        blocks = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        scores = [line for block in blocks for line in block.splitlines() if "BLEU " in line]
        assert not [line for line in scores if line[:5] == "BLEU " and line not in answers], page
