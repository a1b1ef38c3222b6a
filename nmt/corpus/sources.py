"""Sentence pairs from files: a TSV or two aligned files, plain, in .gz or inside a .zip.

Text is UTF-8 (a byte order mark is tolerated) and a line ends at `\\n` only: U+2028, U+0085 and
a `\\r` within a line are characters. The one exception is a file whose every line ends in
`\\r\\n`: there the `\\r` belongs to the line end. Nothing else is altered and no line is left out.
"""

import gzip
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import Field, model_validator

from nmt.errors import DataError
from nmt.schema import Config, EvalExample, SentencePair

# A file is read whole into memory; what unpacks to more than this is a mistake or a bomb.
MAX_TEXT_BYTES = 4 << 30


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
    tsv: Path | None = Field(
        default=None,
        description="form 2: a file of lines `source<TAB>target[<TAB>ignored]`, "
        "plain, .gz or the only .txt/.tsv in a .zip (or named: `x.zip/inside.tsv`)",
    )
    src: Path | None = Field(
        default=None, description="form 3: the source text, one sentence a line"
    )
    tgt: Path | tuple[Path, ...] | None = Field(
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
        description="a training pair longer than this on either side, in pieces, is left out "
        "(and counted); evaluation sets lose nothing",
    )
    folder: Path = Field(
        default=Path("data"),
        description="where named corpora live; the environment variable NMT_DATA overrides it",
    )


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, without their ends; a last line may go unended.

    `path` may be plain, `.gz`, a `.zip` with one text in it, or `x.zip/member`.
    Raises DataError, naming file and line where there is one.
    """
    return _lines(path)[0]


def read_tsv(path: Path) -> list[SentencePair]:
    """The first two tab-separated fields of every line; further fields are ignored.

    Raises DataError (file:line) for a line with one field, and as `read_lines` does.
    """
    lines, shown = _lines(path)
    pairs = []
    for number, line in enumerate(lines, start=1):
        fields = line.split("\t", maxsplit=2)
        if len(fields) < 2:
            raise DataError(
                f"{shown}:{number}: expected source<TAB>target, got one field: {_excerpt(line)}"
            )
        pairs.append(SentencePair(fields[0], fields[1]))
    return pairs


def read_aligned(src: Path, tgt: Path) -> list[SentencePair]:
    """Line n of `src` with line n of `tgt`, empty lines included.

    Raises DataError (file:line) where one file ends before the other, and as `read_lines` does.
    """
    src_lines, tgt_lines = read_lines(src), read_lines(tgt)
    _check_equal(src, src_lines, tgt, tgt_lines)
    return [SentencePair(s, t) for s, t in zip(src_lines, tgt_lines, strict=True)]


def read_references(src: Path, tgts: Sequence[Path]) -> list[EvalExample]:
    """One example a line of `src`, with that line of each of `tgts` as its references.

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


def archive_of(path: Path) -> Path:
    """The file on disk that `path` is read from: `x.zip` for `x.zip/member`, else itself."""
    return _split_member(path)[0]


def _check_equal(src: Path, src_lines: list[str], tgt: Path, tgt_lines: list[str]) -> None:
    if len(src_lines) == len(tgt_lines):
        return
    (short, n), (long, m) = sorted(
        [(src, len(src_lines)), (tgt, len(tgt_lines))], key=lambda item: item[1]
    )
    raise DataError(
        f"{short}:{n + 1}: no such line, but {long} has {m} lines; "
        "aligned files need the same number of lines"
    )


def _lines(path: Path) -> tuple[list[str], str]:
    """The lines of `path`, and the name to show for it (with the member of a zip)."""
    data, shown = _read_bytes(path)
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise DataError(
            f"{shown}:{number}: byte 0x{byte:02x} is not UTF-8; {_hint(data)}"
        ) from None
    n_ends = text.count("\n")
    end = "\r\n" if n_ends and text.count("\r\n") == n_ends else "\n"
    lines = text.split(end)
    if not lines[-1]:
        lines.pop()
    return lines, shown


def _hint(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "the file looks like UTF-16, save it as UTF-8"
    if data.startswith(b"\x1f\x8b"):
        return "the file looks like gzip, its name should end in .gz"
    if data.startswith(b"PK\x03\x04"):
        return "the file looks like a zip archive, its name should end in .zip"
    return "save the file as UTF-8"


def _read_bytes(path: Path) -> tuple[bytes, str]:
    archive, member = _split_member(path)
    try:
        if archive.suffix.lower() == ".zip":
            return _read_member(archive, member)
        if archive.suffix.lower() == ".gz":
            with gzip.open(archive) as file:
                return _read_bounded(file.read, str(path)), str(path)
        with archive.open("rb") as file:
            return _read_bounded(file.read, str(path)), str(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        kind = archive.suffix.lower()[1:]
        raise DataError(f"{path}: damaged or not a {kind} file: {error}") from None
    except (OSError, RuntimeError, NotImplementedError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"{path}: cannot be read: {reason}") from None


def _read_bounded(read: Callable[[int], bytes], shown: str) -> bytes:
    data = read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        raise DataError(f"{shown}: more than {MAX_TEXT_BYTES} bytes of text, allowed at most that")
    return data


def _split_member(path: Path) -> tuple[Path, str | None]:
    for parent in path.parents:
        if parent.suffix.lower() == ".zip" and parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return path, None


def _read_member(archive: Path, member: str | None) -> tuple[bytes, str]:
    """The text of `member`, or of the one text that the archive holds; read in place."""
    with zipfile.ZipFile(archive) as opened:
        names = [name for name in opened.namelist() if not name.endswith("/")]
        found = [member] if member is not None else [name for name in names if _is_text(name)]
        if len(found) != 1 or found[0] not in names:
            what = "no such member" if member else f"holds {len(found)} .txt/.tsv files, allowed: 1"
            held = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise DataError(
                f"{archive if member is None else archive / member}: {what}; "
                f"it holds: {held or 'nothing'}; name one as {archive}/MEMBER"
            )
        shown = f"{archive}/{found[0]}"
        with opened.open(found[0]) as file:
            return _read_bounded(file.read, shown), shown


def _is_text(name: str) -> bool:
    """Whether a zip member is text of a corpus: not _about.txt, not what a Mac adds."""
    base = name.rsplit("/", maxsplit=1)[-1]
    return base.lower().endswith((".txt", ".tsv")) and not base.startswith((".", "_"))


def _excerpt(line: str) -> str:
    return repr(line if len(line) <= 40 else line[:39] + "…")
