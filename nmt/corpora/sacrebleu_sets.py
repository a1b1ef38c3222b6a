"""Test sets by name, which sacreBLEU downloads, verifies and keeps."""

from pathlib import Path
from typing import Any

from nmt.errors import ConfigError, DataError, did_you_mean


def check_test_set(name: str, languages: tuple[str, str]) -> Any:
    """Return sacreBLEU's test set, on disk or not. Raises ConfigError if it has no such set."""
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        meant = did_you_mean(name, DATASETS)
        raise ConfigError(f"sacrebleu: got '{name}', allowed: a name of `sacrebleu --list`{meant}")
    dataset: Any = DATASETS[name]
    pair = "-".join(languages)
    if pair not in dataset.langpairs:
        allowed = ", ".join(dataset.langpairs)
        raise ConfigError(f"sacrebleu: got {name} for {pair}, allowed for {name}: {allowed}")
    return dataset


def find_test_set(name: str, languages: tuple[str, str]) -> dict[str, object]:
    """Return the paths `src` and `tgt` of a test set, which is downloaded where it is not on disk.

    Raises the errors of `check_test_set`, and DataError if sacreBLEU fails.
    """
    dataset, pair = check_test_set(name, languages), "-".join(languages)
    try:
        src, tgts = dataset.get_source_file(pair), dataset.get_reference_files(pair)
    except (Exception, SystemExit) as error:  # it exits where a checksum is wrong
        reason = " ".join(str(error).split())
        raise DataError(
            f"sacreBLEU cannot get {name} for {pair}: {type(error).__name__} {reason}; remove "
            f"{dataset._rawdir} if a download was cut"
        ) from None
    return {"src": Path(src), "tgt": tuple(map(Path, tgts))}
