"""Sentence pairs from text files: a TSV, or two aligned files."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from pydantic import Field, model_validator

from nmt.data.text_files import read_lines as read_lines
from nmt.data.text_files import shown_name, stream_lines
from nmt.errors import DataError
from nmt.settings.base import Config, UserPath
from nmt.types import EvalExample, SentencePair


class SplitConfig(Config):
    """Where the sentence pairs of one split come from: exactly one of the three forms."""

    corpus: str | None = Field(
        default=None, description="form 1: a named corpus (`nmt corpus list`)"
    )
    split: str | None = Field(
        default=None,
        description="form 1: the corpus' split to take; "
        "without it the one of the same name (train, valid or test)",
    )
    tsv: UserPath | None = Field(
        default=None,
        description="form 2: a file of lines `source<TAB>target[<TAB>ignored]`, "
        "plain, .gz, .bz2, .xz or the only .txt/.tsv in a .zip (or named: `x.zip/inside.tsv`)",
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
    def _exactly_one_form(self) -> "SplitConfig":
        forms = [self.corpus is not None, self.tsv is not None, self.src is not None]
        if sum(forms) != 1:
            raise ValueError("give exactly one of: corpus (with split), tsv, src with tgt")
        if (self.src is None) != (self.tgt is None) or self.tgt == ():
            raise ValueError("src and tgt go together, each naming a file")
        if self.split is not None and self.corpus is None:
            raise ValueError("split needs corpus: it names a split of a named corpus")
        return self


class DataConfig(Config):
    """Which corpora a run reads, and in which languages."""

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
    folder: UserPath = Field(
        default=Path("data"),
        description="where named corpora live; the environment variable NMT_DATA overrides it",
    )


def stream_tsv(path: Path, max_bytes: int | None = None) -> Iterator[SentencePair]:
    """The first two tab-separated fields of each line, in order; further fields are ignored.

    Raises DataError (file:line) for a line with one field, and as `stream_lines` does.
    """
    for number, line in enumerate(stream_lines(path, max_bytes), start=1):
        fields = line.split("\t", maxsplit=2)
        if len(fields) < 2:
            raise DataError(
                f"{shown_name(path)}:{number}: expected source<TAB>target, got one field: "
                f"{_excerpt(line)}"
            )
        yield SentencePair(fields[0], fields[1])


def stream_aligned(
    src: Path, tgt: Path, max_bytes: tuple[int | None, int | None] = (None, None)
) -> Iterator[SentencePair]:
    """Line n of `src` with line n of `tgt`, in order, empty lines included.

    Raises DataError (file:line) if one file ends before the other, and as `stream_lines` does.
    """
    columns = (stream_lines(src, max_bytes[0]), stream_lines(tgt, max_bytes[1]))
    for n_pairs, (src_text, tgt_text) in enumerate(zip_longest(*columns)):
        if src_text is None or tgt_text is None:
            short, long = (src, tgt) if src_text is None else (tgt, src)
            rest = columns[1] if src_text is None else columns[0]
            raise _unequal(short, n_pairs, long, n_pairs + 1 + sum(1 for _ in rest))
        yield SentencePair(src_text, tgt_text)


def read_tsv(path: Path) -> list[SentencePair]:
    """The pairs of `stream_tsv` as a list."""
    return list(stream_tsv(path))


def read_aligned(src: Path, tgt: Path) -> list[SentencePair]:
    """The pairs of `stream_aligned` as a list."""
    return list(stream_aligned(src, tgt))


def read_references(src: Path, tgts: Sequence[Path]) -> list[EvalExample]:
    """One example per line of `src`; its references are that line of each of `tgts`.

    Raises DataError as `read_aligned` does.
    """
    src_lines = read_lines(src)
    columns = [read_lines(tgt) for tgt in tgts]
    for tgt, column in zip(tgts, columns, strict=True):
        _check_equal(src, src_lines, tgt, column)
    return [
        EvalExample(text, refs)
        for text, refs in zip(src_lines, zip(*columns, strict=True), strict=True)
    ]


def group_by_source(pairs: Sequence[SentencePair]) -> list[EvalExample]:
    """Distinct source texts in order of first appearance, each with all its targets in order."""
    refs: dict[str, list[str]] = {}
    for pair in pairs:
        refs.setdefault(pair.src_text, []).append(pair.tgt_text)
    return [EvalExample(src_text, tuple(texts)) for src_text, texts in refs.items()]


def pairs_of(examples: Sequence[EvalExample]) -> list[SentencePair]:
    """Each sentence with each of its references: the inverse of `group_by_source`."""
    return [SentencePair(e.src_text, ref_text) for e in examples for ref_text in e.ref_texts]


def _check_equal(src: Path, src_lines: list[str], tgt: Path, tgt_lines: list[str]) -> None:
    if len(src_lines) != len(tgt_lines):
        (short, n), (long, m) = sorted(
            [(src, len(src_lines)), (tgt, len(tgt_lines))], key=lambda item: item[1]
        )
        raise _unequal(short, n, long, m)


def _unequal(short: Path, n_short: int, long: Path, n_long: int) -> DataError:
    return DataError(
        f"{short}:{n_short + 1}: no such line, but {long} has {n_long} lines; "
        "aligned files need the same number of lines"
    )


def _excerpt(line: str) -> str:
    return repr(line if len(line) <= 40 else line[:39] + "…")
