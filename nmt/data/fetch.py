"""Bring a named corpus to disk: from its addresses, or from files that are already somewhere.

Every file is written aside as NAME.part, held against the checksums of the catalogue, and only
then moved into place; fetched.json beside it says where each came from. Archives stay as they
came and are read in place, so nothing is ever unpacked.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from nmt.data.checksums import verify
from nmt.data.corpora import read_corpus
from nmt.data.download import download, forget_part
from nmt.data.entries import (
    RUN_SPLITS,
    CorpusEntry,
    CorpusFile,
    HashSplit,
    Source,
    corpus_folder,
    find_entry,
)
from nmt.errors import ConfigError, DataError
from nmt.storage.atomic import digest, write_json
from nmt.storage.bounded import check_regular, read_json, stay_inside
from nmt.storage.output import check_output

RECORD = "fetched.json"


@dataclass(frozen=True)
class FetchReport:
    """What `fetch_corpus` did, by file name, and what can be read now."""

    folder: Path
    fetched: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    pairs: dict[str, int] = field(default_factory=dict)


def fetch_corpus(
    name: str,
    folder: Path,
    say: Callable[[str], None],
    from_path: Path | None = None,
    source: str | None = None,
    force: bool = False,
) -> FetchReport:
    """Bring the files of corpus `name` into `folder`/`name`, and read its splits to be sure.

    Files that are there and verify are kept, unless `force`. With `from_path`, a file or a
    folder, nothing is downloaded: each file is looked for there by its name, at any depth, and
    what is not there is left out. `source` keeps to the source of that name. `say` is told each
    step in a line. Raises DataError where a file cannot be had (naming the address),
    fails its checksum, where the corpus' folder is a link out of `folder`, or where train, valid
    and test cannot all be read in the end.
    """
    entry = find_entry(name, folder)
    report = FetchReport(corpus_folder(name, entry, folder))
    if entry.embedded:
        say(f"{name} comes with the package: nothing to fetch")
    elif not entry.files:
        raise DataError(f"corpus '{name}': its entry lists no files, so there is nothing to fetch")
    else:
        stay_inside(report.folder, folder, DataError)
    if from_path is not None and not from_path.exists():
        raise DataError(f"`from_path={from_path}`: no such file or folder")
    for file_name, spec in entry.files.items():
        place = _Place(name, report.folder, file_name, _only(source, file_name, spec))
        try:
            if not force and place.keeps(say):
                report.kept.append(file_name)
            elif from_path is None:
                place.download(say)
                report.fetched.append(file_name)
            elif place.copy(from_path, say, alone=len(entry.files) == 1):
                report.fetched.append(file_name)
            else:
                say(f"{file_name}: left out, not in {from_path}")
                report.left_out.append(file_name)
        except OSError as error:
            raise DataError(f"{place.target}: {error.strerror or error}") from None
    for split in entry.split_names:
        lacking = _files_of(entry, split) & set(report.left_out)
        if lacking and split in RUN_SPLITS:
            raise DataError(
                f"corpus '{name}': split '{split}' cannot be read: "
                f"{', '.join(sorted(lacking))} not in {from_path}"
            )
        if not lacking:
            examples = read_corpus(name, split, folder)
            report.pairs[split] = sum(len(example.ref_texts) for example in examples)
    say(f"licence: {entry.licence}; attribution: {entry.attribution or 'none given'}")
    return report


def _files_of(entry: CorpusEntry, split: str) -> set[str]:
    """The names, as the entry writes them, of the files that a split is read from."""
    files = entry.splits.get(split) or entry.splits[(entry.hash_split or HashSplit()).of]
    tgts = files.tgt if isinstance(files.tgt, tuple) else (files.tgt,)
    return {str(path) for path in (files.tsv, files.src, *tgts) if path is not None}


def _only(source: str | None, file_name: str, spec: CorpusFile) -> CorpusFile:
    if source is None:
        return spec
    chosen = tuple(s for s in spec.sources if s.name == source)
    if not chosen:
        names = ", ".join(s.name for s in spec.sources)
        raise ConfigError(f"source of {file_name}: got '{source}', allowed: {names}")
    return spec.model_copy(update={"sources": chosen})


@dataclass(frozen=True)
class _Place:
    """Where one file of a corpus belongs, and the ways for it to get there."""

    corpus: str
    home: Path
    file_name: str
    spec: CorpusFile

    @property
    def target(self) -> Path:
        return self.home / self.file_name

    @property
    def part(self) -> Path:
        return self.home / f"{self.file_name}.part"

    def keeps(self, say: Callable[[str], None]) -> bool:
        """Whether the file is there already and is what it should be."""
        if not self.target.is_file():
            return False
        known = _read_record(self.home).get(self.file_name, {}).get("sha256")
        try:
            found = verify(self.target, self.spec.sources)
        except DataError as error:
            say(f"{error}; fetching it again")
            return False
        if not found.checked and known not in (None, digest(self.target)):
            say(f"{self.target}: changed since it was fetched; fetching it again")
            return False
        if known is None:
            self._record(found, str(self.target))
        say(f"{self.file_name}: already there ({found.name})")
        return True

    def download(self, say: Callable[[str], None]) -> None:
        """From the first source that answers with the right file."""
        failures = []
        for source in self.spec.sources:
            if source.url is None:
                continue
            self.home.mkdir(parents=True, exist_ok=True)
            say(f"{self.file_name}: from {source.url}")
            try:
                download(source.url, self.part, self.spec.max_bytes)
                self._install((source,), source.url, say)
            except DataError as error:
                failures.append(str(error))
                say(f"{error}")
            else:
                return
        reasons = "; ".join(failures) or "the catalogue gives no address"
        raise DataError(
            f"cannot download {self.file_name}: {reasons}; where you have the file, use: "
            f"nmt corpus fetch {self.corpus} `from_path=PATH`"
        )

    def copy(self, from_path: Path, say: Callable[[str], None], alone: bool) -> bool:
        """From `from_path`, a file or a folder; False where it is not there."""
        candidates = list(self._candidates(from_path, alone))
        failures, loose = [], []
        for path in candidates:
            try:
                found = verify(path, self.spec.sources)
            except DataError as error:
                failures.append(str(error))
                continue
            if found.checked:
                self._copy(path, say)
                return True
            loose.append(path)
        if len({digest(path) for path in loose}) > 1:
            listed = ", ".join(map(str, loose[:4]))
            raise DataError(
                f"`from_path={from_path}`: several {self.file_name}: {listed}; name one"
            )
        if loose:
            self._copy(loose[0], say)
        elif failures:
            raise DataError("; ".join(failures))
        return bool(loose)

    def _candidates(self, from_path: Path, alone: bool) -> Iterator[Path]:
        if not from_path.is_dir():
            if alone or from_path.name == self.file_name:
                yield _regular(from_path)
            return
        for folder, folders, names in os.walk(from_path):
            folders.sort()
            path = Path(folder) / self.file_name
            if self.file_name in names and not _same(path, self.target):
                yield _regular(path)

    def _copy(self, path: Path, say: Callable[[str], None]) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        check_output(self.part, {"`from_path`": [path]}, "the file that is written first")
        forget_part(self.part)
        shutil.copyfile(path, self.part)
        self._install(self.spec.sources, str(path), say)

    def _install(
        self, sources: tuple[Source, ...], origin: str, say: Callable[[str], None]
    ) -> None:
        """Verify the part and move it into place; a part that fails is removed."""
        try:
            found = verify(self.part, sources, origin)
        except DataError:
            forget_part(self.part)
            raise
        with self.part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(self.part, self.target)
        forget_part(self.part)
        self._record(found, origin)
        word = "checksum right" if found.checked else "no checksum to hold it against; recorded"
        say(f"{self.file_name}: {origin} ({found.name}: {word})")

    def _record(self, found: Source, origin: str) -> None:
        record = _read_record(self.home)
        record[self.file_name] = {
            "from": origin,
            "source": found.name,
            "sha256": digest(self.target),
            "bytes": str(self.target.stat().st_size),
            "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_json(self.home / RECORD, record)


def _same(path: Path, target: Path) -> bool:
    return path.resolve() == target.resolve()


def _regular(path: Path) -> Path:
    """`path`; DataError at once where it is a FIFO or a device, which may never end."""
    try:
        check_regular(path.stat().st_mode, path)
    except OSError as error:
        raise DataError(f"`from_path={path}`: {error.strerror}") from None
    return path


def _read_record(home: Path) -> dict[str, dict[str, str]]:
    path = home / RECORD
    if not path.is_file():
        return {}
    try:
        record = cast(dict[str, dict[str, str]], read_json(path, DataError))
        return {str(name): dict(values) for name, values in record.items()}
    except (ValueError, AttributeError, TypeError, DataError) as error:
        raise DataError(f"{path}: damaged ({error}); remove it and fetch again") from None
