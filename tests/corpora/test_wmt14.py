"""WMT14 English-French from its archives to a score, on a slice in the real layout.

The slice has the catalogue's archives and members, with a few sentences in each. The real files
were not downloaded here.
"""

import gzip
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import pytest
from cli.helpers import nmt
from corpora.test_corpora import resolved
from corpora.test_corpus_check import STARTER
from corpora.test_text_files import write_tar
from sacrebleu.dataset import DATASETS

from nmt.corpora.corpora import count_pairs, read_examples, read_split, stream_split
from nmt.corpora.entries import load_catalog
from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.corpora.text_files import read_lines

NAME = "wmt14-en-fr"
SIZES = {"europarl": 150, "commoncrawl": 100, "un": 80, "news_commentary": 20, "giga": 120}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the archives of the corpus, in which are few sentences."""
    folder = tmp_path_factory.mktemp("data")
    (folder / NAME).mkdir()
    texts: dict[str, Iterator[str]] = {
        lang: iter(read_lines(STARTER / f"train.{lang}")) for lang in ("en", "fr")
    }
    archives: dict[str, dict[str, bytes]] = {}
    for name, split in load_catalog(Path("nowhere"))[NAME].splits.items():
        for lang, path in zip(("en", "fr"), split.texts, strict=True):
            lines = list(islice(texts[lang], SIZES.get(name, 12)))
            archive, member = path.parts[0], "/".join(path.parts[1:])
            content = "".join(f"{line}\n" for line in lines).encode()
            content = gzip.compress(content) if member.endswith(".gz") else content
            archives.setdefault(archive, {})[member.replace("fr-en", "de-en")] = b"ein\n"
            archives[archive][member] = content
    for archive, members in archives.items():
        write_tar(folder / NAME / archive, members)
    return folder


def test_the_archives_become_the_splits(folder: Path) -> None:
    sizes = {"train": sum(SIZES.values()), "valid": 24, "newstest2013": 12, **SIZES}
    assert {split: count_pairs(NAME, split, folder) for split in sizes} == sizes
    data = DataConfig(corpus=NAME, folder=folder)
    train, valid = resolved(data, "train"), resolved(data, "valid")
    parts = (stream_split(SplitConfig(corpus=NAME, split=part), data) for part in SIZES)
    pairs = list(chain.from_iterable(parts))
    assert read_split(train, data) == pairs
    assert len(read_split(train.model_copy(update={"first": 260}), data)) == 260
    back = DataConfig(corpus=NAME, folder=folder, src_lang="fr", tgt_lang="en")
    assert read_split(train, back)[-1].src_text == pairs[-1].tgt_text
    assert len(read_examples(valid, data)) == 24


@pytest.mark.slow
def test_a_recipe_goes_from_the_archives_to_newstest2014(folder, tmp_path, monkeypatch) -> None:
    """`nmt corpus check`, `train` and `eval`, as docs/scale.md has them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NMT_DATA", str(folder))
    test_set = DATASETS["wmt14/full"]
    monkeypatch.setattr(test_set, "_outdir", str(tmp_path))
    for field in test_set.fieldnames("en-fr"):
        Path(test_set._get_txt_file_path("en-fr", field)).write_text("a cat\na dog\n")
    keys = ("model.embedding=8", "model.hidden=12", "model.attention.size=8", "train.steps=3")
    recipe = ["rnnsearch50", *(word for key in keys for word in ("--set", key))]
    assert "train" in nmt("corpus", "check", *recipe).output
    nmt("train", *recipe, "--run", "run")
    assert (tmp_path / "cache").is_dir()
    evaluation = nmt("eval", "--bleu", "--run", "run", "--no-bootstrap")
    assert "tok:13a" in evaluation.output
    assert "nrefs:1" in evaluation.output
