"""Fetch a named corpus: download its files, or copy them from a file or folder.

Each file is written aside as NAME.part, checked against the catalogue's checksums, and then moved
into place. Archives are read in place, so nothing is ever unpacked.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from nmt.corpora.corpora import count_pairs
from nmt.corpora.download import download
from nmt.corpora.entries import RUN_SPLITS, CorpusFile, Source, corpus_folder, find_entry
from nmt.errors import DataError
from nmt.storage.atomic import digest, flush, replace
from nmt.storage.bounded import check_regular, stay_inside
from nmt.storage.output import check_apart
from nmt.storage.run_files import check_outside_runs


def fetch_corpus(
    name: str,
    folder: Path,
    say: Callable[[str], None],
    from_path: Path | None = None,
    force: bool = False,
) -> tuple[Path, dict[str, int]]:
    """Fetch the files of corpus `name`; return its folder, and the pairs of each split.

    Files that are there are kept, unless `force`; one that is not correct is an error. With
    `from_path`, a file or a folder, nothing is downloaded: each file is looked for there by its
    name, at any depth, and a file that is missing there is left out. `say` gets a line for each
    step. Raises DataError where a file cannot be fetched, fails its checksum, where the corpus'
    folder is a link out of `folder`, or where train, valid or test cannot be read.
    """
    entry = find_entry(name, folder)
    home = corpus_folder(name, entry, folder)
    if entry.embedded:
        say(f"{name} comes with the package: nothing to fetch")
    elif not entry.files:
        raise DataError(f"corpus '{name}': its entry lists no files, so there is nothing to fetch")
    else:
        stay_inside(home, folder, DataError)
        check_outside_runs(home, "the corpus")
    if from_path is not None and not from_path.exists():
        raise DataError(f"`from_path={from_path}`: no such file or folder")
    left_out: set[str] = set()
    for file_name, spec in entry.files.items():
        file = _File(name, home, file_name, spec, say)
        try:
            if not force and file.is_there():
                continue
            if from_path is None:
                file.download()
            elif not file.copy(from_path, is_alone=len(entry.files) == 1):
                say(f"{file_name}: left out, not in {from_path}")
                left_out.add(file_name)
        except OSError as error:
            where = error.filename or file.target
            raise DataError(f"{where}: {error.strerror or error}") from None
    counts: dict[str, int] = {}
    for split in entry.split_names:
        lacking = {text.parts[0] for text in entry.texts(split)} & left_out
        if lacking and split in RUN_SPLITS:
            raise DataError(
                f"corpus '{name}': split '{split}' cannot be read: "
                f"{', '.join(sorted(lacking))} not in {from_path}"
            )
        if not lacking:
            counts[split] = count_pairs(name, split, folder)
    say(f"licence: {entry.licence}; attribution: {entry.attribution or 'none given'}")
    return home, counts


class _File:
    """One file of a corpus in its folder `home`; `say` gets a line for each step."""

    def __init__(
        self, corpus: str, home: Path, name: str, spec: CorpusFile, say: Callable[[str], None]
    ) -> None:
        self.target, self._part = home / name, home / f"{name}.part"
        self._corpus, self._name, self._spec, self._say = corpus, name, spec, say

    def is_there(self) -> bool:
        """Whether the file is there already. Raises DataError for one that is not correct."""
        if not self.target.is_file():
            return False
        try:
            source = verify(self.target, self._spec.sources)
        except DataError as error:
            raise DataError(f"{error}; remove it, or `force` fetches again") from None
        self._say(f"{self._name}: already there ({source.name})")
        return True

    def download(self) -> None:
        """Download the file from the first source that has a correct one."""
        failures = []
        for source in self._spec.sources:
            if source.url is None:
                continue
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self._say(f"{self._name}: from {source.url}")
            try:
                download(
                    source.url, self._part, self._spec.max_bytes, resume=source.checksum is not None
                )
                return self._install((source,), source.url)
            except DataError as error:
                failures.append(str(error))
                self._say(f"{error}")
        reasons = "; ".join(failures) or "the catalogue gives no address"
        raise DataError(
            f"cannot download {self._name}: {reasons}; where you have the file, use: "
            f"nmt corpus fetch {self._corpus} `from_path=PATH`"
        )

    def copy(self, from_path: Path, is_alone: bool) -> bool:
        """Copy the file from `from_path`, a file or a folder; False where it is not there.

        The only file of its corpus may have another name there. Of several with the right name the
        first one that is correct is taken.
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
            check_apart(self._part, {"`from_path`": [path]}, "the file that is written first")
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
        """Verify the part and move it into place; a part that fails is removed."""
        try:
            source = verify(self._part, sources, origin)
        except DataError:
            self._part.unlink(missing_ok=True)
            raise
        flush(self._part)
        replace(self._part, self.target)
        word = "checksum right" if source.checksum else "no checksum to hold it against"
        self._say(f"{self._name}: {origin} ({source.name}: {word})")


def verify(path: Path, sources: tuple[Source, ...], shown: str | None = None) -> Source:
    """The source whose checksum `path` has, else the first source without a checksum.

    Raises DataError, which names the file by `shown`, with got and allowed.
    """
    digests: dict[str, str] = {}
    for source in sources:
        if source.checksum is not None:
            kind = source.checksum.partition(":")[0]
            if kind not in digests:
                digests[kind] = f"{kind}:{digest(path, kind)}"
            if digests[kind] == source.checksum:
                return source
    for source in sources:
        if source.checksum is None:
            return source
    allowed = ", ".join(f"{source.checksum} ({source.name})" for source in sources)
    raise DataError(
        f"{shown or path}: wrong checksum: got {', '.join(digests.values())}, allowed: {allowed}"
    )
