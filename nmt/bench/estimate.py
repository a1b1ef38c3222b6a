"""The time of an epoch on this device, from some updates of a model that is then thrown away."""

from collections.abc import Sequence
from pathlib import Path

from nmt.bench.material import spread_batches
from nmt.bench.timing import in_turn
from nmt.config import RunConfig
from nmt.data.batching import Batcher, encode_pairs
from nmt.device import resolve_device
from nmt.errors import DataError
from nmt.models.catalog import build_model
from nmt.runs.directory import RunDirectory
from nmt.text.tokenizer import Tokenizers
from nmt.training.precision import choose_precision
from nmt.training.state import TrainingState
from nmt.training.step import StepSettings, train_step
from nmt.types import SentencePair

_N_UPDATES = 8
"""Updates that are timed, after as many that are not: the first of each shape is slower."""


def epoch_seconds(
    config: RunConfig, pairs: Sequence[SentencePair], tokenizers: Tokenizers, n_pairs: int
) -> float:
    """The seconds of an epoch of `n_pairs` by `config`, of whose corpus `pairs` are a sample.

    Validation is not in it. Raises DataError where none of the sample is fit for training.
    """
    device = resolve_device(config.train.device)
    run = RunDirectory(Path(config.name))
    precision, _ = choose_precision(config, run, device, is_begun=False)
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

    def updates() -> None:
        for batch in batches:
            train_step(model, state.optimizer, [batch], settings)

    seconds, _, _ = in_turn({"updates": updates}, 1, device)["updates"].figures()
    return seconds / len(batches) * batcher.plan(0).about * n_pairs / len(pairs)
