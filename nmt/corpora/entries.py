"""The catalogue of named corpora: one validated entry per corpus, loaded from YAML.

The built-in catalogue is catalog.yaml beside this file. The user's catalog.yaml in the data folder
adds entries, or replaces entries of the same name. OPUS corpora are not in a catalogue: a name such
as opus:Books/v1/en-fr determines the entry.
"""

import functools
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, RootModel, model_validator

from nmt.corpora.sources import PairsConfig
from nmt.errors import NEAR, ConfigError, did_you_mean
from nmt.settings.base import Config, Conflict
from nmt.settings.config_file import load_file
from nmt.types import SplitName

USER_CATALOG = "catalog.yaml"
OPUS_URL = "https://object.pouta.csc.fi/OPUS-{corpus}/{version}/moses/{pair}.txt.zip"
OPUS_NAME = "opus:NAME/vVERSION/en-fr"
RUN_SPLITS: tuple[SplitName, ...] = ("train", "valid", "test")


def _plain_name(name: str) -> str:
    if name in ("", ".", "..") or any(c in name for c in "/\\:\0") or name.startswith("~"):
        raise ValueError(f"'{name}' is not a plain file name")
    return name


PlainName = Annotated[str, AfterValidator(_plain_name)]


class Source(Config):
    """A source of a file: an address to download from, the checksum of a known release, or both."""

    name: str = Field(default="main", description="name of the source, for messages")
    url: str | None = Field(default=None, description="https address; null: unknown")
    bytes: int | None = Field(default=None, ge=1, description="largest download; null: `max_bytes`")
    checksum: str | None = Field(
        default=None,
        pattern="^(sha256:[0-9a-f]{64}|sha1:[0-9a-f]{40}|md5:[0-9a-f]{32})$",
        description="kind:hex; md5 detects damage but not forgery, so prefer sha256",
    )

    @model_validator(mode="after")
    def _has_url_or_checksum(self) -> "Source":
        if self.url is None and self.checksum is None:
            raise ValueError("a source requires a url, a checksum or both")
        return self


class CorpusFile(Config):
    """A file of a corpus: its sources in order of preference, and its size limits."""

    sources: tuple[Source, ...] = Field(min_length=1, description="tried in this order")
    max_bytes: int = Field(default=1_000_000_000, ge=1, description="largest download")
    max_text_bytes: int = Field(default=4_000_000_000, ge=1, description="largest unpacked text")


class HashSplit(Config):
    """Division of a split into train, valid and test by a hash of the source (`part_of`)."""

    of: str = Field(default="all", description="the split to divide, also readable as a whole")
    valid: float = Field(default=0.01, gt=0, lt=0.5, description="share of source sentences")
    test: float = Field(default=0.01, gt=0, lt=0.5, description="share of source sentences")


class CorpusEntry(Config):
    """The catalogue entry of one corpus."""

    description: str = Field(default="", description="one line for `nmt corpus list`")
    src_lang: str = Field(description="language of the first column or `src` file")
    tgt_lang: str = Field(description="language of the second column or `tgt` file")
    licence: str = Field(default="unknown", description="licence, in the owners' words")
    attribution: str = Field(default="", description="the credit that the licence requires")
    embedded: bool = Field(default=False, description="part of the package, never downloaded")
    pairs: dict[str, int] = Field(default={}, description="approximate number of pairs by split")
    splits: dict[str, PairsConfig] = Field(
        min_length=1, description="split name -> files, relative to the corpus' folder"
    )
    joined: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]] = Field(
        default={}, description="split name -> the splits that it concatenates"
    )
    hash_split: HashSplit | None = Field(default=None, description="yields train, valid and test")
    files: dict[PlainName, CorpusFile] = Field(default={}, description="file name -> its sources")

    def _conflicts(self) -> Iterator[Conflict]:
        for name, split in self.splits.items():
            if any(key is not None for key in (split.corpus, split.first, split.sacrebleu)):
                yield f"splits.{name}", "allowed keys: file, columns, src, tgt"
        if self.embedded and self.files:
            yield "files", "an embedded corpus is never downloaded: it has no files"
        for name, parts in self.joined.items():
            for part in parts:
                if part not in self.splits:
                    yield f"joined.{name}", f"there is no split '{part}'"
        if self.hash_split is not None and self.hash_split.of not in self.splits:
            yield "hash_split.of", f"there is no split '{self.hash_split.of}'"
        if duplicates := sorted(name for name, n in Counter(self.split_names).items() if n > 1):
            yield "splits", f"two splits are called {', '.join(duplicates)}"

    @property
    def split_names(self) -> list[str]:
        """The names of all splits, on disk or not: first train, valid and test, then the others."""
        hash_parts = RUN_SPLITS if self.hash_split is not None else ()
        names = [*hash_parts, *self.joined, *self.splits]
        last = len(RUN_SPLITS)
        return sorted(names, key=lambda n: RUN_SPLITS.index(n) if n in RUN_SPLITS else last)

    def texts(self, split: str) -> list[Path]:
        """Return the paths of the texts of a split, relative to the corpus' folder."""
        base = (self.hash_split or HashSplit()).of if split not in self.splits else split
        parts = self.joined.get(split, (base,))
        return [path for part in parts for path in self.splits[part].texts]


class _Catalog(RootModel[dict[PlainName, CorpusEntry]]):
    """Catalogue entries by corpus name."""


def data_folder(configured: Path) -> Path:
    """Return the folder of named corpora: the variable NMT_DATA if set, else `configured`."""
    return Path(os.environ["NMT_DATA"]) if os.environ.get("NMT_DATA") else configured


def load_catalog(folder: Path) -> dict[str, CorpusEntry]:
    """Return the built-in and the user's entries. Raises ConfigError if catalog.yaml is invalid."""
    path = folder / USER_CATALOG
    user_entries = load_file(path, (), _Catalog).root if path.is_file() else {}
    return {**_builtin_catalog(), **user_entries}


def find_entry(name: str, folder: Path) -> CorpusEntry:
    """Return the entry `name`. Raises ConfigError, with similar names, if it is unknown."""
    if name.startswith("opus:"):
        return _opus_entry(name)
    entries = load_catalog(folder)
    if name not in entries:
        longer_names = [other for other in entries if name and other.startswith(name)]
        hint = did_you_mean(name, longer_names or entries, 0.0 if longer_names else NEAR)
        raise ConfigError(
            f"corpus: got '{name}', allowed: {', '.join(sorted(entries))} "
            f"(or {OPUS_NAME}, or an entry of your own in {folder / USER_CATALOG}){hint}"
        )
    return entries[name]


def corpus_folder(name: str, entry: CorpusEntry, folder: Path) -> Path:
    """Return a corpus' folder. An embedded corpus is in the wheel, or in data/ of a checkout."""
    if not entry.embedded:
        *parents, last = name.replace(":", "/").split("/")
        return folder.joinpath(*parents) if parents else folder / last
    installed = Path(__file__).parent / name
    return installed if installed.is_dir() else Path(__file__).parents[2] / "data" / name


def _opus_entry(name: str) -> CorpusEntry:
    match = re.fullmatch(
        r"opus:(\w[\w.-]*)/(v[\w.-]+)/([a-z]{2,3}(?:_\w+)?)-([a-z]{2,3}(?:_\w+)?)", name, re.ASCII
    )
    if match is None or match[3] == match[4]:
        raise ConfigError(f"corpus: got '{name}', allowed: {OPUS_NAME}, e.g. opus:Books/v1/en-fr")
    corpus, version, *languages = match.groups()
    src, tgt = sorted(languages)  # one file serves both directions
    file = f"{src}-{tgt}.txt.zip"
    url = OPUS_URL.format(corpus=corpus, version=version, pair=f"{src}-{tgt}")
    source = Source(name="OPUS", url=url)
    stem = f"{file}/{corpus}.{src}-{tgt}"
    return CorpusEntry(
        src_lang=src,
        tgt_lang=tgt,
        licence="see LICENSE and README in the archive",
        attribution=f"{corpus} of opus.nlpl.eu; Tiedemann 2012 (L12-1246)",
        splits={"train": PairsConfig(src=Path(f"{stem}.{src}"), tgt=Path(f"{stem}.{tgt}"))},
        files={file: CorpusFile(sources=(source,), max_bytes=10**11, max_text_bytes=4 * 10**11)},
    )


@functools.cache
def _builtin_catalog() -> dict[str, CorpusEntry]:
    return load_file(Path(__file__).with_name("catalog.yaml"), (), _Catalog).root
