"""Named test sets, which sacreBLEU downloads, verifies and caches."""

from pathlib import Path
from typing import Any

from nmt.errors import ConfigError, DataError, did_you_mean


def check_test_set(name: str, languages: tuple[str, str]) -> Any:
    """Return sacreBLEU's test set, without a download. Raises ConfigError if it does not exist."""
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        hint = did_you_mean(name, DATASETS)
        raise ConfigError(f"sacrebleu: got '{name}', allowed: a name of `sacrebleu --list`{hint}")
    dataset: Any = DATASETS[name]
    pair = "-".join(languages)
    if pair not in dataset.langpairs:
        allowed = ", ".join(dataset.langpairs)
        raise ConfigError(f"sacrebleu: got {name} for {pair}, allowed for {name}: {allowed}")
    return dataset


def find_test_set(name: str, languages: tuple[str, str]) -> dict[str, object]:
    """Return the paths `src` and `tgt` of a test set, downloaded if they are not on disk.

    Raises the errors of `check_test_set`, and DataError if sacreBLEU fails.
    """
    dataset, pair = check_test_set(name, languages), "-".join(languages)
    try:
        src, tgts = dataset.get_source_file(pair), dataset.get_reference_files(pair)
    except (Exception, SystemExit) as error:  # sacreBLEU exits if a checksum is wrong
        reason = " ".join(str(error).split())
        raise DataError(
            f"sacreBLEU cannot get {name} for {pair}: {type(error).__name__} {reason}; remove "
            f"{dataset._rawdir} if a download was interrupted"
        ) from None
    return {"src": Path(src), "tgt": tuple(map(Path, tgts))}
