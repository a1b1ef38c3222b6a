"""The examples to score: a split of a run's data, or lines of files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nmt.corpora.corpora import read_examples, resolve_split
from nmt.corpora.entries import RUN_SPLITS
from nmt.corpora.readers.aligned import read_references
from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.corpora.text_files import read_lines
from nmt.errors import ConfigError, DataError
from nmt.types import EvalExample


@dataclass(frozen=True, slots=True)
class TestSet:
    """Examples to score: their name and corpus, and what a report notes of their origin."""

    __test__ = False  # no class of tests

    examples: list[EvalExample]
    name: str
    corpus: str
    about: dict[str, object]


def files_as_test_set(src: Path | None, refs: Sequence[Path]) -> TestSet:
    """Read line n of `src` with line n of each of `refs`; without `src` source texts are empty.

    Raises DataError if the files are empty or differ in their number of lines.
    """
    source = src or refs[0]
    examples = read_references(source, refs)
    if not examples:
        raise DataError(f"{source}: no lines, there must be at least one")
    about: dict[str, object] = {
        "corpus": str(source),
        "split": source.name,
        "src": str(src) if src else None,
        "refs": [str(path) for path in refs],
    }
    if src is None:
        examples = [replace(example, src_text="") for example in examples]
    return TestSet(examples, source.name, str(source), about)


def split_as_test_set(name: str, data: DataConfig) -> TestSet:
    """Return a split of a run's data as a test set. Raises ConfigError, DataError."""
    split = split_named(data, name)
    corpus = f"{split.corpus} {split.split}" if split.corpus else str(split.file or split.src)
    entry = split.model_dump(mode="json", exclude_none=True)
    about: dict[str, object] = {"corpus": corpus, "split": name, "data": entry}
    return TestSet(read_examples(split, data), name, corpus, about)


def split_named(data: DataConfig, name: str) -> SplitConfig:
    """Return the run's train, valid or test split, or another of its corpus. Raises ConfigError."""
    for run_split in RUN_SPLITS:
        if name == run_split:
            split = resolve_split(data, run_split)
            if split is None:
                raise ConfigError(
                    f"`split`: the run's config has no {name} set; "
                    f"set data.{name} there, or give `src` and `ref`"
                )
            return split
    corpora = [data.corpus, *(split.corpus for split in (data.test, data.valid) if split)]
    corpus = next((corpus for corpus in corpora if corpus is not None), None)
    if corpus is None:
        raise ConfigError(
            f"`split`: got '{name}', allowed: {', '.join(RUN_SPLITS)} "
            "(the run reads no named corpus, which might have others)"
        )
    return SplitConfig(corpus=corpus, split=name)


def read_translations(path: Path, n_lines: int, corpus: str) -> list[str]:
    """Read the `n_lines` lines of `path`, a translation of `corpus`. Raises DataError."""
    lines = read_lines(path)
    if len(lines) != n_lines:
        raise DataError(
            f"{path} has {len(lines)} lines, but {corpus} has {n_lines}; "
            "there must be one translation a line, in the same order"
        )
    return lines
