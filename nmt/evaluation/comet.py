"""COMET (Rei et al. 2020, arXiv 2009.09025), a neural metric from the package unbabel-comet.

unbabel-comet reads the user's checkpoint with pickle, which may run code.
"""

import functools
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import ConfigError, DataError, pip_install
from nmt.evaluation.metric import SEED, Metric, MetricResult, Scoring, check_lines, mean_interval
from nmt.types import Examples

_BATCH_SIZE = 16


class Comet(Metric):
    """100 times the mean sentence score of the COMET model `Scoring.comet`.

    The score of a sentence with several references is the mean over the references. The interval
    is the percentile bootstrap over sentences.
    """

    title = "COMET"

    def check(self, scoring: Scoring, where: str) -> None:
        _checkpoint(scoring)
        if find_spec("comet") is None:
            extra = pip_install("comet")
            raise ConfigError(f"`comet`: the package unbabel-comet is missing: {extra}")

    def load(self, scoring: Scoring) -> None:
        self.check(scoring, "")
        _load(_checkpoint(scoring))

    def score(self, hyps: Sequence[str], examples: Examples, scoring: Scoring) -> MetricResult:
        check_lines(hyps, [example.ref_texts for example in examples])
        if not all(example.src_text for example in examples):
            raise ConfigError("`comet` needs the source of each sentence; give `src`")
        checkpoint, gpu, n_bootstrap = _checkpoint(scoring), scoring.gpu, scoring.n_bootstrap
        lines, samples = [], []
        for line, (hyp, example) in enumerate(zip(hyps, examples, strict=True)):
            for ref in example.ref_texts:
                lines.append(line)
                samples.append({"src": example.src_text, "mt": hyp, "ref": ref})
        prediction = _load(checkpoint).predict(
            samples,
            batch_size=_BATCH_SIZE,
            gpus=0 if gpu is None else 1,
            devices=None if gpu is None else [gpu],
            progress_bar=False,
        )
        totals = np.bincount(lines, weights=np.asarray(prediction["scores"], dtype=np.float64))
        scores = 100 * totals / np.bincount(lines)
        low, high = mean_interval(scores, n_bootstrap) if n_bootstrap else (None, None)
        signature = _signature(checkpoint, n_bootstrap)
        return MetricResult(self.title, float(scores.mean()), signature, low, high, n_bootstrap)


def _checkpoint(scoring: Scoring) -> Path:
    """Return the path of the COMET checkpoint, model.ckpt. Raises ConfigError if there is none."""
    path = scoring.comet
    if path is None or not path.is_file():
        got = "none" if path is None else f"{path}: no such file"
        raise ConfigError(f"`comet`: got {got}; allowed: a checkpoint, model.ckpt")
    return path


@functools.lru_cache(maxsize=1)
def _load(checkpoint: Path) -> Any:
    """Load a model and cache it. Raises DataError if the file is not a COMET checkpoint."""
    from comet import load_from_checkpoint

    try:
        return load_from_checkpoint(str(checkpoint))
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).split("\n", maxsplit=1)[0]
        raise DataError(f"`comet`: {checkpoint}: cannot be read: {reason}") from error


def _signature(checkpoint: Path, n_bootstrap: int) -> str:
    """Return the settings; FOLDER/checkpoints/model.ckpt has the name FOLDER/model.ckpt in them."""
    folder = checkpoint.absolute().parent
    folder = folder.parent if folder.name == "checkpoints" else folder
    try:
        package = version("unbabel-comet")
    except PackageNotFoundError:
        package = "unknown"
    settings = f"times:100|bs:{n_bootstrap}|seed:{SEED}|version:{package}"
    return f"model:{folder.name}/{checkpoint.name}|{settings}"
