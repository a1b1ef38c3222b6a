"""The config of a run: one frozen class per section, with each default written once.

The sections for data, tokenizer, model, search, optimizer and schedule are defined in their
packages. This file defines the run, training and validation, and the checks between sections.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Literal

from pydantic import Field

from nmt.corpora.sources import DataConfig, StageConfig
from nmt.device import Precision
from nmt.models.catalog import ModelConfig
from nmt.models.recurrent.rnn import RNNConfig
from nmt.optim.losses import CrossEntropyConfig, GuidedAlignmentConfig, LossConfig
from nmt.optim.optimizers import MAX_LR, AdamConfig, EMAConfig, OptimizerConfig
from nmt.optim.schedules import ConstantConfig, ScheduleConfig
from nmt.search.search_config import SearchConfig
from nmt.settings.base import Config, Conflict, UserPath
from nmt.settings.config_file import Overrides, load_file, load_values
from nmt.settings.recipes import config_path
from nmt.settings.yaml_text import dump_config as dump_config
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import TokenizerConfig
from nmt.types import FilePath, MetricName


class TrainConfig(Config):
    """Length, speed and method of the training.

    At least one of epochs, steps and max_minutes is required. Training ends at the first limit.
    """

    init_from: str | None = Field(
        default=None,
        description="run whose weights and tokenizers the training starts from, as RUN or "
        "RUN@CHECKPOINT (default: best); weights whose shapes do not fit are reported and "
        "initialised at random; null: all weights are initialised at random",
    )
    freeze: tuple[str, ...] = Field(
        default=(),
        description="names of the weights that are not updated, with * for any characters, such "
        "as `encoder.*`",
    )
    epochs: int | None = Field(default=None, gt=0, description="passes over the training set")
    steps: int | None = Field(default=None, gt=0, description="updates of the weights")
    max_minutes: float | None = Field(
        default=None, gt=0, description="minutes of training, all resumptions included"
    )
    batch_by: Literal["sentences", "tokens"] = Field(
        default="sentences", description="what `batch_size` counts"
    )
    batch_size: int = Field(
        default=64,
        gt=0,
        description="sentence pairs per batch, or with `batch_by: tokens` the maximum number of "
        "pieces on the longer side of a batch, padding included",
    )
    accumulate: int = Field(
        default=1, gt=0, description="batches per update; their target tokens have equal weight"
    )
    lr: float = Field(
        default=1e-3, gt=0, le=MAX_LR, description="learning rate, before the schedule"
    )
    optimizer: OptimizerConfig = Field(
        default=AdamConfig(), description="the rule that updates the weights"
    )
    schedule: ScheduleConfig = Field(
        default=ConstantConfig(), description="how the learning rate changes over the updates"
    )
    ema: EMAConfig | None = Field(
        default=None,
        description="moving average of the weights, which replaces them in validation and "
        "translation; null: none",
    )
    clip_norm: float | None = Field(
        default=1.0, gt=0, description="maximum gradient norm per update; null: no clipping"
    )
    loss: LossConfig = Field(default=CrossEntropyConfig(), description="the training loss")
    precision: Precision | Literal["auto"] = Field(
        default="fp32",
        description="number format of the forward pass (weights stay fp32); auto: bf16 if the "
        "device has fast bf16 units, else fp32, never fp16; a resumed run keeps its precision",
    )
    device: str = Field(
        default="auto",
        pattern="^(auto|cpu|cuda|cuda:[0-9]+|mps)$",
        description="auto, cpu, cuda, cuda:N or mps; auto prefers CUDA, then MPS, then the CPU",
    )
    log_every: int = Field(default=50, gt=0, description="updates between lines of metrics.jsonl")
    save_every: int | None = Field(
        default=None,
        gt=0,
        description="updates between additional checkpoints; null: a checkpoint is saved only "
        "after each validation",
    )
    deterministic: bool = Field(
        default=False,
        description="use only deterministic operations, and stop with an error if an operation has "
        "no deterministic version (docs/reliability.md)",
    )
    keep_last: int = Field(
        default=2, gt=0, description="number of latest checkpoints kept, besides the best ones"
    )
    keep_best: int = Field(
        default=1, gt=0, description="number of best checkpoints kept, ranked by valid.metric"
    )

    @property
    def guided(self) -> GuidedAlignmentConfig | None:
        """The config of the guided alignment loss, or None if `loss` is another loss."""
        return self.loss if isinstance(self.loss, GuidedAlignmentConfig) else None


BleuTokenisation = Literal["13a", "intl", "char", "none", "zh", "ja-mecab", "ko-mecab"]
"""sacreBLEU's tokenisations, except those that download a model on first use."""


class ValidConfig(Config):
    """Validation during training. `metric` selects the best checkpoint."""

    metric: MetricName = Field(
        default="bleu",
        description="metric that selects the best checkpoint: the loss, or a metric of `nmt eval`; "
        "between checkpoints with equal scores, the lower loss decides",
    )
    comet: UserPath | None = Field(
        default=None, description="checkpoint of the COMET model; required for metric `comet`"
    )
    every: int | None = Field(
        default=None, gt=0, description="updates between validations; null: once an epoch"
    )
    beam: int = Field(default=1, gt=0, le=10_000, description="beam size in validation")
    max_examples: int | None = Field(
        default=None,
        gt=0,
        description="maximum number of sentences to translate, evenly spaced over the validation "
        "set; null: all; the loss always uses all",
    )
    bleu_tokenize: BleuTokenisation | None = Field(
        default=None,
        description="sacreBLEU tokenisation for BLEU, here and in `nmt eval`; null: the one "
        "for data.tgt_lang (zh: zh, ja: ja-mecab, ko: ko-mecab, others: 13a)",
    )
    samples: int = Field(default=3, ge=0, description="translations shown at each validation")
    attention_health: bool = Field(
        default=True,
        description="measure the attention of the scored translations (entropy, coverage, weight "
        "on </s>, diagonality), and warn if the attention has collapsed (docs/alignment.md)",
    )
    patience: int | None = Field(
        default=None,
        gt=0,
        description="number of consecutive validations without a new best checkpoint after which "
        "training ends; null: no early stopping",
    )


class RunConfig(Config):
    """The config of a run: corpora, tokenizer, model, training, validation and search."""

    name: str = Field(
        pattern=r"^\w[\w.+-]*$", description="the run's name; the run is stored in runs/NAME"
    )
    seed: int = Field(
        default=1,
        ge=0,
        lt=2**63,
        description="random seed for initial weights, batch order, dropout and tokenizer",
    )
    data: DataConfig = Field(default=DataConfig(), description="the corpora")
    tokenizer: TokenizerConfig = Field(
        default=SentencePieceConfig(), description="how text is split into pieces"
    )
    model: ModelConfig = Field(default=RNNConfig(), description="the network")
    train: TrainConfig = Field(default=TrainConfig(), description="the training")
    valid: ValidConfig = Field(default=ValidConfig(), description="validation during training")
    search: SearchConfig = Field(
        default=SearchConfig(), description="decoding, for `nmt translate` and `nmt eval`"
    )

    def _conflicts(self) -> Iterator[Conflict]:
        checks = (_training_end, _data, _stages, _tokenizer, _resampling, _guided_alignment, _model)
        return chain.from_iterable(check(self) for check in checks)

    @property
    def min_batch_size(self) -> int:
        """The smallest `train.batch_size`: one sentence, or the tokens of the longest pair."""
        return 1 if self.train.batch_by == "sentences" else self.data.max_pieces + 1


def load_config(path: FilePath, overrides: Overrides = ()) -> RunConfig:
    """Load a config from the YAML file `path`, and apply `overrides` such as `train.lr=3e-4`.

    `path` may also be the name of a recipe that comes with nmt, such as `starter` or `family/dot`.
    Raises ConfigError with one line for each fault: file, line, key, value and allowed values.
    Contradictions between sections are reported only if each section is valid.
    """
    return load_file(config_path(Path(path)), overrides, RunConfig)


def config_of(values: Mapping[str, object]) -> RunConfig:
    """Build a config from nested dicts, structured as a YAML file. Raises as `load_config` does.

    >>> config_of({"name": "x", "data": {"corpus": "starter"}, "train": {"epochs": 1}}).seed
    1
    """
    return load_values(values, RunConfig, "config")


def _training_end(config: RunConfig) -> Iterator[Conflict]:
    train = config.train
    if train.epochs is not None or train.steps is not None:
        return
    if train.max_minutes is None:
        yield "train", "no end: give at least one of epochs, steps, max_minutes"
    elif train.schedule.kind == "cosine":
        problem = "'cosine' requires a known number of updates: give train.epochs or train.steps"
        yield "train.schedule.kind", problem


def _data(config: RunConfig) -> Iterator[Conflict]:
    data, train = config.data, config.train
    if train.batch_size < config.min_batch_size:
        allowed = f"more than data.max_pieces ({data.max_pieces}), to fit the longest pair"
        yield "train.batch_size", f"got {train.batch_size} tokens, allowed: {allowed}"
    if data.corpus is not None or data.train is None:
        return
    if data.valid is None and not (data.held_out and data.held_out.valid):
        requires = "requires a validation set: give data.valid, data.held_out or data.corpus"
        if config.valid.patience is not None:
            yield "valid.patience", requires
        if train.schedule.kind == "plateau":
            yield "train.schedule.kind", f"'plateau' {requires}"


def _stages(config: RunConfig) -> Iterator[Conflict]:
    data, train = config.data, config.train
    if data.stages and train.epochs is not None:
        problem = "cannot be set with data.stages, which cut epochs short: give train.steps instead"
        yield "train.epochs", problem
    for number, stage in enumerate(data.stages):
        if data.in_stage(number + 1) == data.in_stage(number):
            problem = "changes nothing: give weights, noise or sampling that differ from before"
            yield f"data.stages.{number}", problem
        if train.steps is not None and stage.from_step >= train.steps:
            problem = f"got {stage.from_step}, allowed: less than train.steps ({train.steps})"
            yield f"data.stages.{number}.from_step", problem


def _tokenizer(config: RunConfig) -> Iterator[Conflict]:
    yield from ((f"tokenizer.{key}", problem) for key, problem in config.tokenizer.conflicts())
    if config.tokenizer.size_limit is None:
        return
    key, size = config.tokenizer.size_limit
    for section, beam in (("search", config.search.beam), ("valid", config.valid.beam)):
        if beam > size:
            allowed = f"at most the vocabulary's size, tokenizer.{key} ({size})"
            yield f"{section}.beam", f"got {beam}, allowed: {allowed}"


def _resampling(config: RunConfig) -> Iterator[Conflict]:
    data, tokenizer = config.data, config.tokenizer
    got = f"such as 'sentencepiece': got tokenizer.kind '{tokenizer.kind}'"
    parts: dict[str, DataConfig | StageConfig] = {"data": data}
    parts |= {f"data.stages.{number}": stage for number, stage in enumerate(data.stages)}
    for key, part in parts.items():
        if part.noise and part.noise.is_on and not tokenizer.is_lossless:
            yield f"{key}.noise", f"requires a lossless tokenizer, {got}"
        if part.sampling and part.sampling.is_on and not tokenizer.can_sample:
            yield f"{key}.sampling", f"requires a tokenizer that can sample, {got}"


def _guided_alignment(config: RunConfig) -> Iterator[Conflict]:
    key, data, model = "train.loss.kind", config.data, config.model
    if config.train.guided is None:
        return
    if data.cache is not None:
        yield key, "'guided_alignment' reads pairs in memory: leave out data.cache"
    if data.noise.is_on or data.sampling.is_on:
        problem = "'guided_alignment' requires unaltered text: leave out data.noise, data.sampling"
        yield key, problem
    if data.stages:
        yield key, "'guided_alignment' requires the same pairs throughout: leave out data.stages"
    if model.kind == "rnn":
        attention = model.attention
        if attention.kind == "none":
            yield key, "'guided_alignment' requires attention: got model.attention.kind 'none'"
        elif attention.weights.kind != "soft":
            problem = "requires differentiable attention weights above 0: use 'soft'"
            got = f"got '{attention.weights.kind}'"
            yield "model.attention.weights.kind", f"{got}; guided_alignment {problem}"


def _model(config: RunConfig) -> Iterator[Conflict]:
    model = config.model
    if model.tie_embeddings == "all" and not config.tokenizer.joint:
        problem = "'all' requires one vocabulary for both languages: set tokenizer.joint: true"
        yield "model.tie_embeddings", problem
    if model.kind == "transformer" and model.positions.kind == "learned":
        limits = {
            "search.max_length": config.search.max_length,
            "data.max_pieces and </s>": config.data.max_pieces + 1,
        }
        longest, length = max(limits, key=limits.__getitem__), model.positions.max_length
        if length < limits[longest]:
            problem = f"got {length}, allowed: >= {limits[longest]} ({longest})"
            yield "model.positions.max_length", problem
