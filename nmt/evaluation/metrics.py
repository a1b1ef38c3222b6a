"""All metrics by name. A new metric needs a class, an entry here, and its name in nmt.types."""

from collections.abc import Sequence

from nmt.config import RunConfig
from nmt.corpora.corpora import resolve_split
from nmt.evaluation.comet import Comet
from nmt.evaluation.metric import Metric, Scoring
from nmt.evaluation.sacrebleu_metrics import Multi30kBleu, SacreBleuMetric
from nmt.types import EvalExample, References

PAIRED_METRICS: dict[str, SacreBleuMetric] = {
    "bleu": SacreBleuMetric("BLEU", "BLEU"),
    "bleu-lc": SacreBleuMetric("BLEU-lc", "BLEU", {"lowercase": True}),
    "chrf": SacreBleuMetric("chrF2", "CHRF"),
    "chrf++": SacreBleuMetric("chrF2++", "CHRF", {"word_order": 2}),
    "ter": SacreBleuMetric("TER", "TER", highest=None),
    # force suppresses the warning that the text looks tokenised, as it must be.
    "multi30k": Multi30kBleu("BLEU-lc-norm-tok", "BLEU", {"tokenize": "none", "force": True}),
}
"""Metrics with paired significance tests, which need sacreBLEU's statistics per line."""

METRICS: dict[str, Metric] = {**PAIRED_METRICS, "comet": Comet()}


def title_of(metric: str) -> str:
    """Return the printed name of a metric, or "validation loss" for `loss`."""
    return "validation loss" if metric == "loss" else METRICS[metric].title


def corpus_bleu(hyps: Sequence[str], refs: References, tokenize: str | None = None) -> float:
    """Return sacreBLEU's cased BLEU, from 0 to 100. Raises as Metric.score does."""
    examples = [EvalExample("", line_refs) for line_refs in refs]
    return PAIRED_METRICS["bleu"].score(hyps, examples, Scoring("", ("bleu",), 0, tokenize)).score


def check_metrics(scoring: Scoring, where: str) -> None:
    """Raise ConfigError, naming the key `where`, if a metric of `scoring` cannot be computed."""
    for name in scoring.metrics:
        METRICS[name].check(scoring, where)


def validation_scoring(config: RunConfig) -> Scoring:
    """Return settings that score the validation set, without intervals.

    The metrics are BLEU and those that choose the best checkpoint and the learning rate.
    """
    valid = config.valid
    names = "bleu", valid.metric, getattr(config.train.schedule, "metric", "loss")
    metrics = tuple(dict.fromkeys(name for name in names if name != "loss"))
    return Scoring(config.data.tgt_lang, metrics, 0, valid.bleu_tokenize, comet=valid.comet)


def check_scoring(config: RunConfig) -> None:
    """Raise ConfigError if a validation metric of `config` cannot be computed."""
    if resolve_split(config.data, "valid") is not None:
        check_metrics(validation_scoring(config), "valid.bleu_tokenize")
