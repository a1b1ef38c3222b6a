"""Estimate of the time of an epoch on this device, by timing a few updates of a temporary model."""

import time
from collections.abc import Sequence

from nmt.batches.batching import Batch, Batcher, encode_pairs
from nmt.config import RunConfig
from nmt.device import resolve_device
from nmt.errors import DataError
from nmt.models.catalog import build_model
from nmt.text.tokenizer import Tokenizers
from nmt.training.loop import choose_precision
from nmt.training.state import TrainingState
from nmt.training.step import StepSettings, train_step
from nmt.types import SentencePair

_N_UPDATES = 8  # timed after an equal number of warm-up updates, since first calls are slower


def epoch_seconds(
    config: RunConfig, pairs: Sequence[SentencePair], tokenizers: Tokenizers, n_pairs: int
) -> float:
    """Estimate the seconds of an epoch of `n_pairs` sentence pairs, without validation.

    `pairs` is a sample of these pairs. Raises DataError if no pair of it is fit for training.
    """
    device = resolve_device(config.train.device)
    precision, _ = choose_precision(config.train.precision, device)
    train = config.train.model_copy(update={"precision": precision})
    corpus = encode_pairs(pairs, tokenizers, config.data.max_pieces)
    if not len(corpus):
        raise DataError(f"data.train: none of {len(pairs)} pairs is fit for training")
    batcher = Batcher(corpus, train.batch_size, train.batch_by, config.seed)
    batches = spread_batches(batcher, _N_UPDATES)
    sizes = len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)
    model = build_model(config.model, *sizes).to(device).train()
    state = TrainingState.new(model, train, batcher, device)
    settings = StepSettings(precision, train.loss.build(), train.clip_norm, state.scaler)
    for _ in range(2):
        started = time.perf_counter()
        for batch in batches:
            result = train_step(model, state.optimizer, [batch], settings)
        float(result.loss)  # waits for the device
        seconds = time.perf_counter() - started
    return seconds / len(batches) * len(batcher.plan(0)) * n_pairs / len(pairs)


def spread_batches(batcher: Batcher, n_batches: int) -> tuple[Batch, ...]:
    """Return at most `n_batches` batches of the first epoch, evenly spread over their sizes.

    Sizes are in pieces. If there are full batches, with `batcher.size` pairs, only those are used.
    """
    corpus = batcher.corpus

    def n_pieces(rows: list[int]) -> int:
        return sum(len(corpus.src_ids[row]) + len(corpus.tgt_ids[row]) for row in rows)

    plan = batcher.plan(0)[:]
    batches = sorted((rows for rows in plan if len(rows) == batcher.size), key=n_pieces) or plan
    n = min(n_batches, len(batches))
    return tuple(corpus.batch(batches[(2 * i + 1) * len(batches) // (2 * n)]) for i in range(n))
