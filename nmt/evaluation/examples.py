"""Test sets: a split of a run's data, or parallel files."""

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
    """Examples to score.

    `corpus` names their origin in messages, and `about` describes it in reports. Names of reports
    begin with `name`.
    """

    __test__ = False  # pytest: not a test class

    examples: list[EvalExample]
    name: str
    corpus: str
    about: dict[str, object]


def files_as_test_set(
    src: Path | None, refs: Sequence[Path], data: DataConfig | None = None
) -> TestSet:
    """Read a test set from parallel files. If `src` is None, the source texts are empty.

    Without `refs`, `src` has both sides, in the languages of `data`. Raises DataError if the files
    are empty or have different numbers of lines.
    """
    source = src or refs[0]
    if data is None or refs:
        examples = read_references(source, refs)
    else:
        examples = read_examples(SplitConfig(file=source), data)
    if not examples:
        raise DataError(f"{source}: no lines; at least one is required")
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
    """Read a split of a run's data. Raises the errors of find_split and read_examples."""
    split = find_split(data, name)
    files = split.sacrebleu or split.file or split.src
    corpus = f"{split.corpus} {split.split}" if split.corpus else str(files)
    entry = split.model_dump(mode="json", exclude_none=True)
    about: dict[str, object] = {"corpus": corpus, "split": name, "data": entry}
    return TestSet(read_examples(split, data), name, corpus, about)


def find_split(data: DataConfig, name: str) -> SplitConfig:
    """Return a split of the run (RUN_SPLITS) or of its corpus. Raises ConfigError if not found."""
    for run_split in RUN_SPLITS:
        if name == run_split:
            split = resolve_split(data, run_split)
            if split is None:
                remedy = f"add data.{name} to it, or give `src` and `ref`"
                raise ConfigError(f"`split`: the run's config has no {name} set; {remedy}")
            return split
    corpora = [data.corpus, *(split.corpus for split in (data.test, data.valid) if split)]
    corpus = next((corpus for corpus in corpora if corpus is not None), None)
    if corpus is None:
        reason = "other splits are possible only if the run uses a registered corpus"
        allowed = f"{', '.join(RUN_SPLITS)} ({reason})"
        raise ConfigError(f"`split`: got '{name}', allowed: {allowed}")
    return SplitConfig(corpus=corpus, split=name)


def read_translations(path: Path, n_lines: int, corpus: str) -> list[str]:
    """Read `path`, the translation of `corpus`. Raises DataError unless it has `n_lines` lines."""
    lines = read_lines(path)
    if len(lines) != n_lines:
        remedy = "write one translation per line, in the same order"
        raise DataError(f"{path} has {len(lines)} lines, but {corpus} has {n_lines}; {remedy}")
    return lines
