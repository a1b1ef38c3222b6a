"""COMET (Rei et al. 2020, 2009.09025): a neural metric, by its own package and a given checkpoint.

The package is unbabel-comet. It reads a checkpoint with pickle, which may run code.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import ConfigError, DataError, pip_install
from nmt.evaluation.metrics import DEFAULT_BOOTSTRAP, MetricResult
from nmt.types import EvalExample

_BATCH_SIZE = 16
_SEED = 12345  # sacreBLEU's


def load_comet(checkpoint: Path) -> Any:
    """The model of a checkpoint, such as `checkpoints/model.ckpt` of a downloaded COMET model.

    Raises ConfigError where the file or the package is missing, and DataError where the package
    cannot read it.
    """
    if not checkpoint.is_file():
        raise ConfigError(f"`comet`: {checkpoint}: no such file; it is a checkpoint, model.ckpt")
    load = _package()
    try:
        return load(str(checkpoint))
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).split("\n", maxsplit=1)[0]
        raise DataError(f"`comet`: {checkpoint}: cannot be read: {reason}") from error


def comet_name(checkpoint: Path) -> str:
    """The name of a model, of which FOLDER/checkpoints/model.ckpt has that of the folder."""
    folder = checkpoint.absolute().parent
    named = folder.parent if folder.name == "checkpoints" else folder
    return f"{named.name}/{checkpoint.name}"


def comet_score(
    model: Any,
    name: str,
    hyps: Sequence[str],
    examples: Sequence[EvalExample],
    n_bootstrap: int = DEFAULT_BOOTSTRAP,
    gpu: int | None = None,
) -> MetricResult:
    """100 times the mean over sentences of `model`'s scores of `hyps`.

    The score of a sentence with several references is the mean over these. The interval is the
    percentile bootstrap over sentences. `name` stands for the model in the signature. `gpu` is the
    index of the GPU that computes, None for the CPU. Raises ConfigError where a source is not
    known.
    """
    if not all(example.src_text for example in examples):
        raise ConfigError("`comet`: it reads the source of each sentence: give `src`")
    rows = [
        (line, {"src": example.src_text, "mt": hyp, "ref": ref})
        for line, (hyp, example) in enumerate(zip(hyps, examples, strict=True))
        for ref in example.ref_texts
    ]
    found = model.predict(
        [row for _, row in rows],
        batch_size=_BATCH_SIZE,
        gpus=0 if gpu is None else 1,
        devices=None if gpu is None else [gpu],
        progress_bar=False,
    )
    lines = [line for line, _ in rows]
    totals = np.bincount(lines, weights=np.asarray(found["scores"], dtype=np.float64))
    scores = 100 * totals / np.bincount(lines)
    low = high = None
    if n_bootstrap > 1:
        low, high = _interval(scores, n_bootstrap)
    signature = f"model:{name}|times:100|bs:{n_bootstrap}|seed:{_SEED}|version:{_version()}"
    return MetricResult(
        "COMET", float(scores.mean()), signature, low, high, n_bootstrap if n_bootstrap > 1 else 0
    )


def _interval(scores: np.ndarray, n_bootstrap: int) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile of the means of resamples of `scores`."""
    rng = np.random.default_rng(_SEED)
    means = [rng.choice(scores, len(scores)).mean() for _ in range(n_bootstrap)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def _package() -> Callable[[str], Any]:
    try:
        from comet import load_from_checkpoint
    except ImportError:
        raise ConfigError(
            f"`comet`: the package unbabel-comet is missing: {pip_install('comet')}"
        ) from None
    return load_from_checkpoint  # type: ignore[no-any-return]


def _version() -> str:
    try:
        return version("unbabel-comet")
    except PackageNotFoundError:
        return "unknown"
