"""compare_family.py on two tiny runs: what it trains, leaves alone, measures and refuses."""

import json
import math
import sys
from pathlib import Path

import compare_family
import comparison.speed
import numpy as np
import pytest
from comparison.measures import FILE, Looks, Measured, looks_of, measure
from comparison.members import read_members, run_path, state_of
from comparison.pictures import draw_maps
from comparison.results import joined, results_of
from comparison.speed import Speed, Timed, material_of, memory_of
from comparison.table import markdown
from training.toy import toy_config, write_reversal

from nmt.config import dump_config
from nmt.errors import DataError
from nmt.evaluation.metrics import corpus_bleu
from nmt.types import Encoded, EvalExample, Hypothesis, TranslatedHypothesis, Translation

STEPS = 12


def recipe(folder: Path, name: str, **sections: object) -> Path:
    """A recipe of the family in `folder`/configs, on the toy files of `folder`."""
    train = {"epochs": None, "steps": STEPS, "batch_size": 32, "lr": 0.005, "device": "cpu"}
    model = {"kind": "rnn", "embedding": 8, "hidden": 12, "attention": {"kind": name}}
    config = toy_config(folder, **{"name": name, "model": model, "train": train, **sections})
    path = folder / "configs" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(dump_config(config), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recipes; additive was trained with seeds 1 and 2, none with seed 1."""
    folder = tmp_path_factory.mktemp("family")
    write_reversal(folder, n_train=200, n_test=20)
    for name in ("additive", "none"):
        recipe(folder, name)
    with pytest.MonkeyPatch.context() as patch:  # a process each; tested below
        patch.setattr(comparison.speed, "memory_of", lambda config, material: 5 * 2**20)
        assert run(folder, "--seeds", "1", "--rounds", "1") == 0
    assert run(folder, "--seeds", "1", "2", "--only", "additive") == 0
    return folder


def run(folder: Path, *words: str) -> int:
    """The script's answer."""
    places = {"--configs": "configs", "--runs": "runs", "--out": "out"}
    given = [word for key, name in places.items() for word in (key, str(folder / name))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["compare_family.py", *given, "--sentence", "3", *words])
        return compare_family.main()


def test_every_file_is_there_with_both_kinds(home: Path) -> None:
    assert run(home, "--seeds", "1", "2", "--measure-only") == 0
    found = json.loads((home / "out" / "family.json").read_text())
    assert list(found["kinds"]) == ["additive", "none"]
    additive, none = found["kinds"]["additive"], found["kinds"]["none"]
    assert set(additive["bleus"]) == {"1", "2"}
    assert additive["bleu"] == pytest.approx(np.mean([*additive["bleus"].values()]))
    assert additive["spread"] == pytest.approx(np.std([*additive["bleus"].values()], ddof=1))
    assert (none["spread"], additive["difference"]) == (None, None)
    shared = none["bleus"]["1"] - additive["bleus"]["1"]
    assert none["difference"]["mean"] == pytest.approx(shared)
    assert none["perplexity"] == pytest.approx(math.exp(none["loss"]))
    assert none["looks"]["entropy"] == 0
    assert 0 < additive["looks"]["share"] <= 1
    assert found["speed"]["none"]["training"]["rate"] > 0
    assert found["speed"]["none"]["memory_bytes"] == 5 * 2**20
    assert found["speed"]["additive"]["beam"]["ratio"] == 1
    for picture in ("bleu", "bleu-by-length", "maps"):
        data = (home / "out" / f"{picture}.png").read_bytes()
        assert data.startswith(b"\x89PNG")
    lines = (home / "out" / "table.md").read_text().splitlines()
    assert sum(line.startswith("| additive |") for line in lines) == 4


def test_an_update_keeps_the_other_kinds_and_the_maps(home: Path) -> None:
    assert run(home, "--seeds", "1", "--measure-only") == 0
    path, maps = home / "out" / "family.json", home / "out" / "maps.png"
    whole = json.loads(path.read_text())
    stale = json.loads(path.read_text())
    stale["kinds"]["none"]["bleus"]["1"] = 99.5  # will be put right
    stale["kinds"]["additive"]["bleus"]["1"] = 12.5  # is kept
    path.write_text(json.dumps(stale))
    maps.write_bytes(b"as it was")
    assert run(home, "--seeds", "1", "--update", "none") == 0
    found = json.loads(path.read_text())
    additive = {**whole["kinds"]["additive"], "bleus": {"1": 12.5}, "bleu": 12.5}
    assert found["kinds"]["additive"] == additive
    assert found["kinds"]["none"] == {**whole["kinds"]["none"], "difference": None}
    assert found["speed"] == whole["speed"]
    assert maps.read_bytes() == b"as it was"
    assert "| additive | 1 | 12.50 |" in (home / "out" / "table.md").read_text()
    assert run(home, "--seeds", "1", "--update", "additive", "none") == 0
    assert json.loads(path.read_text()) == whole


def test_what_is_kept_is_shown_without_any_run(home: Path) -> None:
    assert run(home, "--seeds", "1", "--measure-only") == 0
    out = home / "out"
    names = ("table.md", "bleu.png", "bleu-by-length.png")
    before = [(out / name).read_bytes() for name in names]
    for name in names:
        (out / name).unlink()
    assert run(home, "--kept", "--runs", str(home / "nothing")) == 0
    assert [(out / name).read_bytes() for name in names] == before


@pytest.mark.parametrize("words", [("--seeds", "1", "--update", "none"), ("--kept",)])
def test_nothing_kept_is_a_line(
    home: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "out" / "family.json").unlink(missing_ok=True)
    assert run(home, *words) == 2
    assert "family.json is missing; compare all kinds first" in capsys.readouterr().err


def test_finished_runs_are_left_alone_and_measured_once(home: Path) -> None:
    first = run_path(home / "runs", "none", 1)
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    assert run(home, "--seeds", "1") == 0
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*")} == before


def test_what_is_kept_is_what_is_measured(home: Path) -> None:
    path = run_path(home / "runs", "additive", 1)
    kept = measure(path)
    kept_text = (path / FILE).read_text()
    (path / FILE).write_text(kept_text.replace(f'"step": {STEPS}', '"step": 1'))
    again = measure(path)  # of another checkpoint: not taken
    assert (again, (path / FILE).read_text()) == (kept, kept_text)


def test_missing_runs_are_named_and_left_out(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(home, "--seeds", "2", "--measure-only") == 0
    said = capsys.readouterr()
    assert f"{run_path(home / 'runs', 'none', 2)}: missing" in said.err
    assert "| additive |" in said.out
    assert "| none | 1 |" not in said.out


def test_a_run_cut_short_is_unfinished(home: Path, tmp_path: Path) -> None:
    member = read_members(home / "configs", ["none"])[0]
    assert state_of(member, 1, home / "runs") == "finished"
    assert state_of(member, 7, home / "runs") == "missing"
    path = run_path(tmp_path, "none", 1)
    path.mkdir()
    (path / "config.yaml").write_text(dump_config(member.with_seed(1)))
    assert state_of(member, 1, tmp_path) == "unfinished"


def error_of(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(folder, *words) == 2
    return capsys.readouterr().err.strip().splitlines()[-1].replace(f"{folder}/", "")


def test_misuse(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def error(*words: str) -> str:
        return error_of(home, capsys, *words)

    assert error("--only", "aditive") == (
        "error: --only: got 'aditive', allowed: additive, none; did you mean 'additive'?"
    )
    assert error("--baseline", "dot") == "error: --baseline: got 'dot', allowed: additive, none"
    assert error("--measure-only", "--seeds", "9") == (
        "error: --baseline: 'additive' has no finished run in runs"
    )
    assert error("--measure-only", "--sentence", "21") == (
        "error: --sentence: got 21, allowed: 1 to 20"
    )
    assert error("--configs", str(home / "out")) == (
        "error: out: no recipes (*.yaml) in this folder"
    )


def test_recipes_that_differ_in_more_than_the_model_are_not_compared(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_reversal(tmp_path, n_train=200, n_test=20)
    recipe(tmp_path, "additive")
    recipe(tmp_path, "general", search={"beam": 2})
    assert error_of(tmp_path, capsys) == (
        "error: configs/general.yaml: search differs from that of configs/additive.yaml; recipes "
        "that are compared may differ in name and model only"
    )
    (tmp_path / "configs" / "general.yaml").unlink()
    recipe(tmp_path, "additive", train={"epochs": 1})
    assert error_of(tmp_path, capsys) == (
        "error: configs/additive.yaml: train.steps: missing; the budget is counted in updates"
    )
    recipe(tmp_path, "additive", search={"beam": 2})
    target = run_path(tmp_path / "runs", "additive", 1)
    target.mkdir(parents=True)
    (target / "config.yaml").write_bytes(
        (run_path(home / "runs", "additive", 1) / "config.yaml").read_bytes()
    )
    assert error_of(tmp_path, capsys, "--measure-only") == (
        "error: runs/additive-1: was trained with another config than configs/additive.yaml with "
        "seed 1; move it away, or name another folder with --runs"
    )


def forced_by(heads: np.ndarray) -> Translation:
    """A forced translation with these weights (N, T, S), and nothing else of interest."""
    hypothesis = Hypothesis((3,), (0.0,), 0.0, heads.mean(axis=0), True, heads)
    nothing = Encoded((), (), (), ())
    return Translation("", nothing, (TranslatedHypothesis("", nothing, hypothesis),))


def test_looks_of_known_weights() -> None:
    even = np.full((2, 3, 4), 0.25, dtype=np.float32)
    looks = looks_of([forced_by(even)])
    assert (looks.entropy, looks.head_entropy) == pytest.approx((math.log(4), math.log(4)))
    assert (looks.share, looks.largest, looks.n_heads) == (pytest.approx(1), 0.25, 2)
    apart = np.zeros((2, 1, 4), dtype=np.float32)
    apart[0, 0, 0] = apart[1, 0, 3] = 1  # each head looks at one place, together at two
    looks = looks_of([forced_by(apart)])
    assert (looks.entropy, looks.head_entropy) == pytest.approx((math.log(2), 0))
    assert (looks.share, looks.largest) == pytest.approx((0.5, 0.5))
    both = looks_of([forced_by(even), forced_by(apart)])  # 3 target pieces and 1
    assert both.share == pytest.approx((3 * 1 + 0.5) / 4)
    empty = Translation("", Encoded((), (), (), ()), ())
    assert looks_of([forced_by(even), empty]) == looks_of([forced_by(even)])


LOOKS = Looks(entropy=0.5, share=0.25, largest=0.75, head_entropy=0.5, n_heads=1)
EXAMPLES = [
    EvalExample(" ".join("w" * (i % 12 + 1)), (f"un chat numéro {i} dort",)) for i in range(48)
]
RIGHT = [example.ref_texts[0] for example in EXAMPLES]
WRONG = [text.replace("chat", "chien") if i % 2 else text for i, text in enumerate(RIGHT)]


def measured(hyp_texts: list[str], loss: float = 1.0) -> Measured:
    """The measures of a run that translated so."""
    bleu = corpus_bleu(hyp_texts, [example.ref_texts for example in EXAMPLES])
    return Measured(STEPS, 2_500_000, bleu, "tok:13a", loss, LOOKS, hyp_texts)


def test_results_are_means_over_runs_held_against_the_baseline() -> None:
    runs = {
        "dot": {1: measured(WRONG)},
        "additive": {1: measured(RIGHT, 1.0), 2: measured(WRONG, 2.0)},
        "none": {2: measured(RIGHT)},
    }
    additive, none, dot = results_of(runs, EXAMPLES, "additive", "fr")
    half = corpus_bleu(WRONG, [example.ref_texts for example in EXAMPLES])
    assert (additive.name, none.name, dot.name) == ("additive", "none", "dot")
    assert (additive.bleu, additive.loss) == (pytest.approx((100 + half) / 2), 1.5)
    assert (additive.length, dot.length) == (1, 1)
    short = results_of({"additive": {1: measured(["un chat"] * 48)}}, EXAMPLES, "additive", "fr")
    assert short[0].length == pytest.approx(2 / 5)
    assert additive.difference is None
    # Each against the baseline's run with the same seed.
    assert dot.difference is not None
    assert dot.difference.mean == pytest.approx(half - 100)
    assert dot.difference.high < 0
    assert none.difference is not None
    assert none.difference.mean == pytest.approx(100 - half)
    assert [(b.lowest, b.highest, b.n_sentences) for b in additive.by_length] == [
        (0, 7, 28), (8, 9, 8), (10, 11, 8), (12, 13, 4)
    ]  # fmt: skip
    assert additive.by_length[0].bleu == pytest.approx(
        (none.by_length[0].bleu + dot.by_length[0].bleu) / 2
    )


def test_joined_results_are_the_means_of_all_seeds() -> None:
    runs = {
        "additive": {1: measured(RIGHT, 1.0), 2: measured(WRONG, 2.0), 3: measured(WRONG, 6.0)},
        "none": {1: measured(WRONG), 2: measured(RIGHT), 3: measured(WRONG)},
    }
    whole = results_of(runs, EXAMPLES, "additive", "fr")
    some, others = (
        results_of(
            {k: {s: r[s] for s in seeds} for k, r in runs.items()}, EXAMPLES, "additive", "fr"
        )
        for seeds in ((1, 2), (3,))
    )
    for kept, new, both in zip(some, others, whole, strict=True):
        found = joined(kept, new)
        assert found.bleus == both.bleus
        assert (found.bleu, found.loss, found.length) == pytest.approx(
            (both.bleu, both.loss, both.length)
        )
        assert [b.bleu for b in found.by_length] == pytest.approx([b.bleu for b in both.by_length])
        assert found.difference == new.difference
        with pytest.raises(DataError, match="seed 1 is among the kept results already"):
            joined(both, some[0])


def test_seeds_join_those_of_runs_that_are_gone(home: Path) -> None:
    assert run(home, "--seeds", "1", "2", "--measure-only") == 0
    path = home / "out" / "family.json"
    whole = json.loads(path.read_text())["kinds"]
    assert run(home, "--seeds", "1", "--measure-only") == 0
    assert run(home, "--seeds", "2", "--only", "additive", "--measure-only", "--join") == 0
    found = json.loads(path.read_text())["kinds"]
    assert found["additive"]["bleus"] == whole["additive"]["bleus"]
    assert found["additive"]["loss"] == pytest.approx(whole["additive"]["loss"])
    assert found["none"] == whole["none"]
    assert run(home, "--seeds", "2", "--only", "additive", "--measure-only", "--join") == 2


def test_a_table_says_what_the_numbers_are() -> None:
    runs = {"additive": {1: measured(RIGHT), 2: measured(WRONG)}, "none": {1: measured(WRONG)}}
    results = results_of(runs, EXAMPLES, "additive", "fr")
    timed = Timed(rate=1234.4, spread=0.05, ratio=0.5)
    table = markdown(results, {"none": Speed(timed, timed, timed, memory_bytes=3 * 2**20)})
    assert "| none | 1,234 (5 %) | 0.50 | 1,234 (5 %) | 0.50 | 1,234 (5 %) | 0.50 | 3 |" in table
    assert "| none | 0.50 | 25 % | 0.75 |  |" in table
    means, none = results[0], results[1]
    start = f"| additive | 2 | {means.bleu:.2f} | {means.spread:.2f} |"
    assert f"{start}  |  |  | 1.00 | 2.72 | 2.50 M |" in table
    assert none.difference is not None
    assert f"| none | 1 | {none.bleu:.2f} |  | {none.difference.mean:+.2f} | " in table


def test_memory_grows_with_the_model(home: Path) -> None:
    """By about 8 MB of weights, gradients and moments a copy: more than noise."""
    config = read_members(home / "configs", ["none"])[0].config
    large = config.model_copy(update={"model": config.model.model_copy(update={"hidden": 800})})
    added = memory_of(large, material_of(config))
    assert added is not None
    assert 20e6 < added < 500e6


def test_sixteen_maps_fit_the_width_of_a_page(make_translation) -> None:
    """Labels are then of a size that can be read: the picture is scaled by a half or less."""
    words = " ".join(f"word{number}" for number in range(16))
    translation = make_translation(words, [words])
    figure = draw_maps({f"kind {number}": translation for number in range(16)})
    width, height = figure.get_tightbbox().size
    assert 9 < width < 13
    assert height > width
    assert all(label.get_fontsize() >= 8 for label in figure.axes[0].get_yticklabels())
