"""`nmt corpus`: what is on disk, what is fetched, and what a corpus is like."""

import hashlib
import json
from pathlib import Path

from cli.helpers import nmt, refusal
from corpora.test_fetch import write_catalog

CONFIG = "name: small\ndata: {corpus: small}\ntokenizer: {kind: word}\ntrain: {epochs: 1}\n"
LINES = {"train": 4, "valid": 2, "test": 1, "extra": 1}


def test_a_corpus_is_listed_fetched_and_checked(tmp_path, monkeypatch) -> None:
    def small() -> str:
        return nmt("corpus", "list").stdout.split("small (en, fr)")[1]

    monkeypatch.chdir(tmp_path)
    Path("shelf").mkdir()
    files = {}
    for name, n_lines in LINES.items():
        content = "".join(f"{name} {n}\tle {name} {n}\n" for n in range(n_lines)).encode()
        Path(f"shelf/{name}.tsv").write_bytes(content)
        checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
        files[f"{name}.tsv"] = {"sources": [{"url": "http://127.0.0.1:9/x", "checksum": checksum}]}
    splits = {name: {"file": f"{name}.tsv"} for name in LINES}
    write_catalog(tmp_path, "small", splits, files=files)
    Path("run.yaml").write_text(CONFIG)
    assert "tatoeba-en-fr (en, fr): " in nmt("corpus", "list").stdout
    assert "not on disk; pairs as published: train, valid, test, extra" in small()
    extra = Path("shelf/extra.tsv").rename("extra.tsv")
    nmt("corpus", "fetch", "small", "--from", "shelf")
    assert "on disk except extra; pairs" in small()
    extra.rename("shelf/extra.tsv")
    result = nmt("corpus", "fetch", "small", "--from", "shelf")
    assert result.stdout == "small in data/small: train 4, valid 2, test 1, extra 1 pairs\n"
    assert "licence: unknown; attribution: none given" in result.stderr
    lines = [line.split() for line in nmt("corpus", "check", "run.yaml").stdout.splitlines()]
    assert lines[0] == ["train", "valid", "test"]
    assert ["pairs", "4", "2", "1"] in lines
    report = json.loads(nmt("corpus", "check", "run.yaml", "--json").stdout)
    assert [split["pairs"] for split in report] == [4, 2, 1]
    Path("data").rename("elsewhere")
    assert "small" in refusal("corpus", "fetch", "small")
    nmt("corpus", "fetch", "small", "--data", "elsewhere")
    monkeypatch.setenv("NMT_DATA", "elsewhere")
    assert "small in elsewhere/small:" in nmt("corpus", "fetch", "small").stdout
