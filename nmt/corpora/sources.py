"""The config of the corpora of a run: the sources of the sentence pairs of each split."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from nmt.corpora.languages import check_language
from nmt.settings.base import Config, Conflict, UserPath
from nmt.text.noise import NoiseConfig
from nmt.text.subword_sampling import SubwordSamplingConfig
from nmt.types import EvalExample, SentencePair, SplitName


class HeldOutConfig(Config):
    """Sentences of the training set held out for evaluation, with all their translations.

    A checksum of the seed and of a sentence's letters and digits selects the sentences. The
    selection does not depend on the order of the file, and sentences that differ only in
    case or punctuation are selected together.
    """

    valid: int = Field(default=0, ge=0, description="distinct source sentences for validation")
    test: int = Field(default=0, ge=0, description="distinct source sentences for the test")
    seed: int = Field(default=1, ge=0, description="seed of the selection of sentences")


class PairsConfig(Config):
    """The source of the sentence pairs of one corpus, in exactly one of the forms 1 to 4.

    A path may contain shell wildcards (`*`, `?`, `[a-z]`, `**`). The matching files are then read
    one after another, sorted by name.
    """

    corpus: str | None = Field(
        default=None,
        description="form 1: a named corpus (`nmt corpus list`), or `opus:NAME/vVERSION/en-fr`",
    )
    split: str | None = Field(
        default=None,
        description="form 1: the split of the corpus; "
        "null: the split with the same name (train, valid or test)",
    )
    file: UserPath | None = Field(
        default=None,
        description="form 2: a file with both sides. `.tmx`: a translation memory; `.csv` with a "
        "header, `.jsonl`, `.parquet` (pip install 'attention-nmt[parquet]'): a column for each "
        "language, or `source` and `target`; `.po`: messages (pip install 'attention-nmt[files]'); "
        "any other name: lines `source<TAB>target[<TAB>ignored]`, plain, .gz, the only .txt/.tsv "
        "in a .zip, or a member such as `x.zip/inside.tsv`",
    )
    columns: tuple[str, str] | None = Field(
        default=None,
        description="form 2: the names of the source and target columns, with `column.field` for a "
        "field of a column, or two language tags of a .tmx file; null: columns, or fields of "
        "`translation`, named by the language codes, or else `source` and `target`",
    )
    src: UserPath | None = Field(
        default=None, description="form 3: the source text, one sentence per line"
    )
    tgt: UserPath | tuple[UserPath, ...] | None = Field(
        default=None,
        description="form 3: the target text, whose line n translates line n of `src`; "
        "a list of files gives several references (evaluation only)",
    )
    sacrebleu: str | None = Field(
        default=None,
        description="form 4: the name of a test set of sacreBLEU, such as wmt14, in the languages "
        "of the run; sacreBLEU downloads it when it is first read",
    )
    first: int | None = Field(
        default=None,
        ge=1,
        description="number of pairs to read from the start "
        "(in evaluation: of source sentences, each with all its references); null: all",
    )

    @model_validator(mode="after")
    def _exactly_one_form(self) -> "PairsConfig":
        if sum(self._forms().values()) != 1:
            raise ValueError(f"give exactly one of: {', '.join(self._forms())}")
        if (self.src is None) != (self.tgt is None) or self.tgt == ():
            raise ValueError("src requires tgt and tgt requires src")
        if self.split is not None and self.corpus is None:
            raise ValueError("split requires corpus: it names a split of a named corpus")
        if self.columns is not None and self.file is None:
            raise ValueError("columns requires file: it names two columns of a file of both sides")
        return self

    def _forms(self) -> dict[str, bool]:
        """Return the forms by description, True if their keys are set."""
        return {
            "corpus (with split)": self.corpus is not None,
            "file": self.file is not None,
            "src with tgt": self.src is not None,
            "sacrebleu": self.sacrebleu is not None,
        }

    def with_split(self, name: SplitName) -> Self:
        """Return this source, with the split `name` for a named corpus without a split."""
        is_open = self.corpus is not None and self.split is None
        return self.model_copy(update={"split": name}) if is_open else self

    @property
    def corpora(self) -> "tuple[PairsConfig, ...]":
        """The corpora of a mixture, or this corpus alone."""
        return (self,)

    @property
    def tgts(self) -> tuple[Path, ...]:
        return self.tgt if isinstance(self.tgt, tuple) else (self.tgt,) if self.tgt else ()

    @property
    def texts(self) -> list[Path]:
        """The paths of all texts: files, patterns of files, or members of archives."""
        return [path for path in (self.file, self.src, *self.tgts) if path is not None]


class MixedConfig(PairsConfig):
    """One corpus of a mixture (form 5), with its weight."""

    weight: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="share, relative to other weights"
    )


class SplitConfig(PairsConfig):
    """The source of the sentence pairs of one split: a corpus (forms 1 to 4) or a mixture (form 5).

    A path may contain shell wildcards (`*`, `?`, `[a-z]`, `**`). The matching files are then read
    one after another, sorted by name.
    """

    mix: tuple[MixedConfig, ...] | None = Field(
        default=None,
        min_length=1,
        description="form 5 (only data.train): several corpora, each in one of the other forms, "
        "either all with a `weight` or all without; without weights and `temperature`, each pair "
        "occurs once per epoch",
    )
    temperature: float | None = Field(
        default=None,
        ge=1,
        allow_inf_nan=False,
        description="form 5: the share of a corpus of n pairs is proportional to n^(1/temperature)",
    )

    def with_split(self, name: SplitName) -> Self:
        if self.mix is None:
            return super().with_split(name)
        return self.model_copy(update={"mix": tuple(part.with_split(name) for part in self.mix)})

    @property
    def corpora(self) -> tuple[PairsConfig, ...]:
        return self.mix or (self,)

    def held_out_split(self, config: HeldOutConfig, part: SplitName) -> "HeldOutSplit":
        values = {**dict(self), "first": None}
        return HeldOutSplit(**values, config=config, part=part, of_first=self.first)

    def with_weights(self, weights: Sequence[float]) -> Self:
        """Return this mixture with other weights, which may be 0, and without a temperature."""
        parts = zip(self.mix or (), weights, strict=True)
        mix = tuple(part.model_copy(update={"weight": weight}) for part, weight in parts)
        return self.model_copy(update={"mix": mix, "temperature": None})

    @property
    def weights(self) -> list[float] | None:
        """The weights of the corpora of a mixture, or None if it has no weights."""
        return [part.weight for part in self.mix or () if part.weight is not None] or None

    @model_validator(mode="after")
    def _mixture_agrees(self) -> "SplitConfig":
        if self.mix is None:
            if self.temperature is not None:
                raise ValueError("temperature requires mix: it weighs the corpora of a mixture")
            return self
        if self.first is not None:
            raise ValueError("first requires one corpus: set it for each corpus of mix instead")
        if self.weights and len(self.weights) < len(self.mix):
            raise ValueError("mix: give a weight for each corpus, or for none")
        if self.weights and self.temperature is not None:
            raise ValueError("temperature and the weights of mix exclude each other")
        return self

    def _forms(self) -> dict[str, bool]:
        return {**super()._forms(), "mix": self.mix is not None}


class HeldOutSplit(SplitConfig):
    """The split `part` of a training set that `config` divides into train, valid and test.

    Only the first `of_first` pairs of the training set are divided, or all if it is None. Config
    files do not contain this class.
    """

    config: HeldOutConfig
    part: SplitName
    of_first: int | None


class StageConfig(Config):
    """A later stage of the training, with a different mixture, noise or subword sampling.

    A key that is null takes its value from `data`, not from the previous stage. The current epoch
    ends when a stage begins.
    """

    from_step: int = Field(ge=1, description="number of updates before the stage begins")
    weights: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] | None = Field(
        default=None,
        description="share of each corpus of data.train.mix, relative to the others'; "
        "0: the corpus is left out; null: as in data.train",
    )
    noise: NoiseConfig | None = Field(
        default=None, description="replaces data.noise as a whole; null: data.noise"
    )
    sampling: SubwordSamplingConfig | None = Field(
        default=None, description="replaces data.sampling as a whole; null: data.sampling"
    )

    @field_validator("weights")
    @classmethod
    def _one_is_positive(cls, weights: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if weights is not None and not any(weights):
            raise ValueError("give at least one share above 0")
        return weights


class DataConfig(Config):
    """The corpora of a run, and their languages."""

    src_lang: str = Field(default="en", min_length=1, description="source language, ISO 639 code")
    tgt_lang: str = Field(default="fr", min_length=1, description="target language, ISO 639 code")
    corpus: str | None = Field(
        default=None,
        description="named corpus (`nmt corpus list`) of train, valid and test, unless they are "
        "set below",
    )
    train: SplitConfig | None = Field(default=None, description="the training pairs")
    valid: SplitConfig | None = Field(
        default=None, description="the pairs for the choice of the best checkpoint"
    )
    test: SplitConfig | None = Field(default=None, description="the pairs that `nmt eval` scores")
    held_out: HeldOutConfig | None = Field(
        default=None,
        description="validation and test sets held out from train, for splits without a source of "
        "their own; null: none",
    )
    max_pieces: int = Field(
        default=100,
        ge=1,
        description="largest number of pieces on either side of a training pair; longer pairs are "
        "left out and counted, except in evaluation sets",
    )
    vocab_pairs: int = Field(
        default=1_000_000,
        ge=1,
        description="largest number of training pairs, evenly spaced, from which the vocabularies "
        "are learned",
    )
    cache: UserPath | None = Field(
        default=None,
        description="folder for the encoded training set, written once and then read batch by "
        "batch, for corpora larger than memory; null: keep it in memory",
    )
    noise: NoiseConfig = Field(
        default=NoiseConfig(),
        description="random casing, punctuation, typing slips and tokens to copy, in training only",
    )
    sampling: SubwordSamplingConfig = Field(
        default=SubwordSamplingConfig(), description="random pieces of words, in training only"
    )
    stages: tuple[StageConfig, ...] = Field(
        default=(),
        description="later stages of the training, ascending by `from_step`, each with different "
        "`weights`, `noise` or `sampling` (docs/corpora.md)",
    )
    folder: UserPath = Field(
        default=Path("data"),
        description="folder of named corpora; the environment variable NMT_DATA overrides it",
    )
    reverse_target: bool = Field(
        default=False,
        description="train a right-to-left model, which writes each translation from its last "
        "piece to its first; results are shown in reading order (docs/evaluation.md#right-to-left)",
    )

    _are_codes = field_validator("src_lang", "tgt_lang")(check_language)

    def _conflicts(self) -> Iterator[Conflict]:
        for name, split in (("valid", self.valid), ("test", self.test)):
            if split is not None and split.mix is not None:
                yield f"{name}.mix", "only data.train may be a mixture"
        n_mixed, before = len(self.train.mix or ()) if self.train else 0, 0
        for number, stage in enumerate(self.stages):
            if stage.from_step <= before:
                problem = f"got {stage.from_step}, allowed: > {before} (the previous stage)"
                yield f"stages.{number}.from_step", problem
            if stage.weights is not None and len(stage.weights) != n_mixed:
                problem = (
                    f"got {len(stage.weights)} shares, allowed: {n_mixed}, one for each corpus of "
                    "data.train.mix"
                )
                yield f"stages.{number}.weights", problem
            before = stage.from_step

    def stage_at(self, step: int) -> int:
        """Return the number of the stage after `step` updates: 1 for the first, 0 before it."""
        return sum(stage.from_step <= step for stage in self.stages)

    def updates_to_next_stage(self, step: int) -> int | None:
        """Return the number of updates from `step` to the next stage, or None in the last one."""
        number = self.stage_at(step)
        return self.stages[number].from_step - step if number < len(self.stages) else None

    def in_stage(self, number: int) -> "DataConfig":
        """Return the config with the `train`, `noise` and `sampling` of stage `number`."""
        if number == 0:
            return self
        stage = self.stages[number - 1]
        train = self.train
        if stage.weights is not None and train is not None:
            train = train.with_weights(stage.weights)
        noise, sampling = stage.noise or self.noise, stage.sampling or self.sampling
        return self.model_copy(update={"train": train, "noise": noise, "sampling": sampling})


def group_by_source(pairs: Sequence[SentencePair]) -> list[EvalExample]:
    """Return an example with all targets of each distinct source text, by first appearance."""
    refs: dict[str, list[str]] = {}
    for pair in pairs:
        refs.setdefault(pair.src_text, []).append(pair.tgt_text)
    return [EvalExample(src_text, tuple(texts)) for src_text, texts in refs.items()]


def pairs_of(examples: Sequence[EvalExample]) -> list[SentencePair]:
    """Return a pair per reference, in the order of `examples`."""
    return [SentencePair(e.src_text, ref_text) for e in examples for ref_text in e.ref_texts]
