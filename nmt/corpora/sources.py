"""The config of a run's corpora: where the sentence pairs of each split come from."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from nmt.corpora.languages import check_language
from nmt.settings.base import Config, Conflict, UserPath, conflict_error
from nmt.text.noise import NoiseConfig
from nmt.text.subword_sampling import SubwordSamplingConfig
from nmt.types import EvalExample, SentencePair, SplitName


class HeldOutConfig(Config):
    """Sentences of the training set that are kept for evaluation, with all their translations.

    A sentence is chosen by a checksum of its letters and digits and of the seed, so that the order
    of the file does not matter and sentences that differ in case or punctuation stay together.
    """

    valid: int = Field(default=0, ge=0, description="distinct source sentences for validation")
    test: int = Field(default=0, ge=0, description="distinct source sentences for the test")
    seed: int = Field(default=1, ge=0, description="another seed takes other sentences")


class PairsConfig(Config):
    """Where sentence pairs come from: exactly one of the forms.

    A path may have the wildcards of a shell (`*`, `?`, `[a-z]`, `**`): the files are read one after
    the other, sorted by name.
    """

    corpus: str | None = Field(
        default=None, description="form 1: a named corpus (`nmt corpus list`)"
    )
    split: str | None = Field(
        default=None,
        description="form 1: the corpus' split to take; "
        "without it the one of the same name (train, valid or test)",
    )
    file: UserPath | None = Field(
        default=None,
        description="form 2: a file of both sides, whose format its name tells: `.parquet`, a file "
        "with a column for each language (pip install 'attention-nmt[parquet]'); any other name, "
        "lines `source<TAB>target[<TAB>ignored]`, plain, .gz or the only "
        ".txt/.tsv in a .zip (or named: `x.zip/inside.tsv`)",
    )
    columns: tuple[str, str] | None = Field(
        default=None,
        description="form 2: the columns of source and target of a file whose columns have names, "
        "`column.field` for a field of one; null: those called as the languages, or such fields of "
        "`translation`",
    )
    src: UserPath | None = Field(
        default=None, description="form 3: the source text, one sentence a line"
    )
    tgt: UserPath | tuple[UserPath, ...] | None = Field(
        default=None,
        description="form 3: the target text, line n translating line n of `src`; "
        "a list of files gives several references (evaluation only)",
    )
    first: int | None = Field(
        default=None,
        ge=1,
        description="take only the first this many pairs "
        "(in evaluation: this many source sentences, each with all its references)",
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
        """The forms in words, and which of them are given."""
        return {
            "corpus (with split)": self.corpus is not None,
            "file": self.file is not None,
            "src with tgt": self.src is not None,
        }

    @property
    def corpora(self) -> "tuple[PairsConfig, ...]":
        """The corpora of a mixture, or itself alone."""
        return (self,)

    @property
    def tgts(self) -> tuple[Path, ...]:
        """The target texts: one, or several references."""
        return self.tgt if isinstance(self.tgt, tuple) else (self.tgt,) if self.tgt else ()

    @property
    def texts(self) -> list[Path]:
        """The texts that it names, each a file, files, or a member of an archive."""
        named = (self.file, self.src, *self.tgts)
        return [path for path in named if path is not None]


class MixedConfig(PairsConfig):
    """One of the corpora of a mixture."""

    weight: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="its share, relative to the others'"
    )


class SplitConfig(PairsConfig):
    """Where the sentence pairs of one split come from: exactly one of the forms.

    A path may have the wildcards of a shell (`*`, `?`, `[a-z]`, `**`): the files are read one after
    the other, sorted by name.
    """

    mix: tuple[MixedConfig, ...] | None = Field(
        default=None,
        min_length=1,
        description="form 4 (only data.train): several corpora, each by one of the other forms, "
        "with a `weight` each or none; without weights each pair comes once an epoch, unless "
        "`temperature` says otherwise",
    )
    temperature: float | None = Field(
        default=None,
        ge=1,
        allow_inf_nan=False,
        description="form 4: the share of a corpus of n pairs is proportional to n^(1/temperature)",
    )

    @property
    def corpora(self) -> tuple[PairsConfig, ...]:
        return self.mix or (self,)

    def held_out(self, config: HeldOutConfig, part: SplitName) -> "HeldOutSplit":
        """A part of this split, the training set, after sentences are held out by `config`."""
        values = {**dict(self), "first": None}
        return HeldOutSplit(**values, config=config, part=part, of_first=self.first)

    @property
    def weights(self) -> list[float] | None:
        """The weight of each corpus of a mixture; None without weights."""
        weights = [part.weight for part in self.mix or () if part.weight is not None]
        return weights or None

    @model_validator(mode="after")
    def _mixture_agrees(self) -> "SplitConfig":
        if self.mix is None:
            if self.temperature is not None:
                raise ValueError("temperature requires mix: it weighs the corpora of a mixture")
            return self
        if self.first is not None:
            raise ValueError("first goes into the corpora of mix, each its own")
        if self.weights and len(self.weights) < len(self.mix):
            raise ValueError("mix: a weight for each corpus, or for none")
        if self.weights and self.temperature is not None:
            raise ValueError("temperature and the weights of mix exclude each other")
        return self

    def _forms(self) -> dict[str, bool]:
        return {**super()._forms(), "mix": self.mix is not None}


class HeldOutSplit(SplitConfig):
    """A part of a training set from which sentences are held out; no config names it."""

    config: HeldOutConfig
    part: SplitName
    of_first: int | None


class DataConfig(Config):
    """The corpora that a run reads, and their languages."""

    src_lang: str = Field(default="en", min_length=1, description="source language, ISO 639 code")
    tgt_lang: str = Field(default="fr", min_length=1, description="target language, ISO 639 code")
    corpus: str | None = Field(
        default=None,
        description="named corpus (`nmt corpus list`) that gives train, valid and test, "
        "where they are not given below",
    )
    train: SplitConfig | None = Field(default=None, description="the training pairs")
    valid: SplitConfig | None = Field(
        default=None, description="the pairs that choose the checkpoint"
    )
    test: SplitConfig | None = Field(default=None, description="the pairs that `nmt eval` scores")
    held_out: HeldOutConfig | None = Field(
        default=None,
        description="validation and test set taken out of train, where there are none; null: none",
    )
    max_pieces: int = Field(
        default=100,
        ge=1,
        description="pieces on either side beyond which a training pair is left out (and "
        "counted); evaluation sets keep all pairs",
    )
    vocab_pairs: int = Field(
        default=1_000_000,
        ge=1,
        description="training pairs from which the vocabularies are learned; of a larger set, so "
        "many evenly spaced ones",
    )
    cache: UserPath | None = Field(
        default=None,
        description="folder for the encoded training set, which is written once and then read "
        "batch by batch, for corpora larger than memory; null: keep it in memory",
    )
    noise: NoiseConfig = Field(
        default=NoiseConfig(), description="other casing, punctuation and typing slips in training"
    )
    sampling: SubwordSamplingConfig = Field(
        default=SubwordSamplingConfig(), description="other pieces of the same words in training"
    )
    folder: UserPath = Field(
        default=Path("data"),
        description="where named corpora live; the environment variable NMT_DATA overrides it",
    )

    _are_codes = field_validator("src_lang", "tgt_lang")(check_language)

    @model_validator(mode="after")
    def _only_train_is_mixed(self) -> "DataConfig":
        splits = {"valid": self.valid, "test": self.test}
        conflicts: list[Conflict] = [
            (f"{name}.mix", "only data.train may be a mixture")
            for name, split in splits.items()
            if split is not None and split.mix is not None
        ]
        if conflicts:
            raise conflict_error(conflicts)
        return self


def group_by_source(pairs: Sequence[SentencePair]) -> list[EvalExample]:
    """Distinct source texts in order of first appearance, each with all its targets in order."""
    refs: dict[str, list[str]] = {}
    for pair in pairs:
        refs.setdefault(pair.src_text, []).append(pair.tgt_text)
    return [EvalExample(src_text, tuple(texts)) for src_text, texts in refs.items()]


def pairs_of(examples: Sequence[EvalExample]) -> list[SentencePair]:
    """Each sentence with each of its references: the inverse of `group_by_source`."""
    return [SentencePair(e.src_text, ref_text) for e in examples for ref_text in e.ref_texts]
