"""The measurements of finished runs: translations, perplexity, attention, differences in BLEU."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import TypeAdapter

from nmt.batches.batching import encode_pairs
from nmt.corpora.corpora import read_examples
from nmt.corpora.sources import pairs_of
from nmt.errors import CheckpointError, DataError
from nmt.evaluation.evaluate import Bucket, Scoring, bleu_by_length, evaluate
from nmt.evaluation.examples import find_split
from nmt.evaluation.metric import DEFAULT_BOOTSTRAP
from nmt.evaluation.metrics import PAIRED_METRICS
from nmt.evaluation.significance import corpus_score, line_stats, sacrebleu_generator
from nmt.runs.directory import RunDirectory
from nmt.storage.atomic import write_json
from nmt.training.validation import mean_loss
from nmt.translation.translator import Translator
from nmt.types import EvalExample, Translation

FILE, _FORMAT = "comparison.json", 1
EDGES = (7, 9, 11, 13, 16, 20)
"""The longest source, in words, of each bucket but the last: about equally many captions."""


@dataclass(frozen=True)
class Looks:
    """The spread of attention, as means over the pieces of the references (eos included).

    `entropy` in nats, of the weights averaged over heads; `share` is the entropy over the
    logarithm of the number of source pieces, 1 for uniform attention; `largest` is the mean largest
    weight. `head_entropy` is the mean over the heads of each head's own entropy.
    """

    entropy: float
    share: float
    largest: float
    head_entropy: float
    n_heads: int


@dataclass(frozen=True)
class Measured:
    """One run. `loss` is in nats per target piece of the test set, without label smoothing."""

    step: int
    n_parameters: int
    bleu: float
    signature: str
    loss: float
    looks: Looks
    hyp_texts: list[str]


@dataclass(frozen=True)
class Difference:
    """The difference in mean score between several runs of a system and several of a baseline.

    `mean` is the system's mean score minus the baseline's. `low` and `high` bound its 95 % interval
    over paired bootstrap resamples of the sentences; `p_value` is as in Comparison. Both cover the
    choice of the test sentences, but not the variation between runs.
    """

    mean: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Result:
    """One kind over its runs, whose seeds are the keys of `bleus`.

    Numbers are means over the runs. `length` is the ratio of the words of the translations to the
    words of the first references. `difference` compares BLEU with the baseline over the seeds that
    both have; None for the baseline itself.
    """

    name: str
    n_parameters: int
    bleus: dict[int, float]
    signature: str
    length: float
    loss: float
    looks: Looks
    by_length: tuple[Bucket, ...]
    difference: Difference | None

    @property
    def bleu(self) -> float:
        return statistics.mean(self.bleus.values())

    @property
    def spread(self) -> float | None:
        """The standard deviation over the runs; None for a single one."""
        return statistics.stdev(self.bleus.values()) if len(self.bleus) > 1 else None


def measure(run: Path) -> Measured:
    """The measures of a run's last checkpoint, stored in the run and read from there if current."""
    directory = RunDirectory(run)
    step = max(directory.checkpoint_folder.steps())
    try:
        stored = directory.read_json(FILE)
    except CheckpointError:
        stored = None
    if isinstance(stored, dict) and (stored.get("format"), stored.get("step")) == (_FORMAT, step):
        return TypeAdapter(Measured).validate_python(stored)
    translator = Translator.load(run, device="cpu", checkpoint="last")
    examples = test_set(run)
    scoring = Scoring(tgt_lang=directory.load_config().data.tgt_lang, n_bootstrap=0)
    evaluation = evaluate(translator, examples, scoring)
    corpus = encode_pairs(pairs_of(examples), translator.tokenizers, max_pieces=10**9)
    measured = Measured(
        step=step,
        n_parameters=sum(p.numel() for p in translator.model.parameters()),
        bleu=evaluation.scores["bleu"].score,
        signature=evaluation.scores["bleu"].signature,
        loss=mean_loss(translator.model, corpus, torch.device("cpu")),
        looks=looks_of(forced(translator, examples)),
        hyp_texts=list(evaluation.hyp_texts),
    )
    write_json(run / FILE, {"format": _FORMAT, **asdict(measured)})
    return measured


def test_set(run: Path) -> list[EvalExample]:
    data = RunDirectory(run).load_config().data
    return read_examples(find_split(data, "test"), data)


def forced(translator: Translator, examples: Sequence[EvalExample]) -> Sequence[Translation]:
    """The forced decoding of the first reference, so that all models have the same pieces."""
    texts = [example.src_text for example in examples]
    refs = [example.ref_texts[0] for example in examples]
    return translator.force(texts, refs, with_heads=True)


def looks_of(translations: Sequence[Translation]) -> Looks:
    """Return the means over all target pieces of the sources with two or more pieces."""
    rows, n_heads = [], 1
    for translation in translations:
        for output in translation.hypotheses[:1]:
            weights, heads = output.hypothesis.attention, output.hypothesis.heads
            if weights.shape[1] > 1:
                assert heads is not None
                n_heads, entropies = len(heads), _entropy(weights)
                shares = entropies / np.log(weights.shape[1])
                of_heads = _entropy(heads).mean(axis=0)
                rows.append(np.stack([entropies, shares, weights.max(axis=-1), of_heads]))
    entropy, share, largest, head_entropy = np.concatenate(rows, axis=1).mean(axis=1).tolist()
    return Looks(entropy, share, largest, head_entropy, n_heads)


def _entropy(weights: Float[np.ndarray, "*L S"]) -> Float[np.ndarray, "*L"]:
    """-sum w log w over the last axis, 0 log 0 being 0."""
    logs = np.log(np.where(weights > 0, weights, 1.0))
    entropy: Float[np.ndarray, "*L"] = -(weights * logs).sum(axis=-1)
    return entropy


def difference(
    metric: str,
    baselines: Sequence[Sequence[str]],
    systems: Sequence[Sequence[str]],
    refs: Sequence[tuple[str, ...]],
    tgt_lang: str,
) -> Difference:
    """Compare the runs `systems` with the runs `baselines`; each run is a list of translations.

    Resamples and test are sacreBLEU's, so with one run of each the p-value is the same as
    in `compare`. Raises DataError as `check_lines` does.
    """
    paired, scoring = PAIRED_METRICS[metric], Scoring(tgt_lang, (metric,))
    scorer = paired.scorer(scoring)
    counts = _resample_counts(len(refs))

    def mean_scores(runs: Sequence[Sequence[str]]) -> Float[np.ndarray, " n"]:
        prepared = [paired.sacrebleu_inputs(hyps, refs, scoring) for hyps in runs]
        resamples = [counts @ line_stats(scorer, hyps, streams) for hyps, streams in prepared]
        scores = [[corpus_score(scorer, stats) for stats in rows] for rows in resamples]
        mean: Float[np.ndarray, " n"] = np.mean(scores, axis=0)
        return mean

    observed, *resampled = mean_scores(systems) - mean_scores(baselines)
    low, high = map(float, np.percentile(resampled, [2.5, 97.5]))
    deviations = np.abs(resampled) - np.abs(resampled).mean()
    p_value = float((deviations > abs(observed)).sum() + 1) / (DEFAULT_BOOTSTRAP + 1)
    return Difference(float(observed), low, high, 1.0 if observed == 0 else p_value)


def _resample_counts(n_lines: int) -> Int[np.ndarray, "n L"]:
    """Return how often each line occurs in the corpus (row 0) and in each of n - 1 resamples."""
    resamples = sacrebleu_generator().choice(
        n_lines, size=(DEFAULT_BOOTSTRAP, n_lines), replace=True
    )
    counts = [np.bincount(row, minlength=n_lines) for row in resamples]
    return np.stack([np.ones(n_lines, dtype=np.int64), *counts])


def results_of(
    measured: Mapping[str, Mapping[int, Measured]],
    examples: Sequence[EvalExample],
    baseline: str,
    tgt_lang: str,
) -> list[Result]:
    """A result for each kind, the baseline first, then by BLEU, the best first.

    `measured` has the runs of each kind by seed; a kind that shares no seed with the baseline is
    compared to all runs of it.
    """
    results, base = [], measured[baseline]
    ref_texts = [example.ref_texts for example in examples]
    for name, runs in measured.items():
        shared = [seed for seed in runs if seed in base]
        old, new = ([side[seed].hyp_texts for seed in shared or side] for side in (base, runs))
        against = None if name == baseline else difference("bleu", old, new, ref_texts, tgt_lang)
        results.append(_result(name, runs, examples, against))
    return sorted(results, key=lambda result: (result.name != baseline, -result.bleu))


def kept_results(out: Path) -> list[Result]:
    """The results in `out`/family.json. Raises DataError where it is missing."""
    path = out / "family.json"
    if not path.is_file():
        raise DataError(f"{path} is missing; compare all kinds first")
    kinds = json.loads(path.read_text(encoding="utf-8"))["kinds"]
    return TypeAdapter(list[Result]).validate_python(list(kinds.values()))


def _result(
    name: str,
    runs: Mapping[int, Measured],
    examples: Sequence[EvalExample],
    against: Difference | None,
) -> Result:
    some, *_ = runs.values()
    means = {
        key: statistics.mean(getattr(run.looks, key) for run in runs.values())
        for key in ("entropy", "share", "largest", "head_entropy")
    }
    n_words = sum(len(example.ref_texts[0].split()) for example in examples)
    lengths = [sum(len(text.split()) for text in run.hyp_texts) for run in runs.values()]
    by_length = [bleu_by_length(run.hyp_texts, examples, EDGES) for run in runs.values()]
    return Result(
        name=name,
        n_parameters=some.n_parameters,
        bleus={seed: run.bleu for seed, run in runs.items()},
        signature=some.signature,
        length=statistics.mean(lengths) / n_words,
        loss=statistics.mean(run.loss for run in runs.values()),
        looks=replace(some.looks, **means),
        by_length=tuple(
            replace(same[0], bleu=statistics.mean(bucket.bleu for bucket in same))
            for same in zip(*by_length, strict=True)
        ),
        difference=against,
    )
