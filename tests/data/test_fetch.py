"""Fetching: what lands in the data folder was verified, and what cannot be had is said."""

import gzip
import hashlib
import json
import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nmt.data import download
from nmt.data.checksums import verify
from nmt.data.entries import Source
from nmt.data.fetch import FetchReport, fetch_corpus
from nmt.errors import ConfigError, DataError

TEXTS = {"train": "a\nb\nc\n", "valid": "d\n", "test": "e\nf\n", "extra": "g\n"}
Fetch = Callable[..., FetchReport]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder with the files of a small corpus, deep inside."""
    shelf = tmp_path / "shelf"
    (shelf / "deep" / "down").mkdir(parents=True)
    for name, text in TEXTS.items():
        for lang in ("en", "fr"):
            path = shelf / "deep" / "down" / f"{name}.{lang}.gz"
            path.write_bytes(gzip.compress(text.encode() + b"", mtime=0))
    return shelf


@pytest.fixture
def served(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server of the shelf."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0.0)
    handler = partial(Quiet, directory=str(shelf / "deep" / "down"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def said() -> list[str]:
    """What `fetch` told, a line each."""
    return []


@pytest.fixture
def fetch(tmp_path: Path, shelf: Path, served: str, said: list[str]) -> Fetch:
    """fetch_corpus of the corpus `small`, whose addresses are those of the server."""
    files, splits = {}, {}
    for name in TEXTS:
        splits[name] = {"src": f"{name}.en.gz", "tgt": f"{name}.fr.gz"}
        for lang in ("en", "fr"):
            file = f"{name}.{lang}.gz"
            sha256 = hashlib.sha256((shelf / "deep" / "down" / file).read_bytes()).hexdigest()
            files[file] = {"sources": [{"url": f"{served}/{file}", "sha256": sha256}]}
    entry = {"src_lang": "en", "tgt_lang": "fr", "splits": splits, "files": files}
    write_catalog(tmp_path, {"small": entry})
    return partial(fetch_corpus, "small", tmp_path / "data", said.append)


def write_catalog(tmp_path: Path, entries: dict[str, object]) -> None:
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "catalog.yaml").write_text(json.dumps(entries))  # JSON is YAML


def edit_catalog(tmp_path: Path, change: Callable[[dict[str, dict[str, object]]], None]) -> None:
    path = tmp_path / "data" / "catalog.yaml"
    entries = json.loads(path.read_text())
    change(entries["small"]["files"])
    path.write_text(json.dumps(entries))


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_corpus_is_downloaded_verified_recorded_and_read(fetch: Fetch, tmp_path: Path) -> None:
    report = fetch()
    home = tmp_path / "data" / "small"
    assert report.folder == home
    assert report.pairs == {"train": 3, "valid": 1, "test": 2, "extra": 1}
    assert len(report.fetched) == 8
    assert names_in(home) == {*report.fetched, "fetched.json"}
    record = json.loads((home / "fetched.json").read_text())["train.en.gz"]
    data = (home / "train.en.gz").read_bytes()
    assert record["sha256"] == hashlib.sha256(data).hexdigest()
    assert record["bytes"] == str(len(data))
    assert record["from"].endswith("/train.en.gz")


def test_what_was_put_there_by_hand_is_kept_and_recorded(
    fetch: Fetch, tmp_path: Path, shelf: Path
) -> None:
    home = tmp_path / "data" / "small"
    home.mkdir(parents=True)
    name = "train.en.gz"
    (home / name).write_bytes((shelf / "deep" / "down" / name).read_bytes())
    assert fetch().kept == [name]
    assert json.loads((home / "fetched.json").read_text())[name]["from"] == str(home / name)


def test_a_source_that_no_file_has(fetch: Fetch) -> None:
    with pytest.raises(ConfigError, match=r"^source of .*: got 'mirror', allowed: main$"):
        fetch(source="mirror")


def test_a_changed_file_is_fetched_once_it_is_removed(fetch: Fetch, tmp_path: Path) -> None:
    fetch()
    edited = tmp_path / "data" / "small" / "train.en.gz"
    edited.write_bytes(b"edited")
    with pytest.raises(DataError, match=r"train\.en\.gz: wrong checksum.*`force`"):
        fetch()
    assert edited.read_bytes() == b"edited"
    edited.unlink()
    report = fetch()
    assert report.fetched == ["train.en.gz"]
    assert len(report.kept) == 7
    assert len(fetch(force=True).fetched) == 8


def test_a_wrong_checksum_is_refused_and_leaves_nothing(
    fetch: Fetch, tmp_path: Path, shelf: Path
) -> None:
    path = shelf / "deep" / "down" / "train.en.gz"
    path.write_bytes(gzip.compress(b"tampered\n", mtime=0))
    got = hashlib.sha256(path.read_bytes()).hexdigest()
    message = rf"train\.en\.gz: wrong checksum: sha256 {got}, allowed main: [0-9a-f]{{64}}"
    with pytest.raises(DataError, match=message):
        fetch()
    assert names_in(tmp_path / "data" / "small") == set()
    with pytest.raises(DataError, match=message):
        fetch(from_path=shelf)
    assert names_in(tmp_path / "data" / "small") == set()


def test_a_dead_address_names_itself_and_from(
    fetch: Fetch, tmp_path: Path, shelf: Path, served: str
) -> None:
    (shelf / "deep" / "down" / "train.en.gz").unlink()
    with pytest.raises(DataError) as caught:
        fetch()
    message = str(caught.value)
    assert f"{served}/train.en.gz: HTTP 404" in message
    assert "nmt corpus fetch small `from_path=PATH`" in message
    assert "\n" not in message


def test_the_next_source_is_tried_and_the_choice_is_said(
    fetch: Fetch, tmp_path: Path, said: list[str], served: str
) -> None:
    def add_dead(files: dict[str, dict[str, object]]) -> None:
        sources = files["train.en.gz"]["sources"]
        assert isinstance(sources, list)
        dead = {"name": "dead", "url": f"{served}/gone.gz", "sha256": "0" * 64}
        files["train.en.gz"]["sources"] = [dead, *sources]

    edit_catalog(tmp_path, add_dead)
    fetch()
    assert f"{served}/gone.gz: HTTP 404 File not found" in said
    record = json.loads((tmp_path / "data" / "small" / "fetched.json").read_text())
    assert record["train.en.gz"]["source"] == "main"
    with pytest.raises(ConfigError, match=r"got 'no', allowed: dead, main"):
        fetch(source="no")
    said.clear()
    fetch(source="main", force=True)
    assert not any("gone.gz" in line for line in said)


def test_a_source_without_checksum_is_recorded_and_held_to_its_kind(
    fetch: Fetch, tmp_path: Path, said: list[str], shelf: Path
) -> None:
    def drop_checksum(files: dict[str, dict[str, object]]) -> None:
        sources = files["train.en.gz"]["sources"]
        assert isinstance(sources, list)
        del sources[0]["sha256"]

    edit_catalog(tmp_path, drop_checksum)
    fetch()
    assert any("no checksum to hold it against; recorded" in line for line in said)
    home = tmp_path / "data" / "small"
    assert fetch().fetched == []

    (home / "train.en.gz").write_bytes(gzip.compress(b"x\ny\nz\n"))
    with pytest.raises(DataError, match="changed since it was fetched"):
        fetch()
    fetch(force=True)

    (shelf / "deep" / "down" / "train.en.gz").write_text("<html>Not today</html>")
    with pytest.raises(DataError, match=r"train\.en\.gz: not a gzip file; where you have"):
        fetch(force=True)
    assert gzip.decompress((home / "train.en.gz").read_bytes()) == b"a\nb\nc\n"


def test_too_big_is_refused(fetch: Fetch, tmp_path: Path) -> None:
    edit_catalog(tmp_path, lambda files: files["train.en.gz"].update(max_bytes=5))
    with pytest.raises(DataError, match="more than the 5 bytes that the catalogue allows"):
        fetch()


def test_a_source_without_address_cannot_be_downloaded(fetch: Fetch, tmp_path: Path) -> None:
    known = {"sources": [{"name": "old", "sha256": "0" * 64}]}
    edit_catalog(tmp_path, lambda files: files.update({"train.en.gz": known}))
    with pytest.raises(DataError, match=r"the catalogue gives no address; .*`from_path=PATH`"):
        fetch()


@pytest.mark.usefixtures("served")
def test_from_a_folder_leaves_out_what_is_not_there(
    fetch: Fetch, shelf: Path, said: list[str], tmp_path: Path
) -> None:
    (shelf / "deep" / "down" / "extra.fr.gz").unlink()
    report = fetch(from_path=shelf)
    assert report.left_out == ["extra.fr.gz"]
    assert f"extra.fr.gz: left out, not in {shelf}" in said
    assert report.pairs == {"train": 3, "valid": 1, "test": 2}
    (shelf / "deep" / "down" / "valid.fr.gz").unlink()
    assert fetch(from_path=shelf).pairs["valid"] == 1  # kept from before
    (tmp_path / "data" / "small" / "valid.fr.gz").unlink()
    with pytest.raises(DataError, match=r"split 'valid' cannot be read: valid\.fr\.gz not in"):
        fetch(from_path=shelf)


def test_from_a_folder_takes_the_one_with_the_right_checksum(fetch: Fetch, shelf: Path) -> None:
    other = shelf / "another corpus" / "train.en.gz"
    other.parent.mkdir()
    other.write_bytes(b"another train.en.gz")
    assert fetch(from_path=shelf).pairs["train"] == 3


def test_from_a_place_that_is_not_there(fetch: Fetch, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=rf"^`from_path={tmp_path / 'no'}`: no such file or folder$"
    ):
        fetch(from_path=tmp_path / "no")


@pytest.fixture
def fetch_zip(tmp_path: Path, said: list[str]) -> Fetch:
    """fetch_corpus of a corpus that is one zip without a checksum, cut by hash."""
    source = {"name": "latest", "url": "https://example.invalid/x.zip"}
    entry = {
        "src_lang": "en",
        "tgt_lang": "fr",
        "splits": {"all": {"file": "x.zip"}},
        "hash_split": {"valid": 0.1, "test": 0.1},
        "files": {"x.zip": {"sources": [source]}},
    }
    write_catalog(tmp_path, {"zipped": entry})
    return partial(fetch_corpus, "zipped", tmp_path / "data", said.append)


def make_zip(path: Path, members: dict[str, str]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


LINES = "".join(f"line {n}\tligne {n}\n" for n in range(200))


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_fifo_is_not_waited_for(fetch_zip: Fetch, tmp_path: Path, is_folder: bool) -> None:
    (tmp_path / "Downloads").mkdir(exist_ok=True)
    path = tmp_path / "Downloads" / "x.zip"
    os.mkfifo(path)
    with pytest.raises(DataError, match=rf"^`from_path={path}`: a FIFO, expected a regular file$"):
        fetch_zip(from_path=path.parent if is_folder else path)


def test_a_file_of_another_name_is_taken_where_only_one_is_meant(
    fetch_zip: Fetch, tmp_path: Path
) -> None:
    path = make_zip(tmp_path / "Downloads" / "x (1).zip", {"fra.txt": LINES})
    report = fetch_zip(from_path=path)
    assert report.pairs["all"] == 200
    assert report.pairs["train"] + report.pairs["valid"] + report.pairs["test"] == 200


def test_the_file_that_is_written_first_is_no_source(fetch_zip: Fetch, tmp_path: Path) -> None:
    (tmp_path / "data" / "zipped").mkdir(parents=True)
    path = make_zip(tmp_path / "data" / "zipped" / "x.zip.part", {"fra.txt": LINES})
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"x.zip.part is read as well \(`from_path`: "):
        fetch_zip(from_path=path)
    assert path.read_bytes() == before


def test_two_different_files_without_checksum_are_not_guessed_between(
    fetch_zip: Fetch, tmp_path: Path
) -> None:
    one = make_zip(tmp_path / "one" / "x.zip", {"fra.txt": LINES})
    two = make_zip(tmp_path / "two" / "x.zip", {"fra.txt": LINES[:-10]})
    with pytest.raises(DataError, match=rf"several x\.zip: {one}, {two}; name one"):
        fetch_zip(from_path=tmp_path)
    two.write_bytes(one.read_bytes())
    assert fetch_zip(from_path=tmp_path).pairs["all"] == 200


def test_an_archive_is_never_unpacked_so_it_cannot_write_anywhere(
    fetch_zip: Fetch, tmp_path: Path
) -> None:
    members = {"../../escaped.txt": LINES, "/tmp/absolute.tsv.exe": "x"}
    fetch_zip(from_path=make_zip(tmp_path / "evil" / "x.zip", members))
    assert names_in(tmp_path / "data" / "zipped") == {"x.zip", "fetched.json"}
    assert not list(tmp_path.rglob("escaped*"))
    assert not (tmp_path.parent / "escaped.txt").exists()


def test_a_damaged_record_is_said(fetch_zip: Fetch, tmp_path: Path) -> None:
    fetch_zip(from_path=make_zip(tmp_path / "one" / "x.zip", {"fra.txt": LINES}))
    (tmp_path / "data" / "zipped" / "fetched.json").write_text("{")
    with pytest.raises(DataError, match=r"fetched\.json: damaged .*; remove it and fetch again"):
        fetch_zip()


def test_a_folder_in_the_way_is_an_error_in_a_line(fetch_zip: Fetch, tmp_path: Path) -> None:
    path = make_zip(tmp_path / "one" / "x.zip", {"fra.txt": LINES})
    (tmp_path / "data" / "zipped").write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"data/zipped/x\.zip: .*(exists|[Nn]ot a directory)"):
        fetch_zip(from_path=path)


def test_a_corpus_without_files_has_nothing_to_fetch(tmp_path: Path) -> None:
    entry = {"src_lang": "en", "tgt_lang": "fr", "splits": {"train": {"file": "a.tsv"}}}
    write_catalog(tmp_path, {"mine": entry})
    with pytest.raises(DataError, match="'mine': its entry lists no files"):
        fetch_corpus("mine", tmp_path / "data", print)


def test_starter_needs_no_fetching(tmp_path: Path, said: list[str]) -> None:
    report = fetch_corpus("starter", tmp_path, said.append)
    assert said[0] == "starter comes with the package: nothing to fetch"
    assert report.pairs["test"] == 500
    assert list(tmp_path.iterdir()) == []


def test_verify_takes_sha1_and_names_what_it_got(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(b"abc")
    right = Source(name="d2l", sha1="a9993e364706816aba3e25717850c26c9cd0d89d")
    wrong = Source(name="old", sha256="0" * 64)
    assert verify(path, (wrong, right)) == right
    with pytest.raises(DataError, match=f"wrong checksum: sha256 ba7816bf.*old: {'0' * 64}$"):
        verify(path, (wrong,))
    with pytest.raises(DataError, match=r"a\.zip: not a zip file"):
        verify(path, (wrong, Source(url="https://example.org/a.zip")))


CORPORA = os.environ.get("NMT_CORPORA")


@pytest.mark.skipif(not CORPORA, reason="NMT_CORPORA names no folder")
def test_the_real_corpora_come_from_a_folder(tmp_path: Path, said: list[str]) -> None:
    report = fetch_corpus("multi30k-en-fr", tmp_path, said.append, from_path=Path(CORPORA or ""))
    assert report.pairs == {"train": 29_000, "valid": 1_014, "test": 1_000}
    assert len(report.fetched) == 6
    assert [name[:9] for name in report.left_out] == ["test_2017"] * 4 + ["test_2018"] * 2


def test_a_folder_that_is_a_link_is_not_written_to(fetch: Fetch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data" / "small").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"small: a link out of .*data, to .*elsewhere; allowed: "):
        fetch()
    assert names_in(tmp_path / "elsewhere") == set()


def test_links_in_the_place_of_files_are_replaced(
    fetch: Fetch, tmp_path: Path, shelf: Path
) -> None:
    home = tmp_path / "data" / "small"
    home.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for suffix in ("", ".part", ".part.json"):
        (home / f"train.en.gz{suffix}").symlink_to(victim)
    for name in ("fetched.json", ".tmp-fetched.json"):
        (home / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match="Too many levels of symbolic links"):
        fetch(force=True)  # and that link is removed
    fetch(force=True)
    assert victim.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert not any(path.is_symlink() for path in home.iterdir())


def test_no_file_is_fetched_into_the_package(fetch: Fetch, tmp_path: Path) -> None:
    path = tmp_path / "data" / "catalog.yaml"
    entries = json.loads(path.read_text())
    entries["small"]["embedded"] = True
    path.write_text(json.dumps(entries))
    with pytest.raises(ConfigError, match="an embedded corpus is never fetched: files do not go"):
        fetch()
