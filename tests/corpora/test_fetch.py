"""Verification of what lands in the data folder, and the name of a file that cannot be had."""

import gzip
import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from corpora.test_download import serving

from nmt.corpora.fetch import fetch_corpus
from nmt.errors import ConfigError, DataError

TEXTS = {"train": "a\nb\nc\n", "valid": "d\n", "test": "e\nf\n", "extra": "g\n"}
Fetch = Callable[..., tuple[Path, dict[str, int]]]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """The folder with the files of a small corpus, below `shelf`."""
    shelf = tmp_path / "shelf" / "deep" / "down"
    shelf.mkdir(parents=True)
    for name, text in TEXTS.items():
        for lang in ("en", "fr"):
            (shelf / f"{name}.{lang}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return shelf


@pytest.fixture
def served(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server of the shelf."""
    monkeypatch.setenv("no_proxy", "*")
    with serving(partial(Quiet, directory=str(shelf))) as address:
        yield address


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "data" / "small"


@pytest.fixture
def fetch(tmp_path: Path, shelf: Path, served: str, said: list[str]) -> Fetch:
    """fetch_corpus of the corpus `small`, whose addresses are those of the server."""
    files, splits = {}, {}
    for name in TEXTS:
        splits[name] = {"src": f"{name}.en.gz", "tgt": f"{name}.fr.gz"}
        for lang in ("en", "fr"):
            file = f"{name}.{lang}.gz"
            sha256 = hashlib.sha256((shelf / file).read_bytes()).hexdigest()
            files[file] = {"sources": [{"url": f"{served}/{file}", "checksum": f"sha256:{sha256}"}]}
    entry = {"src_lang": "en", "tgt_lang": "fr", "splits": splits, "files": files}
    write_catalog(tmp_path, {"small": entry})
    return partial(fetch_corpus, "small", tmp_path / "data", said.append)


def write_catalog(tmp_path: Path, entries: dict[str, Any]) -> None:
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "catalog.yaml").write_text(json.dumps(entries))  # JSON is YAML


def edit_train(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the catalogue's entry of train.en.gz."""
    path = tmp_path / "data" / "catalog.yaml"
    entries = json.loads(path.read_text())
    change(entries["small"]["files"]["train.en.gz"])
    path.write_text(json.dumps(entries))


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_changed_file_is_fetched_once_it_is_removed(
    fetch: Fetch, home: Path, said: list[str]
) -> None:
    assert fetch() == (home, {"train": 3, "valid": 1, "test": 2, "extra": 1})
    assert names_in(home) == {f"{name}.{lang}.gz" for name in TEXTS for lang in ("en", "fr")}
    edited = home / "train.en.gz"
    edited.write_bytes(b"edited")
    with pytest.raises(DataError, match=r"train\.en\.gz: wrong checksum.*`force`"):
        fetch()
    assert edited.read_bytes() == b"edited"
    edited.unlink()
    for force, n_fetched in ((False, 1), (True, 8)):
        said.clear()
        fetch(force=force)
        assert sum("checksum right" in line for line in said) == n_fetched


def test_a_wrong_checksum_is_refused_and_leaves_nothing(
    fetch: Fetch, home: Path, shelf: Path
) -> None:
    (shelf / "train.en.gz").write_bytes(gzip.compress(b"tampered\n", mtime=0))
    got = hashlib.sha256((shelf / "train.en.gz").read_bytes()).hexdigest()
    for origin in (None, shelf):
        with pytest.raises(
            DataError, match=rf"wrong checksum: got sha256:{got}, allowed: sha256:.* \(main\)"
        ):
            fetch(from_path=origin)
        assert names_in(home) == set()


def test_a_file_that_cannot_be_had_names_address_and_way_out(
    fetch: Fetch, tmp_path: Path, shelf: Path, served: str
) -> None:
    (shelf / "train.en.gz").unlink()
    with pytest.raises(DataError) as caught:
        fetch()
    assert f"{served}/train.en.gz: HTTP 404" in str(caught.value)
    assert "nmt corpus fetch small `from_path=PATH`" in str(caught.value)
    edit_train(
        tmp_path,
        lambda file: file.update(sources=[{"name": "old", "checksum": f"sha256:{'0' * 64}"}]),
    )
    with pytest.raises(DataError, match=r"the catalogue gives no address; .*`from_path=PATH`"):
        fetch()
    edit_train(tmp_path, lambda file: file.update(max_bytes=5, sources=[{"url": f"{served}/x"}]))
    (shelf / "x").write_bytes(b"123456")
    with pytest.raises(DataError, match="more than the 5 bytes that the catalogue allows"):
        fetch()


def test_the_next_source_is_tried(
    fetch: Fetch, tmp_path: Path, said: list[str], served: str, home: Path
) -> None:
    dead = {"name": "dead", "url": f"{served}/gone.gz", "checksum": f"sha256:{'0' * 64}"}
    edit_train(tmp_path, lambda file: file["sources"].insert(0, dead))
    fetch()
    assert f"{served}/gone.gz: HTTP 404 File not found" in said
    assert any("train.en.gz (main: checksum right)" in line for line in said)


def test_from_a_folder_leaves_out_absent_files(
    fetch: Fetch, shelf: Path, said: list[str], tmp_path: Path, home: Path
) -> None:
    (shelf / "extra.fr.gz").unlink()
    other = tmp_path / "shelf" / "another corpus" / "train.en.gz"
    other.parent.mkdir()
    other.write_bytes(b"another train.en.gz")
    _, counts = fetch(from_path=tmp_path / "shelf")
    assert f"extra.fr.gz: left out, not in {tmp_path / 'shelf'}" in said
    assert counts == {"train": 3, "valid": 1, "test": 2}
    (shelf / "valid.fr.gz").unlink()
    assert fetch(from_path=shelf)[1]["valid"] == 1  # kept from before
    (home / "valid.fr.gz").unlink()
    with pytest.raises(DataError, match=r"split 'valid' cannot be read: valid\.fr\.gz not in"):
        fetch(from_path=shelf)
    with pytest.raises(DataError, match=r"^`from_path=no`: no such file or folder$"):
        fetch(from_path=Path("no"))


@pytest.fixture
def fetch_zip(tmp_path: Path, said: list[str]) -> Fetch:
    """fetch_corpus of a corpus that is one zip without a checksum, cut by hash."""
    entry = {
        "src_lang": "en",
        "tgt_lang": "fr",
        "splits": {"all": {"file": "x.zip"}},
        "hash_split": {"valid": 0.1, "test": 0.1},
        "files": {"x.zip": {"sources": [{"url": "https://example.invalid/x.zip"}]}},
    }
    write_catalog(tmp_path, {"zipped": entry})
    return partial(fetch_corpus, "zipped", tmp_path / "data", said.append)


LINES = "".join(f"line {n}\tligne {n}\n" for n in range(200))


def make_zip(path: Path, name: str = "fra.txt", text: str = LINES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, text)
    return path


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_fifo_is_not_waited_for(fetch_zip: Fetch, tmp_path: Path, is_folder: bool) -> None:
    path = tmp_path / "Downloads" / "x.zip"
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(DataError, match=rf"^{path}: a FIFO, expected a regular file$"):
        fetch_zip(from_path=path.parent if is_folder else path)


def test_the_file_that_is_written_first_is_no_source(fetch_zip: Fetch, tmp_path: Path) -> None:
    path = make_zip(tmp_path / "data" / "zipped" / "x.zip.part")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"x.zip.part is read as well \(`from_path`: "):
        fetch_zip(from_path=path)
    assert path.read_bytes() == before


def test_a_corpus_folder_that_is_a_link_is_refused(fetch_zip: Fetch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data" / "zipped").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="a link out of"):
        fetch_zip(from_path=make_zip(tmp_path / "one" / "x.zip"))
    assert not list((tmp_path / "elsewhere").iterdir())


def test_links_in_the_place_of_files_are_replaced(fetch: Fetch, tmp_path: Path, home: Path) -> None:
    home.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for suffix in ("", ".part"):
        (home / f"train.en.gz{suffix}").symlink_to(victim)
    fetch(force=True)
    assert victim.read_text() == "mine"
    assert not any(path.is_symlink() for path in home.iterdir())


def test_corpora_without_files_are_not_fetched(tmp_path: Path, said: list[str]) -> None:
    _, counts = fetch_corpus("starter", tmp_path, said.append)
    assert said[0] == "starter comes with the package: nothing to fetch"
    assert counts["test"] == 600
    assert list(tmp_path.iterdir()) == []
    entry = {"src_lang": "en", "tgt_lang": "fr", "splits": {"train": {"file": "a.tsv"}}}
    write_catalog(tmp_path, {"mine": entry})
    with pytest.raises(DataError, match="'mine': its entry lists no files"):
        fetch_corpus("mine", tmp_path / "data", print)
