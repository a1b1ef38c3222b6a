"""Metrics: by hand, by the sacrebleu command, Multi30k's references, a stand-in for COMET."""

import gzip
import math
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, get_args

import pytest
from evaluation.scores import sacrebleu_command, score
from evaluation.translations import ONE_EACH, REFS, WORSE

from nmt.errors import ConfigError, DataError
from nmt.evaluation.metric import Scoring
from nmt.evaluation.metrics import METRICS, PAIRED_METRICS, corpus_bleu
from nmt.evaluation.sacrebleu_metrics import tokenise
from nmt.types import EvalExample, MetricName, rank_of


def test_a_missing_reference_is_no_empty_one():
    """Whose length would be the closest: all n-grams match, and 7 words stand against 8."""
    hyps, refs = ["the cat sat on a mat", "yes"], [("the cat sat on a mat", "a cat"), ("yes sir",)]
    result = score("bleu", hyps, refs, "fr")
    assert result.score == pytest.approx(100 * math.exp(1 - 8 / 7), abs=1e-9)
    assert corpus_bleu(hyps, refs) == pytest.approx(result.score, abs=1e-9)
    assert result.signature.startswith("nrefs:var|")


@pytest.mark.parametrize("metric", PAIRED_METRICS)
def test_the_best_and_the_worst_are_the_ends_of_the_scale(metric):
    best, worst = (0.0, 100.0) if metric == "ter" else (100.0, 0.0)
    result = score(metric, REFS, ONE_EACH, "fr")
    assert result.score == best
    assert (result.low, result.high) == (pytest.approx(best), pytest.approx(best))
    result = score(metric, ["", "x y z"], [("un chat",), ("a b c",)], "fr")
    assert (result.score, result.low, result.high) == (worst, worst, worst)
    assert rank_of(metric, best) > rank_of(metric, worst)
    assert set(get_args(MetricName)) == {*METRICS, "loss"}


def test_case_and_apostrophes_count_or_the_metric_says_so():
    upper = [(ref.upper(),) for ref in REFS]
    assert score("bleu-lc", WORSE, upper, "fr") == score("bleu-lc", WORSE, ONE_EACH, "fr")
    assert corpus_bleu(["le chat dort bien ici"], [("Le chat dort bien ici",)]) < 100
    assert corpus_bleu(["l'été est court cette année"], [("l’été est court cette année",)]) < 100


@pytest.mark.parametrize(
    ("metrics", "flags"),
    [
        (("bleu", "chrf", "ter"), ["-m", "bleu", "chrf", "ter"]),
        (("bleu-lc", "chrf++"), ["-m", "bleu", "chrf", "-lc", "--chrf-word-order", "2"]),
    ],
)
def test_score_interval_and_signature_are_sacrebleus(metrics, flags, tmp_path):
    flags += ["--confidence", "-w", "4", "--format", "text"]
    lines = sacrebleu_command(tmp_path, {"ref": REFS, "hyp": WORSE}, flags).splitlines()
    for metric, line in zip(metrics, lines, strict=True):
        result = score(metric, WORSE, ONE_EACH, "fr")
        assert result.low < result.score < result.high
        mean, half = (result.high + result.low) / 2, (result.high - result.low) / 2
        assert half > 0.5
        name = result.name.removesuffix("-lc")
        expected = f"{name}|{result.signature} = {result.score:.4f} (μ = {mean:.4f} ± {half:.4f})"
        assert line.strip().startswith(expected)


def test_the_interval_is_within_the_scale_and_may_be_left_out():
    result = score("bleu", WORSE, ONE_EACH, "fr", n_bootstrap=0)
    assert (result.low, result.high, result.n_bootstrap) == (None, None, 0)
    assert score("chrf", [*REFS[:39], "rien"], ONE_EACH[:40], "fr", n_bootstrap=100).high <= 100


@pytest.mark.parametrize("metric", ["chrf", "ter"])
def test_resamples_without_counts_are_part_of_the_interval(metric):
    """Where every line of a resample is empty, sacreBLEU scores in another type of number."""
    refs = [("",), ("le chat",), ("",)]
    result = score(metric, ["", "le chat", "z"], refs, "fr", n_bootstrap=100)
    assert result.low < min(result.score, result.high)


def test_what_cannot_be_scored_is_refused(monkeypatch):
    for hyps, refs, message in (
        (["a"], [("a",), ("b",)], "got 1 translations for 2 lines"),
        (["a", "b"], [("a",), ()], "line 2 has no reference"),
    ):
        with pytest.raises(DataError, match=message):
            score("bleu", hyps, refs, "fr")
    for seed in ("abc", "-1"):
        monkeypatch.setenv("SACREBLEU_SEED", seed)
        with pytest.raises(ConfigError, match=f"SACREBLEU_SEED: got '{seed}', allowed: a whole"):
            score("bleu", WORSE, ONE_EACH, "fr")


@pytest.mark.skipif("NMT_CORPORA" not in os.environ, reason="it names no folder")
def test_our_references_differ_from_the_published_in_no_line():
    for name in ("val", "test_2016_flickr"):
        path = Path(os.environ["NMT_CORPORA"]) / "multi30k" / name
        raw = gzip.decompress(path.with_suffix(".fr.gz").read_bytes()).decode().split("\n")
        published = path.with_suffix(".lc.norm.tok.fr").read_bytes().decode().split("\n")
        assert len(raw) > 1000
        ours = [*tokenise(raw[:-1], "fr"), ""]
        assert [(o, p) for o, p in zip(ours, published, strict=True) if o != p] == []


def test_multi30k_is_lower_cased_then_normalised_then_tokenised(monkeypatch):
    for raw, tokens in (
        ("L'Été, un chien!", "l&apos; été , un chien !"),
        ("Elle dit « oui » .", "elle dit &quot; oui &quot; ."),
        # The script's own ways, which the published references have: a full stop leaves the
        # quotation marks, and U+2019 before a letter beyond a-z is a quotation mark.
        ('un café, "Chez Paul."', "un café , &quot; chez paul &quot; ."),
        ("Un coup d’œil", "un coup d &quot; œil"),
        ("l’arrière-plan", "l&apos; arrière-plan"),
        ("", ""),
    ):
        assert tokenise([raw], "fr") == [tokens]
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(DataError, match=r"needs sacremoses.* 'attention-nmt\[moses\]'"):
        tokenise(["Un chien."], "fr")


def test_the_signature_of_multi30k_names_its_steps():
    result = score("multi30k", ["UN CHIEN court ici."], [("Un chien court ici .",)], "fr")
    assert (result.name, result.score) == ("BLEU-lc-norm-tok", 100)
    assert "|tok:none|" in result.signature
    assert "|prep:lc.norm.tok.fr|sacremoses:" in result.signature
    refs = [("Un chien .", "Le chien dort bien ."), ("L'été est là .",)]
    for lang in ("fr", "FR", "fr-CA"):  # sacremoses parts `l'` in French only, and has no FR
        result = score("multi30k", ["Le chien dort bien.", "L'été est là."], refs, lang)
        assert (result.score, result.signature.partition("|")[0]) == (100, "nrefs:var")


COMET = METRICS["comet"]
EXAMPLES = [
    EvalExample("the cat", ("le chat",)),
    EvalExample("a dog", ("un chien", "un chat", "le chien")),
]


class Model:
    """Scores 1 where translation and reference are the same, else 0; notes its samples."""

    samples: ClassVar[list[dict[str, str]]] = []
    options: ClassVar[dict[str, Any]] = {}

    @classmethod
    def predict(cls, samples: list[dict[str, str]], **options: Any) -> dict[str, Any]:
        cls.samples, cls.options = samples, options
        return {"scores": [float(sample["mt"] == sample["ref"]) for sample in samples]}


def load_from_checkpoint(path: str) -> Model:
    if Path(path).read_bytes() != b"a checkpoint":
        raise RuntimeError("Invalid magic number\nin a file")
    return Model()


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = ModuleType("comet")
    package.__spec__ = ModuleSpec("comet", None)
    package.load_from_checkpoint = load_from_checkpoint  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "comet", package)
    path = tmp_path / "wmt22-comet-da" / "checkpoints" / "model.ckpt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"a checkpoint")
    return path


def test_comet_is_a_mean_over_sentences_and_references(checkpoint: Path) -> None:
    hyps, scoring = ["le chat", "un chien"], Scoring("fr", ("comet",), comet=checkpoint)
    COMET.load(scoring)
    result = COMET.score(hyps, EXAMPLES, scoring)
    assert result.score == pytest.approx(100 * (1 + 1 / 3) / 2)
    assert len(Model.samples) == 4
    assert Model.samples[1] == {"src": "a dog", "mt": "un chien", "ref": "un chien"}
    assert (Model.options["gpus"], Model.options["devices"]) == (0, None)
    assert 0 <= result.low < result.score < result.high <= 100
    assert result.signature.startswith("model:wmt22-comet-da/model.ckpt|times:100|bs:1000|seed:12")
    assert COMET.score(hyps, EXAMPLES, scoring) == result
    single = Scoring("fr", ("comet",), 0, comet=checkpoint, gpu=3)
    result = COMET.score(["le chat"], EXAMPLES[:1], single)
    assert (result.score, result.low, result.high, result.n_bootstrap) == (100, None, None, 0)
    assert (Model.options["gpus"], Model.options["devices"]) == (1, [3])
    with pytest.raises(ConfigError, match="source of each sentence"):
        COMET.score(["le chat"], [EvalExample("", ("le chat",))], single)


def test_a_checkpoint_that_cannot_be_read_is_named(checkpoint: Path, monkeypatch) -> None:
    other = checkpoint.with_name("other.ckpt")
    for path in (None, other):
        with pytest.raises(ConfigError, match=r"`comet`: .*model.ckpt"):
            COMET.check(Scoring("fr", comet=path), "")
    other.write_bytes(b"something else")
    with pytest.raises(DataError, match=r"other.ckpt: cannot be read: Invalid magic number$"):
        COMET.load(Scoring("fr", comet=other))
    monkeypatch.delitem(sys.modules, "comet")
    with pytest.raises(ConfigError, match="unbabel-comet is missing"):
        COMET.check(Scoring("fr", comet=checkpoint), "")
