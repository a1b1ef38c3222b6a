"""`nmt corpus` as typed: results on stdout, words on stderr, codes."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest
from cli.helpers import nmt, refusal

CONFIG = """
name: small
data: {corpus: small}
tokenizer: {kind: word, min_freq: 1}
train: {epochs: 1}
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder to work in, with a catalogue, a shelf of files and a run's config."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shelf").mkdir()
    files, splits = {}, {}
    for name, n_lines in {"train": 4, "valid": 2, "test": 1, "extra": 1}.items():
        splits[name] = {"src": f"{name}.en.gz", "tgt": f"{name}.fr.gz"}
        for lang in ("en", "fr"):
            text = "".join(f"{name} {n}\n" for n in range(n_lines))
            path = tmp_path / "shelf" / f"{name}.{lang}.gz"
            path.write_bytes(gzip.compress(text.encode(), mtime=0))
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            files[path.name] = {
                "sources": [{"url": "http://127.0.0.1:9/x", "checksum": f"sha256:{sha256}"}]
            }
    entry = {"src_lang": "en", "tgt_lang": "fr", "splits": splits, "files": files}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "catalog.yaml").write_text(json.dumps({"small": entry}))
    (tmp_path / "run.yaml").write_text(CONFIG)


def test_list_shows_builtin_and_own_corpora_and_what_is_on_disk() -> None:
    def small() -> str:
        return nmt("corpus", "list").stdout.split("small (en, fr)")[1]

    assert "tatoeba-en-fr (en, fr): " in nmt("corpus", "list").stdout
    assert "not on disk; pairs as published: train, valid, test, extra" in small()
    Path("shelf/extra.fr.gz").unlink()
    nmt("corpus", "fetch", "small", "--from", "shelf")
    assert "on disk but for extra; pairs" in small()


def test_fetch_tells_steps_on_stderr_and_the_result_on_stdout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = nmt("corpus", "fetch", "small", "--from", "shelf")
    assert result.stdout == "small in data/small: train 4, valid 2, test 1, extra 1 pairs\n"
    assert "train.en.gz: shelf/train.en.gz (main: checksum right)" in result.stderr
    assert "licence: unknown; attribution: none given" in result.stderr
    Path("data").rename("elsewhere")
    assert "small" in refusal("corpus", "fetch", "small")
    nmt("corpus", "fetch", "small", "--data", "elsewhere")
    monkeypatch.setenv("NMT_DATA", "elsewhere")
    assert "small in elsewhere/small:" in nmt("corpus", "fetch", "small").stdout


def test_check_reports_every_split() -> None:
    nmt("corpus", "fetch", "small", "--from", "shelf")
    result = nmt("corpus", "check", "run.yaml")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "train valid test"
    assert "pairs 4 2 1" in lines
    report = json.loads(nmt("corpus", "check", "run.yaml", "--json").stdout)
    assert [split["pairs"] for split in report] == [4, 2, 1]
