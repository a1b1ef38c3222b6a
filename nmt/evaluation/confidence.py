"""Confidence: the probability that a translation is close to a reference.

A logistic regression reads the log-probabilities and the attention of a hypothesis (Fomicheva et
al. 2020, arXiv 2005.10608). `nmt calibrate` fits it on the validation set and saves it in the run.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float64
from pydantic import Field, ValidationError

from nmt.errors import CheckpointError, DataError
from nmt.evaluation.attention_health import health_of
from nmt.evaluation.metric import Scoring
from nmt.evaluation.metrics import PAIRED_METRICS
from nmt.evaluation.typography import make_comparable
from nmt.runs.directory import CONFIDENCE
from nmt.settings.base import Config
from nmt.settings.messages import first_fault
from nmt.storage.bounded import check_inside, read_json
from nmt.translation.translator import Translator
from nmt.types import Examples, Translation

FOLDS, BINS, MIN_SENTENCES = 10, 10, 20

Features = Float64[np.ndarray, "N F"]
Values = Float64[np.ndarray, " _"]
Labels = Bool[np.ndarray, " N"]
_Number = Annotated[float, Field(ge=-1e12, le=1e12)]


class Calibration(Config):
    """A logistic model of the probability that the chrF2 of a sentence is at least `threshold`.

    `models` lists the SHA-256 of each run's weights, and `settings` has the other settings that
    change the features. Of `sentences` translations, `good` reach the threshold. `ece` is the
    expected calibration error on held-out sentences, and `auc` the area under the ROC curve for a
    chrF2 above the median. `weights` ends with the bias.
    """

    models: tuple[str, ...]
    settings: dict[str, object]
    threshold: _Number
    sentences: int
    good: int
    ece: _Number
    auc: _Number
    weights: Annotated[tuple[_Number, ...], Field(min_length=5, max_length=5)]

    @classmethod
    def read(cls, run: Path, models: Sequence[str]) -> "Calibration":
        """Read a run's calibration, or raise CheckpointError unless it is valid for `models`."""
        path = run / CONFIDENCE
        check_inside(path, run, CheckpointError)
        try:
            calibration = cls.model_validate(read_json(path, CheckpointError))
        except FileNotFoundError:
            raise CheckpointError(f"{path}: no such file; `nmt calibrate` writes it") from None
        except ValidationError as error:
            raise CheckpointError(f"{path}: damaged: {first_fault(error)}") from None
        if calibration.models != tuple(models):
            raise CheckpointError(f"{path}: of a different checkpoint or ensemble; calibrate again")
        return calibration

    def rows(self) -> list[tuple[str, str]]:
        """Return the meaning and the errors of the confidence as rows of a table."""
        return [
            ("confidence", f"probability of chrF2 >= {self.threshold:g} against a reference"),
            ("translations that reach it", f"{self.good:,} of {self.sentences:,} (validation set)"),
            (f"expected calibration error, {FOLDS} folds, {BINS} equal bins", f"{self.ece:.3f}"),
            ("AUC for chrF2 above its median", f"{self.auc:.3f}"),
        ]

    def confidence(self, translation: Translation) -> list[float]:
        return [*map(float, probabilities(features(translation), np.array(self.weights)))]


def features(translation: Translation) -> Features:
    """Return four features of each hypothesis.

    They are the negative square root of the mean negative log-probability, the mean probability of
    a piece, and the entropy and coverage of AttentionHealth, but including the row of eos.
    """
    rows = []
    for hypothesis in (output.hypothesis for output in translation.hypotheses):
        log_probs, health = np.array(hypothesis.log_probs), health_of(hypothesis.attention)
        root = math.sqrt(max(0.0, -log_probs.mean()))  # rounding may make the mean positive
        rows.append((-root, np.exp(log_probs).mean(), health.entropy, health.coverage))
    return np.array(rows, float).reshape(-1, 4)


def probabilities(x: Features, weights: Values) -> Values:
    """Return 1 / (1 + exp(-(x w + b))), without overflow."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * (x @ weights[:-1] + weights[-1])))


def read_calibration(
    translator: Translator, say: Callable[[str], None] = lambda note: None
) -> Calibration:
    """Read a translator's calibration (Calibration.read). `say` gets a note if settings changed."""
    if not translator.runs:
        raise CheckpointError("confidence: got a translator without a run, allowed: one with a run")
    run, (models, settings) = translator.runs[0], models_and_settings(translator)
    if not (run.path / CONFIDENCE).exists():
        run.check_folder(f"has no calibration; unzip {run.archive}, and `nmt calibrate` the folder")
    with run.name_in_errors():
        calibration = Calibration.read(run.path, models)
    changes = [key for key, value in settings.items() if calibration.settings.get(key) != value]
    if changes:
        say(f"note: settings changed after calibration: {', '.join(changes)}; calibrate again")
    return calibration


def find_calibration(translator: Translator, say: Callable[[str], None]) -> Calibration | None:
    """Return a translator's calibration, or None. `say` gets a note if the file is unusable."""
    if not translator.runs or not (translator.runs[0].path / CONFIDENCE).exists():
        return None
    try:
        return read_calibration(translator, say)
    except CheckpointError as error:
        say(f"note: no confidence: {error}")
        return None


def models_and_settings(translator: Translator) -> tuple[tuple[str, ...], dict[str, object]]:
    """Return the SHA-256 of each run's weights, and the settings that change the features."""
    folders = [run.directory.checkpoint_folder for run in translator.runs]
    settings = translator.search.model_dump(mode="json", exclude={"batch_size", "n_best"})
    settings |= {key: getattr(translator, key) for key in ("weights", "int8")}
    settings["rerank"] = [
        [*models_and_settings(r.translator)[0], r.weight] for r in translator.rerankers
    ]
    return tuple(folder.checksum(translator.checkpoint) for folder in folders), settings


def calibrate(translator: Translator, examples: Examples, threshold: float) -> Calibration:
    """Fit the confidence to translations of `examples`, and measure it on held-out folds.

    Sources without pieces are left out. Raises DataError unless MIN_SENTENCES translations reach
    the threshold and as many miss it.
    """
    models, settings = models_and_settings(translator)
    scoring = Scoring(translator.languages[1], ("chrf",), n_bootstrap=0)
    translations = translator.translate([example.src_text for example in examples])
    x = np.concatenate([features(translation)[:1] for translation in translations])
    texts = make_comparable([t.text for t in translations], examples, scoring)
    score = PAIRED_METRICS["chrf"].scorer(scoring).sentence_score
    lines = zip(translations, texts.hyp_texts, texts.refs, strict=True)
    scores = np.array([score(hyp, refs).score for t, hyp, refs in lines if t.hypotheses])
    y, n_good = scores >= threshold, int((scores >= threshold).sum())
    if not MIN_SENTENCES <= n_good <= len(y) - MIN_SENTENCES:
        raise DataError(
            f"chrF2 >= {threshold:g}: got {n_good:,} of {len(y):,} translations, allowed: at least "
            f"{MIN_SENTENCES} and as many below; use a different threshold or more sentences"
        )
    confidence = held_out_probabilities(x, y)
    is_better = scores > min(np.median(scores), np.nextafter(scores.max(), 0))
    return Calibration(
        models=models,
        settings=settings,
        threshold=threshold,
        sentences=len(y),
        good=n_good,
        ece=calibration_error(confidence, y),
        auc=area_under_curve(confidence, is_better),
        weights=tuple(fit(x, y)),
    )


def fit(x: Features, y: Labels) -> Values:
    """Return the weights and the bias of a ridge logistic regression on standardised features.

    Each update decreases the loss, because `bound` bounds the Hessian (Böhning and Lindsay 1988).
    """
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    scale = np.where(deviation > 1e-9, deviation, 1.0)  # a constant feature gets the weight 0
    z = np.column_stack([(x - mean) / scale, np.ones(len(x))])
    penalty = np.array([1.0] * x.shape[1] + [0.0])
    bound, beta = z.T @ z / 4 + np.diag(penalty), np.zeros(len(penalty))
    for _ in range(1000):
        gradient = z.T @ (probabilities(z[:, :-1], beta) - y) + penalty * beta
        beta -= np.linalg.solve(bound, gradient)
    weights = beta[:-1] / scale
    return np.append(weights, beta[-1] - weights @ mean)


def held_out_probabilities(x: Features, y: Labels) -> Values:
    """Return the probability of each sentence, from a model fitted without its fold."""
    order = np.lexsort((np.random.default_rng(1).random(len(y)), y))  # stratified folds
    results = np.empty(len(y))
    for fold in range(FOLDS):
        test = order[fold::FOLDS]
        results[test] = probabilities(x[test], fit(np.delete(x, test, 0), np.delete(y, test)))
    return results


def calibration_error(confidence: Values, y: Labels) -> float:
    """Return the expected calibration error (arXiv 1706.04599) with BINS bins of equal size."""
    bins = np.array_split((confidence - y)[np.argsort(confidence, kind="stable")], BINS)
    return float(sum(abs(differences.sum()) for differences in bins)) / len(y)


def area_under_curve(values: Values, y: Labels) -> float:
    """Return the share of pairs of a positive and a negative that `values` orders correctly."""
    negatives = np.sort(values[~y])  # a tie counts as half
    below = [np.searchsorted(negatives, values[y], side).mean() for side in ("left", "right")]
    return float(sum(below)) / 2 / len(negatives)
