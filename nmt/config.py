"""Everything a run's YAML may say: one frozen class per section, defaults written once.

A section that belongs to another file (data, tokenizer, model, search, optimizer, schedule) is
that file's own class; what stands here is the run itself, training and validation, and the
checks that need two sections.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from nmt.data.sources import DataConfig
from nmt.decoding.search import SearchConfig
from nmt.device import Precision
from nmt.errors import ConfigError
from nmt.models.catalog import ModelConfig
from nmt.models.recurrent.rnn import RNNConfig
from nmt.optim.optimizers import MAX_LR, AdamConfig, ConstantConfig, OptimizerConfig, ScheduleConfig
from nmt.settings.base import Config, Conflict
from nmt.settings.config_file import Override, dump_tree, load_tree, load_values
from nmt.settings.conflicts import agree
from nmt.text.sentencepiece_tokenizer import DEFAULT_SIZE, SentencePieceConfig
from nmt.text.tokenizer import TokenizerConfig
from nmt.text.vocabulary import RESERVED
from nmt.types import FilePath


class TrainConfig(Config):
    """How long, how fast and with what the model learns. One of epochs, steps and max_minutes
    must be given; whichever is reached first ends the training.
    """

    epochs: int | None = Field(default=None, gt=0, description="passes over the training set")
    steps: int | None = Field(default=None, gt=0, description="updates of the weights")
    max_minutes: float | None = Field(
        default=None, gt=0, description="minutes of training, over all resumptions together"
    )
    batch_by: Literal["sentences", "tokens"] = Field(
        default="sentences", description="what `batch_size` counts"
    )
    batch_size: int = Field(
        default=64,
        gt=0,
        description="sentence pairs, or at most so many pieces of the longer side with padding, in "
        "a batch",
    )
    accumulate: int = Field(
        default=1, gt=0, description="batches whose gradients make one update (exact in tokens)"
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
    clip_norm: float | None = Field(
        default=1.0, gt=0, description="largest norm of the gradient of an update; null: any"
    )
    label_smoothing: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="probability spread evenly over all pieces in the training target",
    )
    precision: Precision = Field(
        default="fp32", description="number format of the forward pass (weights stay fp32)"
    )
    device: str = Field(
        default="auto",
        description="auto, cpu, cuda, cuda:N or mps; auto takes CUDA, then MPS, then the CPU",
    )
    log_every: int = Field(default=50, gt=0, description="updates between lines of metrics.jsonl")
    save_every: int | None = Field(
        default=None,
        gt=0,
        description="updates between checkpoints, besides those that follow a validation; null: "
        "only those",
    )
    deterministic: bool = Field(
        default=False,
        description="only operations that give the same bits every time, and an error where there "
        "is none (docs/reliability.md)",
    )
    keep_last: int = Field(
        default=2, gt=0, description="newest checkpoints kept, besides the best one"
    )
    tensorboard: bool = Field(
        default=False, description="write TensorBoard events too (pip install 'nmt[tensorboard]')"
    )

    @field_validator("device")
    @classmethod
    def _device_is_a_name(cls, name: str) -> str:
        kind, _, index = name.partition(":")
        if (kind == "cuda" and index.isdecimal()) or name in ("auto", "cpu", "cuda", "mps"):
            return name
        raise ValueError(f"got '{name}', allowed: auto, cpu, cuda, cuda:N, mps")


BleuTokenisation = Literal["13a", "intl", "char", "none", "zh", "ja-mecab", "ko-mecab"]
"""sacreBLEU's tokenisations, but for those that download a model when they are first used."""


class ValidConfig(Config):
    """How the model is measured while it learns; the best checkpoint is the one of best BLEU."""

    every: int | None = Field(
        default=None, gt=0, description="updates between validations; null: once an epoch"
    )
    beam: int = Field(
        default=1, gt=0, le=10_000, description="beam of the decoding that BLEU scores"
    )
    max_examples: int | None = Field(
        default=None,
        gt=0,
        description="decode only so many sentences for BLEU, evenly spaced; null: all, as for the "
        "loss",
    )
    bleu_tokenize: BleuTokenisation | None = Field(
        default=None,
        description="sacreBLEU's tokenisation for BLEU, here and in `nmt eval`; null: the one for "
        "data.tgt_lang (zh: zh, ja: ja-mecab, ko: ko-mecab, others: 13a)",
    )
    samples: int = Field(default=3, ge=0, description="translations shown at each validation")
    patience: int | None = Field(
        default=None,
        gt=0,
        description="validations in a row without a better BLEU that end the training; null: never",
    )


class RunConfig(Config):
    """A whole run: what is read, what is built, how it learns, how it translates."""

    name: str = Field(
        pattern=r"^\w[\w.+-]*$", description="the run's name; it is kept in runs/NAME"
    )
    seed: int = Field(
        default=1,
        ge=0,
        lt=2**63,
        description="seed of all chance: initial weights, batch order, dropout, tokenizer",
    )
    data: DataConfig = Field(default=DataConfig(), description="the corpora")
    tokenizer: TokenizerConfig = Field(
        default=SentencePieceConfig(), description="how text becomes pieces"
    )
    model: ModelConfig = Field(default=RNNConfig(), description="the network")
    train: TrainConfig = Field(default=TrainConfig(), description="the training")
    valid: ValidConfig = Field(default=ValidConfig(), description="validation during training")
    search: SearchConfig = Field(
        default=SearchConfig(), description="decoding, for `nmt translate` and `nmt eval`"
    )

    @model_validator(mode="after")
    def _sections_agree(self) -> "RunConfig":
        return agree(
            self,
            _end,
            _cosine,
            _training_set,
            _patience,
            _plateau,
            _longest_pair,
            _search_beam,
            _valid_beam,
            _bytes,
            _joint,
            _positions,
        )


def load_config(path: FilePath, overrides: Sequence[Override] = ()) -> RunConfig:
    """The config in the YAML file `path`, with `overrides` (`a.b=value`, or a Flag) on top.

    A name such as `starter` or `family/dot` means the recipe of that name that comes with nmt.
    Raises ConfigError with every fault found, a line each: file, line, key, what was got and
    what is allowed.
    """
    return load_tree(_recipe(Path(path)), overrides, RunConfig)


def config_of(values: Mapping[str, object]) -> RunConfig:
    """The config of nested dicts that say what a YAML file would; raises ConfigError likewise.

    >>> config_of({"name": "x", "data": {"corpus": "starter"}, "train": {"epochs": 1}}).seed
    1
    """
    return load_values(values, RunConfig, "config")


def _recipe(path: Path) -> Path:
    """`path`, or the recipe that a name without suffix means."""
    known = recipes()
    if path.suffix and not path.exists() and (name := path.with_suffix("").as_posix()) in known:
        raise ConfigError(f"{path}: no such file; the recipe that comes with nmt is '{name}'")
    if path.is_file() or (path.suffix and not path.is_dir()):
        return path
    if path.as_posix() in known:
        return known[path.as_posix()]
    inside = path / "config.yaml"
    if path.is_dir() and (path.suffix or not path.name or inside.is_file()):
        hint = f"; did you mean '{inside}'?" if inside.is_file() else ""
        raise ConfigError(f"{path}: a folder, and a config is a YAML file{hint}")
    below = [name for name in known if path in Path(name).parents and path != Path()]
    names = below or [name for name in known if Path(name).parent == path.parent]
    if not names:
        return path
    problem = "a folder" if path.is_dir() else "no such file"
    near = [] if below else difflib.get_close_matches(path.as_posix().lower(), names, n=1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    raise ConfigError(
        f"{path}: {problem}, and no recipe that comes with nmt{hint}: {', '.join(names)}"
    )


def recipes() -> dict[str, Path]:
    """The recipes by name, such as family/dot: in the wheel, or in a checkout's configs/."""
    installed = Path(__file__).parent / "recipes"
    folder = installed if installed.is_dir() else Path(__file__).parents[1] / "configs"
    found = {f.relative_to(folder).with_suffix("").as_posix(): f for f in folder.rglob("*.yaml")}
    return dict(sorted(found.items(), key=lambda named: ("/" in named[0], named[0])))


def dump_config(config: RunConfig) -> str:
    """YAML of every key, defaults included; `load_config` reads back an equal config."""
    return dump_tree(config)


# The contradictions between sections, each a check of its own: where a key is wrong, those that do
# not read it are still made.


def _end(config: RunConfig) -> Iterator[Conflict]:
    train = config.train
    if train.epochs is None and train.steps is None and train.max_minutes is None:
        yield "train", "says no end: give at least one of epochs, steps, max_minutes"


def _cosine(config: RunConfig) -> Iterator[Conflict]:
    train = config.train
    if train.schedule.kind != "cosine" or train.epochs is not None or train.steps is not None:
        return
    if train.max_minutes is not None:  # without it, there is no end at all
        yield (
            "train.schedule.kind",
            "'cosine' needs a known number of updates: give train.epochs or train.steps",
        )


def _training_set(config: RunConfig) -> Iterator[Conflict]:
    if config.data.corpus is None and config.data.train is None:
        yield "data", "nothing to learn from: give corpus (a named corpus) or train (files)"


_NO_VALIDATION = "needs a validation set: give data.valid or data.corpus"


def _has_validation(config: RunConfig) -> bool:
    return config.data.corpus is not None or config.data.valid is not None


def _patience(config: RunConfig) -> Iterator[Conflict]:
    if config.valid.patience is not None and not _has_validation(config):
        yield "valid.patience", _NO_VALIDATION


def _plateau(config: RunConfig) -> Iterator[Conflict]:
    if config.train.schedule.kind == "plateau" and not _has_validation(config):
        yield "train.schedule.kind", f"'plateau' {_NO_VALIDATION}"


def _longest_pair(config: RunConfig) -> Iterator[Conflict]:
    train, longest = config.train, config.data.max_pieces
    if train.batch_by == "tokens" and train.batch_size <= longest:
        yield (
            "train.batch_size",
            f"got {train.batch_size} tokens, allowed: more than data.max_pieces "
            f"({longest}), or the longest pairs fit in no batch",
        )


def _positions(config: RunConfig) -> Iterator[Conflict]:
    model = config.model
    if model.kind != "transformer" or model.positions.kind != "learned":
        return
    places = model.positions.max_length
    pieces, steps = config.data.max_pieces + 1, config.search.max_length
    if places < max(pieces, steps):
        key = "data.max_pieces" if pieces > steps else "search.max_length"
        yield (
            "model.positions.max_length",
            f"got {places}, allowed: >= {max(pieces, steps)}, for what {key} lets through",
        )


def _vocab_size(tokenizer: TokenizerConfig) -> tuple[str, int | None]:
    """The key that bounds the vocabulary, and its value."""
    if isinstance(tokenizer, SentencePieceConfig):
        return "tokenizer.vocab_size", tokenizer.vocab_size or DEFAULT_SIZE
    return "tokenizer.max_size", tokenizer.max_size


def _search_beam(config: RunConfig) -> Iterator[Conflict]:
    return _beam("search.beam", config.search.beam, config.tokenizer)


def _valid_beam(config: RunConfig) -> Iterator[Conflict]:
    return _beam("valid.beam", config.valid.beam, config.tokenizer)


def _beam(name: str, beam: int, tokenizer: TokenizerConfig) -> Iterator[Conflict]:
    key, size = _vocab_size(tokenizer)
    if size is not None and beam > size:
        yield name, f"got {beam}, allowed: at most the vocabulary's size, {key} ({size})"


_BYTE_PIECES = len(RESERVED) + 256
"""What byte_fallback takes of a vocabulary before any text has a piece."""


def _bytes(config: RunConfig) -> Iterator[Conflict]:
    tokenizer = config.tokenizer
    if not isinstance(tokenizer, SentencePieceConfig) or not tokenizer.byte_fallback:
        return
    key, size = _vocab_size(tokenizer)
    if size is not None and size <= _BYTE_PIECES:
        yield key, f"got {size}, allowed: > {_BYTE_PIECES} where tokenizer.byte_fallback is true"


def _joint(config: RunConfig) -> Iterator[Conflict]:
    if config.model.tie_embeddings == "all" and not config.tokenizer.joint:
        yield (
            "model.tie_embeddings",
            "'all' needs one vocabulary for both languages: set tokenizer.joint: true",
        )
