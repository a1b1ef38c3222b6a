"""Fetch a named corpus: download its files, or copy them from a file or folder.

Each file is written aside as NAME.part, checked against the catalogue's checksums, and then moved
into place. fetched.json beside it records the origin of each. Archives are read in place, so
nothing is ever unpacked.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from nmt.data.checksums import verify
from nmt.data.corpora import count_pairs
from nmt.data.download import download, forget_part
from nmt.data.entries import RUN_SPLITS, CorpusFile, Source, corpus_folder, find_entry
from nmt.errors import ConfigError, DataError
from nmt.storage.atomic import digest, flush, replace, write_json
from nmt.storage.bounded import check_regular, read_json, stay_inside
from nmt.storage.output import check_apart
from nmt.storage.run_files import check_outside_runs

RECORD = "fetched.json"


@dataclass(frozen=True)
class FetchReport:
    """The result of `fetch_corpus`: names of files, and the number of pairs of each split."""

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
    """Fetch the files of corpus `name` into `folder`/`name`, and read its splits as a check.

    Files that are there are kept, unless `force`; one that is not correct is an error. With
    `from_path`, a file or a folder, nothing is downloaded: each file is looked for there by its
    name, at any depth, and a file that is missing there is left out. `source` restricts a file to
    its source of that name. `say` gets a line for each step. Raises DataError where a file cannot
    be fetched, fails its checksum, where the corpus' folder is a link out of `folder`, or where
    train, valid or test cannot be read.
    """
    entry = find_entry(name, folder)
    report = FetchReport(corpus_folder(name, entry, folder))
    if entry.embedded:
        say(f"{name} comes with the package: nothing to fetch")
    elif not entry.files:
        raise DataError(f"corpus '{name}': its entry lists no files, so there is nothing to fetch")
    else:
        stay_inside(report.folder, folder, DataError)
        check_outside_runs(report.folder, "the corpus")
    if from_path is not None and not from_path.exists():
        raise DataError(f"`from_path={from_path}`: no such file or folder")
    for file_name, spec in entry.files.items():
        file = _File(name, report.folder, file_name, _only(source, file_name, spec), say)
        try:
            if not force and file.is_current():
                report.kept.append(file_name)
            elif from_path is None:
                file.download()
                report.fetched.append(file_name)
            elif file.copy(from_path, alone=len(entry.files) == 1):
                report.fetched.append(file_name)
            else:
                say(f"{file_name}: left out, not in {from_path}")
                report.left_out.append(file_name)
        except OSError as error:
            raise DataError(f"{file.target}: {error.strerror or error}") from None
    for split in entry.split_names:
        lacking = {text.parts[0] for text in entry.texts(split)} & set(report.left_out)
        if lacking and split in RUN_SPLITS:
            raise DataError(
                f"corpus '{name}': split '{split}' cannot be read: "
                f"{', '.join(sorted(lacking))} not in {from_path}"
            )
        if not lacking:
            report.pairs[split] = count_pairs(name, split, folder)
    say(f"licence: {entry.licence}; attribution: {entry.attribution or 'none given'}")
    return report


def _only(source: str | None, file_name: str, spec: CorpusFile) -> CorpusFile:
    if source is None:
        return spec
    chosen = tuple(s for s in spec.sources if s.name == source)
    if not chosen:
        names = ", ".join(s.name for s in spec.sources)
        raise ConfigError(f"source of {file_name}: got '{source}', allowed: {names}")
    return spec.model_copy(update={"sources": chosen})


@dataclass(frozen=True)
class _File:
    """One file of a corpus in its folder `home`; `say` gets a line for each step."""

    corpus: str
    home: Path
    name: str
    spec: CorpusFile
    say: Callable[[str], None]

    @property
    def target(self) -> Path:
        return self.home / self.name

    @property
    def part(self) -> Path:
        return self.home / f"{self.name}.part"

    def is_current(self) -> bool:
        """Whether the file is there already. Raises DataError for one that is not correct."""
        if not self.target.is_file():
            return False
        known = _read_record(self.home).get(self.name, {}).get("sha256")
        advice = "remove it, or `force` fetches again"
        try:
            found = verify(self.target, self.spec.sources)
        except DataError as error:
            raise DataError(f"{error}; {advice}") from None
        if not found.checked and known not in (None, digest(self.target)):
            raise DataError(f"{self.target}: changed since it was fetched; {advice}")
        if known is None:
            self._record(found, str(self.target))
        self.say(f"{self.name}: already there ({found.name})")
        return True

    def download(self) -> None:
        """Download the file from the first source that has a correct one."""
        failures = []
        for source in self.spec.sources:
            if source.url is None:
                continue
            self.home.mkdir(parents=True, exist_ok=True)
            self.say(f"{self.name}: from {source.url}")
            try:
                download(source.url, self.part, self.spec.max_bytes)
                return self._install((source,), source.url)
            except DataError as error:
                failures.append(str(error))
                self.say(f"{error}")
        reasons = "; ".join(failures) or "the catalogue gives no address"
        raise DataError(
            f"cannot download {self.name}: {reasons}; where you have the file, use: "
            f"nmt corpus fetch {self.corpus} `from_path=PATH`"
        )

    def copy(self, from_path: Path, alone: bool) -> bool:
        """Copy the file from `from_path`, a file or a folder; False where it is not there.

        An `alone` file, the only one of its corpus, may have another name there.
        """
        failures: list[str] = []
        unchecked: list[Path] = []
        for path in self._candidates(from_path, alone):
            try:
                found = verify(path, self.spec.sources)
            except DataError as error:
                failures.append(str(error))
                continue
            if found.checked:
                self._copy(path)
                return True
            unchecked.append(path)
        if len(set(map(digest, unchecked))) > 1:
            listed = ", ".join(map(str, unchecked[:4]))
            raise DataError(f"`from_path={from_path}`: several {self.name}: {listed}; name one")
        if unchecked:
            self._copy(unchecked[0])
        elif failures:
            raise DataError("; ".join(failures))
        return bool(unchecked)

    def _candidates(self, from_path: Path, alone: bool) -> list[Path]:
        if not from_path.is_dir():
            is_meant = alone or from_path.name == self.name
            return [_regular(from_path)] if is_meant else []
        found = []
        for folder, folders, names in os.walk(from_path):
            folders.sort()
            path = Path(folder) / self.name
            if self.name in names and path.resolve() != self.target.resolve():
                found.append(_regular(path))
        return found

    def _copy(self, path: Path) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        check_apart(self.part, {"`from_path`": [path]}, "the file that is written first")
        forget_part(self.part)
        shutil.copyfile(path, self.part)
        self._install(self.spec.sources, str(path))

    def _install(self, sources: tuple[Source, ...], origin: str) -> None:
        """Verify the part and move it into place; a part that fails is removed."""
        try:
            found = verify(self.part, sources, origin)
        except DataError:
            forget_part(self.part)
            raise
        flush(self.part)
        replace(self.part, self.target)
        forget_part(self.part)
        self._record(found, origin)
        word = "checksum right" if found.checked else "no checksum to hold it against; recorded"
        self.say(f"{self.name}: {origin} ({found.name}: {word})")

    def _record(self, found: Source, origin: str) -> None:
        record = _read_record(self.home)
        record[self.name] = {
            "from": origin,
            "source": found.name,
            "sha256": digest(self.target),
            "bytes": str(self.target.stat().st_size),
            "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_json(self.home / RECORD, record)


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
