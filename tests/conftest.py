"""Shared fixtures: one thread, translations made by hand, and the signals of child processes.

While tests run, the modules of nmt that annotate shapes check them at each call.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from devices import IS_CPU, use_device
from jaxtyping import install_import_hook

# A check of every small function of nmt would double the time of the tests, so modules without
# shapes are left out. This precedes the first import of nmt.
if not os.environ.get("JAXTYPING_DISABLE"):
    root = Path(__file__).parents[1]
    install_import_hook(
        [
            ".".join(path.relative_to(root).with_suffix("").parts)
            for path in sorted((root / "nmt").rglob("*.py"))
            if "from jaxtyping import" in path.read_text(encoding="utf-8")
        ],
        "beartype.beartype",
    )

from nmt.translation.words import row_shares
from nmt.types import (
    LOWER_IS_BETTER,
    Attribution,
    Encoded,
    Hypothesis,
    TranslatedHypothesis,
    Translation,
)

# One thread unless OMP_NUM_THREADS is set: the tests' products are small, and two threads wait for
# each other ten times longer than they work on a busy machine. Child processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

if not IS_CPU:
    use_device()

# A data folder of the person who runs the tests would be searched in place of a test's own.
os.environ.pop("NMT_DATA", None)

# Without a GPU, Triton interprets its kernels; it reads this when it is first imported.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

ON_DEVICE = ("laws", "models", "ops", "optim", "search")
"""Folders whose tests make tensors where they compute. Elsewhere nmt itself moves them there."""

MakeTranslation = Callable[..., Translation]


def encoded_of(words: Sequence[str]) -> Encoded:
    """An Encoded from words whose pieces are parted by `|`, such as `chat|ons`."""
    pieces: list[str] = []
    spans = []
    for word in words:
        start = len(pieces)
        first, *others = word.split("|")
        pieces += [f"▁{first}", *others]
        spans.append((start, len(pieces)))
    ids = tuple(4 + sum(map(ord, piece)) % 4000 for piece in pieces)
    surfaces = tuple(word.replace("|", "") for word in words)
    return Encoded(tuple(pieces), ids, surfaces, tuple(spans))


@pytest.fixture(autouse=True, scope="module")
def default_device(request: pytest.FixtureRequest) -> Iterator[None]:
    """A CPU, as it is for users, where nmt puts tensors on the device."""
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    with contextlib.nullcontext() if IS_CPU or folder in ON_DEVICE else torch.device("cpu"):
        yield


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Draws of a test that do not depend on the tests before it."""
    torch.manual_seed(0)


@pytest.fixture
def kinds() -> Iterator[None]:
    """Forget the kinds that the test registers."""
    from nmt import registry

    keys = [pair for pairs in registry._KEYS.values() for pair in pairs]
    fields = [section.model_fields[key] for section, key in keys]
    annotations = [field.annotation for field in fields]
    names = (registry.METRICS, dict(registry.METRICS)), (LOWER_IS_BETTER, set(LOWER_IS_BETTER))
    yield
    for field, annotation in zip(fields, annotations, strict=True):
        field.annotation = annotation
    for section in registry._SECTIONS:
        section.model_rebuild(force=True)
    for now, before in names:
        now.clear()
        now.update(before)


@pytest.fixture
def make_translation() -> MakeTranslation:
    """A factory of Translations: `source` and each of `targets` are words parted by spaces.

    `weights` is given to the first hypothesis; without it each gets random rows, seeded, that
    are sharp along the diagonal and sum to 1. With `n_heads` each has so many heads of such rows,
    whose mean its weights are, and with `n_self_heads` so many of encoder and decoder. With a
    `method` each has random scores of it, those of the prefix causal, and their shares as weights.
    """

    def make(
        source: str = "the cat|s sleep",
        targets: Sequence[str] = ("les chat|s dorm|ent",),
        weights: np.ndarray | None = None,
        finished: bool = True,
        n_heads: int = 0,
        n_self_heads: int = 0,
        method: str | None = None,
    ) -> Translation:
        src = encoded_of(source.split(" ") if source else [])
        hypotheses = []
        for rank, target in enumerate(targets):
            tgt = encoded_of(target.split(" ") if target else [])
            ids = (*tgt.ids, 3) if finished else tgt.ids
            shape = (len(ids), len(src.pieces) + 1)
            map_weights = (
                weights if weights is not None and rank == 0 else _soft_diagonal(shape, rank)
            )
            heads = None
            if n_heads:
                heads = np.stack([_soft_diagonal(shape, 10 * rank + i) for i in range(n_heads)])
                map_weights = heads.mean(axis=0)
            assert map_weights.shape == shape
            log_probs = tuple(-0.1 * (1 + rank) - 0.01 * i for i in range(len(ids)))
            self_heads = {}
            if n_self_heads:
                sides = {"encoder": len(src.pieces) + 1, "decoder": len(tgt.pieces) + 1}
                self_heads = {
                    name: np.stack([_soft_diagonal((n, n), 7 + i) for i in range(n_self_heads)])
                    for name, n in sides.items()
                }
            attribution = None
            if method is not None:
                random = np.random.default_rng(rank)
                scores = random.normal(size=shape).astype(np.float32)
                prefix = random.normal(size=(len(ids), len(tgt.ids) + 1)).astype(np.float32)
                attribution = Attribution(method, scores, np.tril(prefix), "un")
                map_weights = row_shares(scores)
            hypothesis = Hypothesis(
                *(ids, log_probs, sum(log_probs), map_weights, finished, heads, self_heads),
                attribution,
            )
            text = target.replace("|", "")
            hypotheses.append(TranslatedHypothesis(text, tgt, hypothesis))
        return Translation(source.replace("|", ""), src, tuple(hypotheses))

    return make


def _soft_diagonal(shape: tuple[int, int], seed: int) -> np.ndarray:
    n_target, n_source = shape
    rows = np.arange(n_target)[:, None] * n_source / max(n_target, 1)
    noise = np.random.default_rng(seed).random(shape)
    logits = -np.abs(np.arange(n_source)[None, :] - rows) * 1.5 + noise
    weights = np.exp(logits)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def hangup_heard() -> Iterator[None]:
    """Children hear SIGHUP, which they would ignore where the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
