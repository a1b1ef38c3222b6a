"""Verification of what lands in the data folder, and the name of a file that cannot be had."""

import gzip
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from corpora.test_download import serving
from corpora.test_text_files import write_zip

from nmt.corpora.fetch import fetch_corpus
from nmt.errors import ConfigError, DataError

TEXTS = {"train": "a\nb\nc\n", "valid": "d\n", "test": "e\nf\n", "extra": "g\n"}
NAMES = [f"{name}.{lang}.gz" for name in TEXTS for lang in ("en", "fr")]
Fetch = Callable[..., tuple[Path, dict[str, int]]]


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """The folder with the files of a small corpus, below `shelf`."""
    shelf = tmp_path / "shelf" / "deep" / "down"
    shelf.mkdir(parents=True)
    for name in NAMES:
        text = TEXTS[name.partition(".")[0]]
        (shelf / name).write_bytes(gzip.compress(text.encode(), mtime=0))
    return shelf


@pytest.fixture
def served(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server of the shelf."""
    monkeypatch.setenv("no_proxy", "*")
    with serving(shelf) as address:
        yield address


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def fetch(tmp_path: Path, shelf: Path, served: str, said: list[str]) -> Fetch:
    """fetch_corpus of the corpus `small`, whose addresses are those of the server."""
    splits = {name: {"src": f"{name}.en.gz", "tgt": f"{name}.fr.gz"} for name in TEXTS}
    files = {}
    for name in NAMES:
        checksum = f"sha256:{hashlib.sha256((shelf / name).read_bytes()).hexdigest()}"
        files[name] = {"sources": [{"url": f"{served}/{name}", "checksum": checksum}]}
    write_catalog(tmp_path, "small", splits, files=files)
    return partial(fetch_corpus, "small", tmp_path / "data", said.append)


def write_catalog(tmp_path: Path, name: str, splits: dict[str, Any], **keys: object) -> None:
    (tmp_path / "data").mkdir(exist_ok=True)
    entries = {name: {"src_lang": "en", "tgt_lang": "fr", "splits": splits, **keys}}
    (tmp_path / "data" / "catalog.yaml").write_text(json.dumps(entries))  # JSON is YAML


def edit_train(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = tmp_path / "data" / "catalog.yaml"
    entries = json.loads(path.read_text())
    change(entries["small"]["files"]["train.en.gz"])
    path.write_text(json.dumps(entries))


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_changed_file_is_fetched_once_it_is_removed(fetch, tmp_path, said) -> None:
    """A link where a file belongs is replaced by the file."""
    home = tmp_path / "data" / "small"
    home.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    edited = home / "train.en.gz"
    for path in (edited, home / "train.en.gz.part"):
        path.symlink_to(victim)
    assert fetch(force=True) == (home, {"train": 3, "valid": 1, "test": 2, "extra": 1})
    assert victim.read_text() == "mine"
    assert names_in(home) == set(NAMES)
    edited.write_bytes(b"edited")
    with pytest.raises(DataError, match=r"train\.en\.gz: wrong checksum.*`force`"):
        fetch()
    assert edited.read_bytes() == b"edited"
    edited.unlink()
    for force, n_fetched in ((False, 1), (True, 8)):
        said.clear()
        fetch(force=force)
        assert sum("checksum right" in line for line in said) == n_fetched


def test_a_wrong_checksum_is_refused_and_leaves_nothing(fetch, tmp_path, shelf) -> None:
    (shelf / "train.en.gz").write_bytes(gzip.compress(b"tampered\n", mtime=0))
    got = hashlib.sha256((shelf / "train.en.gz").read_bytes()).hexdigest()
    for origin in (None, shelf):
        with pytest.raises(DataError, match=rf"wrong checksum: got sha256:{got}, allowed: sha256:"):
            fetch(from_path=origin)
        assert names_in(tmp_path / "data" / "small") == set()


def test_a_file_that_cannot_be_had_names_address_and_way_out(
    fetch: Fetch, tmp_path: Path, shelf: Path, served: str, said: list[str]
) -> None:
    """After the next source was tried."""
    checksum = f"sha256:{'0' * 64}"
    dead = {"name": "dead", "url": f"{served}/gone.gz", "checksum": checksum}
    edit_train(tmp_path, lambda file: file["sources"].insert(0, dead))
    fetch()
    assert f"{served}/gone.gz: HTTP 404 File not found" in said
    assert any("train.en.gz (main: checksum right)" in line for line in said)
    for path in (tmp_path / "data" / "small" / "train.en.gz", shelf / "train.en.gz"):
        path.unlink()
    problem = rf"{served}/train.en.gz: HTTP 404.*\s*.*nmt corpus fetch small `from_path=PATH`"
    with pytest.raises(DataError, match=problem):
        fetch()
    edit_train(tmp_path, lambda file: file.update(sources=[{"name": "old", "checksum": checksum}]))
    with pytest.raises(DataError, match=r"the catalogue gives no address; .*`from_path=PATH`"):
        fetch()
    edit_train(tmp_path, lambda file: file.update(max_bytes=5, sources=[{"url": f"{served}/x"}]))
    (shelf / "x").write_bytes(b"123456")
    with pytest.raises(DataError, match="more than the 5 bytes that the catalogue allows"):
        fetch()


def test_from_a_folder_leaves_out_absent_files(fetch, shelf, said, tmp_path) -> None:
    (shelf / "extra.fr.gz").unlink()
    _, counts = fetch(from_path=tmp_path / "shelf")
    assert f"extra.fr.gz: left out, not in {tmp_path / 'shelf'}" in said
    assert counts == {"train": 3, "valid": 1, "test": 2}
    (shelf / "valid.fr.gz").unlink()
    assert fetch(from_path=shelf)[1]["valid"] == 1  # kept from before
    (tmp_path / "data" / "small" / "valid.fr.gz").unlink()
    with pytest.raises(DataError, match=r"split 'valid' cannot be read: valid\.fr\.gz not in"):
        fetch(from_path=shelf)
    with pytest.raises(DataError, match=r"^`from_path=no`: no such file or folder$"):
        fetch(from_path=Path("no"))


def test_a_fifo_a_link_and_the_file_itself_are_no_source(tmp_path: Path) -> None:
    """The FIFO would be waited for; the file is written before it would be read."""
    files = {"x.zip": {"sources": [{"url": "https://x.invalid/x.zip"}]}}  # without a checksum
    write_catalog(tmp_path, "zipped", {"all": {"file": "x.zip"}}, files=files)
    fetch_zip = partial(fetch_corpus, "zipped", tmp_path / "data", print)
    path = tmp_path / "Downloads" / "x.zip"
    path.parent.mkdir()
    os.mkfifo(path)
    for origin in (path, path.parent):
        with pytest.raises(DataError, match=rf"^{path}: a FIFO, expected a regular file$"):
            fetch_zip(from_path=origin)
    home, elsewhere = tmp_path / "data" / "zipped", tmp_path / "elsewhere"
    home.mkdir(exist_ok=True)
    path = write_zip(home / "x.zip.part", {"fra.txt": "line\tligne\n"})
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"x.zip.part is also an input \(`from_path`: "):
        fetch_zip(from_path=path)
    assert path.read_bytes() == before
    home.rename(elsewhere)
    home.symlink_to(elsewhere)
    with pytest.raises(DataError, match="a link out of"):
        fetch_zip(from_path=write_zip(tmp_path / "x.zip", {"fra.txt": "line\tligne\n"}))
    assert names_in(elsewhere) == {"x.zip.part"}


def test_corpora_without_files_are_not_fetched(tmp_path: Path, said: list[str]) -> None:
    _, counts = fetch_corpus("starter", tmp_path, said.append)
    assert said[0] == "starter comes with the package: nothing to fetch"
    assert counts["test"] == 600
    assert list(tmp_path.iterdir()) == []
    write_catalog(tmp_path, "mine", {"train": {"file": "a.tsv"}})
    with pytest.raises(DataError, match="'mine': its entry lists no files"):
        fetch_corpus("mine", tmp_path / "data", print)
