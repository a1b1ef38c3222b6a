"""Sentence pairs that the caller of `train` has in memory, kept as text files of the run."""

import re
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from nmt.config import RunConfig
from nmt.errors import DataError
from nmt.settings.config_file import Override, with_overrides
from nmt.storage.atomic import replacing, write_bytes
from nmt.storage.run_files import check_tree
from nmt.translation.arguments import check_several

Pairs = Iterable[tuple[str, str]]
"""Source texts, each with its translation."""

_BOM = "\ufeff"
"""Begins each file, because a reader removes one, and the first text may begin with another."""

_NO_LINE = re.compile("[\n\r\ud800-\udfff]")


class MemoryPairs:
    """The texts of some splits: `texts` maps each file of a run to its content."""

    def __init__(self, run: Path, splits: Mapping[str, Pairs | None]) -> None:
        """Check the pairs of each split that is not None.

        Raises DataError for a text that is no line of a UTF-8 file, and TypeError for what is no
        pair of str.
        """
        self.run = run
        self.texts: dict[Path, bytes] = {}
        self._overrides: list[Override] = []
        for name, pairs in splits.items():
            if pairs is None:
                continue
            check_several(name, pairs)
            rows = [_checked(pair, f"{name}[{index}]") for index, pair in enumerate(pairs)]
            files = {side: run / "pairs" / f"{name}.{side}" for side in ("src", "tgt")}
            for column, path in enumerate(files.values()):
                self.texts[path] = "".join([_BOM, *(f"{row[column]}\n" for row in rows)]).encode()
            paths = {side: str(path) for side, path in files.items()}
            self._overrides.append(Override(f"data.{name}", paths, f"the pairs of {name}"))

    def in_config(self, config: RunConfig) -> RunConfig:
        """Return `config` with the files as its splits. Raises ConfigError for a contradiction."""
        return with_overrides(config, self._overrides)

    def write(self) -> None:
        """Write the files. The caller must hold the lock of the run.

        Raises CheckpointError if the run contains a link.
        """
        check_tree(self.run)
        for path, content in self.texts.items():
            path.parent.mkdir(exist_ok=True)
            with replacing(path) as aside:
                write_bytes(aside, content)


def _checked(pair: object, where: str) -> tuple[str, str]:
    match pair:
        case [str(source), str(target)]:
            for text in (source, target):
                if _NO_LINE.search(text):
                    got = reprlib.repr(text)
                    raise DataError(f"{where}: got {got}, allowed: one line of Unicode text")
            return source, target
    raise TypeError(f"{where}: got {reprlib.repr(pair)}, allowed: a pair of str")
