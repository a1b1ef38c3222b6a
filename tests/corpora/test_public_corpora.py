"""Corpora of OPUS and test sets of sacreBLEU by name, served by this machine; pins; headers."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from corpora.test_corpora import resolved
from corpora.test_download import serving
from corpora.test_text_files import write_zip

from nmt.corpora import entries
from nmt.corpora.corpora import check_corpora, read_examples, read_split
from nmt.corpora.corpus_report import corpus_report
from nmt.corpora.entries import find_entry
from nmt.corpora.fetch import fetch_corpus
from nmt.corpora.sources import DataConfig, HeldOutConfig, SplitConfig
from nmt.errors import ConfigError, DataError
from nmt.evaluation.examples import files_as_test_set
from nmt.types import EvalExample, SentencePair

NAME = "opus:Books/v1/en-fr"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The archive of a small corpus, on a server with the layout of OPUS."""
    monkeypatch.setenv("no_proxy", "*")
    archive = tmp_path / "served" / "OPUS-Books" / "v1" / "moses" / "en-fr.txt.zip"
    archive.parent.mkdir(parents=True)
    texts = {"Books.en-fr.en": "a\nb\nc\n", "Books.en-fr.fr": "x\ny\nz\n", "README": "r"}
    write_zip(archive, texts)
    with serving(tmp_path / "served") as address:
        layout = entries.OPUS_URL.replace("https://object.pouta.csc.fi", address)
        monkeypatch.setattr(entries, "OPUS_URL", layout)
        yield archive


@pytest.mark.usefixtures("archive")
def test_a_corpus_of_opus_is_fetched_and_read_either_way(tmp_path: Path) -> None:
    said: list[str] = []
    folder, counts = fetch_corpus("opus:Books/v1/fr-en", tmp_path, said.append)
    assert (folder, counts) == (tmp_path / "opus" / "Books" / "v1", {"train": 3})
    for src, tgt, text in (("en", "fr", "a"), ("fr", "en", "x")):
        data = DataConfig(src_lang=src, tgt_lang=tgt, corpus=NAME, folder=tmp_path)
        assert read_split(resolved(data, "train"), data)[0].src_text == text
        data = data.model_copy(update={"held_out": HeldOutConfig(valid=1, test=1)})
        assert len(read_split(resolved(data, "train"), data)) == 1


@pytest.mark.parametrize("content", ["d\nb\nc\n", "another, longer text\nb\nc\n" * 9])
def test_an_address_is_pinned_at_the_first_fetch(archive, tmp_path, content) -> None:
    fetch = partial(fetch_corpus, NAME, tmp_path, lambda line: None)
    folder, _ = fetch()
    file, pin = folder / archive.name, folder / f"{archive.name}.pin.json"
    record = json.loads(pin.read_text())
    assert record["bytes"] == archive.stat().st_size
    first = file.read_bytes()
    fetch()
    n_lines = content.count("\n")
    write_zip(archive, {"Books.en-fr.en": content, "Books.en-fr.fr": "x\n" * n_lines})
    file.write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"wrong checksum: .*the first fetch"):
        fetch()
    file.unlink()
    for from_path in (None, archive):
        with pytest.raises(DataError, match=r"checksum|more than the"):
            fetch(from_path=from_path)
        assert not file.exists()
    fetch(force=True)
    assert file.read_bytes() == archive.read_bytes() != first
    assert json.loads(pin.read_text())["checksum"] != record["checksum"]


def test_a_name_of_another_form_is_refused(tmp_path: Path) -> None:
    names = ("B/v1/en-en", "../v1/en-fr", "a/v1/en-fr/..", "a/1/en-fr", "é/v1/en-fr")
    for name in (*(f"opus:{name}" for name in names), "mtdata:a-b-1-eng-fra"):
        with pytest.raises(ConfigError, match="opus:NAME/vVERSION/en-fr"):
            find_entry(name, tmp_path)


def test_a_test_set_of_sacrebleu_has_its_references(tmp_path, monkeypatch) -> None:
    from sacrebleu.dataset import DATASETS

    dataset = DATASETS["multi30k/2016"]
    (tmp_path / "en").write_text("a\nb\n")
    (tmp_path / "fr").write_text("x\ny\n")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(dataset, "_outdir", str(tmp_path / "set"))
    monkeypatch.setattr(dataset, "_rawdir", str(tmp_path / "set" / "raw"))
    monkeypatch.setattr(dataset, "md5", None)
    monkeypatch.setattr(dataset, "langpairs", {"en-fr": ["en", "fr"]})
    split = SplitConfig(sacrebleu="multi30k/2016")
    data = DataConfig(corpus="starter", test=split)
    assert check_corpora(data) == []  # without a download
    with pytest.raises(ConfigError, match="allowed for multi30k/2016: en-fr"):
        check_corpora(data.model_copy(update={"src_lang": "fr", "tgt_lang": "en"}))
    with serving(tmp_path) as address:
        monkeypatch.setattr(dataset, "data", [f"{address}/no"])
        with pytest.raises(DataError, match="sacreBLEU cannot get multi30k/2016"):
            read_examples(split, data)
        monkeypatch.setattr(dataset, "data", [f"{address}/en", f"{address}/fr"])
        names = [dataset._get_tarball_filename(url) for url in dataset.data]
        monkeypatch.setattr(dataset, "langpairs", {"en-fr": names})
        assert read_examples(split, data) == [EvalExample("a", ("x",)), EvalExample("b", ("y",))]
    with pytest.raises(ConfigError, match="did you mean 'wmt14'"):
        read_examples(SplitConfig(sacrebleu="wmt1 4"), data)


def test_a_header_line_is_noted() -> None:
    for texts in (("source", "target"), ("en", "fr"), ("French", "English"), ("a dog", "un chien")):
        pairs = [SentencePair(*texts), *[SentencePair("the cat", "le chat")] * 300]
        (report,) = corpus_report({"train": pairs}, DataConfig())
        is_noted = any("header" in note for note in report.suspicions)
        assert is_noted == (texts[0] != "a dog")


def test_a_file_of_pairs_is_a_test_set(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"en": "a", "fr": "x"}\n{"en": "a", "fr": "y"}\n')
    assert files_as_test_set(path, (), DataConfig()).examples == [EvalExample("a", ("x", "y"))]
