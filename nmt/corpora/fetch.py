"""Fetch a named corpus: download its files, or copy them from a file or folder.

Each file is written to NAME.part, checked against the checksums in the catalogue, and renamed. If
the catalogue has no checksum, NAME.pin.json records the size and checksum of the first fetch. A
later fetch must get the same file, unless it is forced. Archives are not unpacked, since their
members are read in place.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from nmt.corpora.corpora import count_pairs
from nmt.corpora.download import download
from nmt.corpora.entries import RUN_SPLITS, CorpusFile, Source, corpus_folder, find_entry
from nmt.errors import DataError
from nmt.settings.config_file import load_file
from nmt.storage.atomic import digest, flush, replace, write_json
from nmt.storage.bounded import check_inside, check_regular
from nmt.storage.output import check_not_input
from nmt.storage.run_files import check_outside_runs


def fetch_corpus(
    name: str,
    folder: Path,
    say: Callable[[str], None],
    from_path: Path | None = None,
    force: bool = False,
) -> tuple[Path, dict[str, int]]:
    """Fetch the files of corpus `name` into its own folder below the data folder `folder`.

    Returns the corpus' folder and the number of pairs in each split. Existing files are verified
    and not fetched again, unless `force` is set. With `from_path`, files are copied instead of
    downloaded. If `from_path` is a folder, each file is looked up in it by name, at any depth.
    Splits other than train, valid and test are left out of the counts if `from_path` lacks their
    files. `say` gets a line per step.

    Raises DataError if a file cannot be fetched or fails its checksum, if the corpus' folder is a
    link that leads out of `folder`, or if a counted split cannot be read. Raises
    ConfigError if the corpus' folder belongs to a run.
    """
    entry = find_entry(name, folder)
    target_folder = corpus_folder(name, entry, folder)
    if entry.embedded:
        say(f"{name} comes with the package: nothing to fetch")
    elif not entry.files:
        raise DataError(f"corpus '{name}': its entry lists no files, so there is nothing to fetch")
    else:
        check_inside(target_folder, folder, DataError)
        check_outside_runs(target_folder, "the corpus")
    if from_path is not None and not from_path.exists():
        raise DataError(f"`from_path={from_path}`: no such file or folder")
    missing_files: set[str] = set()
    for file_name, spec in entry.files.items():
        target = target_folder / file_name
        file = _File(name, target, spec if force else _pinned(spec, target), say)
        try:
            if not force and file.exists():
                continue
            if from_path is None:
                file.download()
            elif not file.copy(from_path, is_alone=len(entry.files) == 1):
                say(f"{file_name}: left out, not in {from_path}")
                missing_files.add(file_name)
        except OSError as error:
            raise DataError(f"{error.filename or target}: {error.strerror or error}") from None
    counts: dict[str, int] = {}
    for split in entry.split_names:
        missing_of_split = {text.parts[0] for text in entry.texts(split)} & missing_files
        if not missing_of_split:
            counts[split] = count_pairs(name, split, folder)
        elif split in RUN_SPLITS:
            problem = f"{', '.join(sorted(missing_of_split))} not in {from_path}"
            raise DataError(f"corpus '{name}': split '{split}' cannot be read: {problem}")
    say(f"licence: {entry.licence}; attribution: {entry.attribution or 'none given'}")
    return target_folder, counts


class _File:
    """One file of a corpus, to be fetched to `target`."""

    def __init__(
        self, corpus: str, target: Path, spec: CorpusFile, say: Callable[[str], None]
    ) -> None:
        self.target, self._part = target, target.with_name(f"{target.name}.part")
        self._corpus, self._name, self._spec, self._say = corpus, target.name, spec, say

    def exists(self) -> bool:
        """Return whether the file exists. Raises DataError if its checksum is wrong."""
        if not self.target.is_file():
            return False
        try:
            source = verify_checksum(self.target, self._spec.sources)
        except DataError as error:
            raise DataError(f"{error}; remove it, or use `force` to fetch it again") from None
        self._say(f"{self._name}: already there ({source.name})")
        return True

    def download(self) -> None:
        """Download the file from the first source whose file passes its checksum."""
        failures = []
        for source in self._spec.sources:
            if source.url is None:
                continue
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self._say(f"{self._name}: from {source.url}")
            try:
                max_bytes = source.bytes or self._spec.max_bytes
                download(source.url, self._part, max_bytes, resume=source.checksum is not None)
                return self._install((source,), source.url)
            except DataError as error:
                failures.append(str(error))
                self._say(f"{error}")
        if any(source.bytes for source in self._spec.sources):
            failures.append("`force` accepts a file that differs from the first fetch")
        reasons = "; ".join(failures) or "the catalogue gives no address"
        remedy = f"if you have it, use: nmt corpus fetch {self._corpus} `from_path=PATH`"
        raise DataError(f"cannot download {self._name}: {reasons}; {remedy}")

    def copy(self, from_path: Path, is_alone: bool) -> bool:
        """Copy the file from `from_path`, a file or a folder. Return False if it is missing there.

        With `is_alone`, the corpus has only this file, and `from_path` may have any name. In a
        folder, the first file with the right name and checksum is copied.
        """
        paths = [from_path] if is_alone or from_path.name == self._name else []
        if from_path.is_dir():
            paths = sorted(from_path.rglob(self._name))
        failures = []
        for path in paths:
            if path.resolve() == self.target.resolve():
                continue
            check_regular(path.stat().st_mode, path)
            self.target.parent.mkdir(parents=True, exist_ok=True)
            check_not_input(self._part, {"`from_path`": [path]}, "the temporary file")
            self._part.unlink(missing_ok=True)
            shutil.copyfile(path, self._part)
            try:
                self._install(self._spec.sources, str(path))
            except DataError as error:
                failures.append(str(error))
            else:
                return True
        if failures:
            raise DataError("; ".join(failures))
        return False

    def _install(self, sources: tuple[Source, ...], origin: str) -> None:
        """Verify the temporary file and rename it to the target, or remove it."""
        try:
            source = verify_checksum(self._part, sources, origin)
        except DataError:
            self._part.unlink(missing_ok=True)
            raise
        flush(self._part)
        replace(self._part, self.target)
        outcome = "checksum right"
        if source.checksum is None:
            pin = source.model_dump() | {"checksum": f"sha256:{digest(self.target)}"}
            pin |= {"name": "the first fetch", "bytes": self.target.stat().st_size or None}
            write_json(_pin_path(self.target), pin)
            outcome = f"checksum recorded in {_pin_path(self.target).name}"
        self._say(f"{self._name}: {origin} ({source.name}: {outcome})")


def _pin_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.pin.json")


def _pinned(spec: CorpusFile, target: Path) -> CorpusFile:
    """Return `spec` with the recorded checksum of `target` for sources without a checksum."""
    if not _pin_path(target).is_file():
        return spec
    pin = load_file(_pin_path(target), (), Source).model_dump(exclude={"url"})
    sources = (src if src.checksum else src.model_copy(update=pin) for src in spec.sources)
    return spec.model_copy(update={"sources": tuple(sources)})


def verify_checksum(path: Path, sources: tuple[Source, ...], name: str | None = None) -> Source:
    """Return the source whose checksum fits the file, or the first source without a checksum.

    Raises DataError, beginning with `name` (by default `path`), if there is neither.
    """
    digests: dict[str, str] = {}
    for source in sorted(sources, key=lambda source: source.checksum is None):
        if source.checksum is None:
            return source
        kind = source.checksum.partition(":")[0]
        if kind not in digests:
            digests[kind] = f"{kind}:{digest(path, kind)}"
        if digests[kind] == source.checksum:
            return source
    allowed = ", ".join(f"{source.checksum} ({source.name})" for source in sources)
    got = ", ".join(digests.values())
    raise DataError(f"{name or path}: wrong checksum: got {got}, allowed: {allowed}")
