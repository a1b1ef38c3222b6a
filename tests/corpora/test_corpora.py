"""Named corpora and splits: what a config says is what is read, and nothing leaks."""

import os
import random
from pathlib import Path

import pytest

from nmt.corpora.corpora import (
    count_pairs,
    read_examples,
    read_split,
    readable_splits,
    resolve_split,
    split_files,
)
from nmt.corpora.entries import RUN_SPLITS, HashSplit, SplitName, load_catalog
from nmt.corpora.located import part_of
from nmt.corpora.sources import DataConfig, HeldOutConfig, SplitConfig
from nmt.errors import ConfigError, DataError
from nmt.text.normalisation import sentence_key
from nmt.types import EvalExample, SentencePair

OWN = """
village:
  description: letters of one village
  src_lang: en
  tgt_lang: de
  splits:
    train: {file: train.tsv}
    test: {src: test.en, tgt: [test.1.de, test.2.de]}
"""


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    """A data folder with a corpus of the user's own in it."""
    home = tmp_path / "village"
    home.mkdir()
    (tmp_path / "catalog.yaml").write_text(OWN)
    (home / "train.tsv").write_text("b\t1\na\t2\nb\t3\n")
    (home / "test.en").write_text("x\n\nx\n")
    (home / "test.1.de").write_text("1\n2\n3\n")
    (home / "test.2.de").write_text("4\n5\n\n")
    return DataConfig(tgt_lang="de", corpus="village", folder=tmp_path)


def resolved(data: DataConfig, name: SplitName) -> SplitConfig:
    split = resolve_split(data, name)
    assert split is not None
    return split


def parts_of(data: DataConfig) -> dict[SplitName, set[SentencePair]]:
    return {name: set(read_split(resolved(data, name), data)) for name in RUN_SPLITS}


def test_the_catalogue_names_licences_splits_and_checksums() -> None:
    entries = load_catalog(Path("nowhere"))
    for entry in entries.values():
        assert entry.split_names[:2] == ["train", "valid"]
        assert entry.licence != "unknown"
        assert entry.attribution
        for name in entry.split_names:
            named = {path.parts[0] for path in entry.texts(name)}
            assert entry.embedded or named <= set(entry.files), name
    for file in entries["multi30k-en-fr"].files.values():
        assert str(file.sources[0].checksum).startswith("sha256:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x: {src_lang: en, tgt_lang: fr}", r":1: x\.splits: missing"),
        (OWN + "  files: {../x: {sources: [{url: a}]}}", r":9: .*'\.\./x' is not a plain file"),
        (OWN + "  files: {x: {sources: [{name: a}]}}", r":9: .*requires a url, a checksum or both"),
        (OWN + "  embedded: true\n  files: {x: {sources: [{url: a}]}}", r":10: .*never downloaded"),
        (OWN + "  hash_split: {of: train}", r"two splits are called test, train"),
        (OWN + "  hash_split: {of: all}", r"there is no split 'all'"),
        (OWN + "  joined: {all: [train, tset]}", r"joined\.all: there is no split 'tset'"),
        ("x: {src_lang: en, tgt_lang: fr, splits: {a: {corpus: y}}}", r"allowed keys: file, col"),
    ],
)
def test_a_malformed_catalogue_names_file_line_and_key(tmp_path, text, message) -> None:
    path = tmp_path / "catalog.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_catalog(tmp_path)
    assert all(line.startswith(f"{path}:") for line in str(caught.value).splitlines())


def test_a_split_is_that_of_the_corpus_unless_given(data: DataConfig) -> None:
    """An unknown corpus or split names the known ones."""
    assert resolve_split(data, "train") == SplitConfig(corpus="village", split="train")
    assert resolve_split(data, "valid") is None
    file = SplitConfig(file=Path("dev.tsv"))
    assert resolve_split(data.model_copy(update={"valid": file}), "valid") == file
    short = data.model_copy(update={"test": SplitConfig(corpus="village", first=2)})
    assert resolve_split(short, "test") == SplitConfig(corpus="village", split="test", first=2)
    with pytest.raises(ConfigError, match=r"got 'vilage', allowed: .*mean 'village'\?"):
        resolve_split(data.model_copy(update={"corpus": "vilage"}), "train")
    wrong = data.model_copy(update={"valid": SplitConfig(corpus="village", split="dev")})
    with pytest.raises(ConfigError, match="'village': got 'dev', allowed: train, test"):
        read_split(resolved(wrong, "valid"), wrong)


def test_training_reads_pairs_and_evaluation_sentences(data: DataConfig) -> None:
    train, test = resolved(data, "train"), resolved(data, "test")
    pairs = [SentencePair(*p) for p in [("b", "1"), ("a", "2"), ("b", "3")]]
    assert read_split(train, data) == pairs
    assert read_examples(train, data) == [EvalExample("b", ("1", "3")), EvalExample("a", ("2",))]
    first = train.model_copy(update={"first": 1})
    assert read_split(first, data) == pairs[:1]
    assert read_examples(first, data) == [EvalExample("b", ("1", "3"))]
    assert read_examples(test, data) == [
        EvalExample("x", ("1", "4")),
        EvalExample("", ("2", "5")),
        EvalExample("x", ("3", "")),
    ]
    home = data.folder / "village"
    assert split_files(test, data) == [home / "test.en", home / "test.1.de", home / "test.2.de"]
    with pytest.raises(DataError, match="2 reference files, allowed: 1"):
        read_split(test, data)


def test_a_corpus_reads_the_other_way_round(data: DataConfig) -> None:
    back = data.model_copy(update={"src_lang": "de", "tgt_lang": "en"})
    assert read_split(resolved(back, "train"), back)[0] == SentencePair("1", "b")
    assert read_examples(resolved(back, "train"), back)[2] == EvalExample("3", ("b",))
    with pytest.raises(DataError, match="with its sides exchanged"):
        read_examples(resolved(back, "test"), back)
    wrong = data.model_copy(update={"tgt_lang": "fr"})
    with pytest.raises(ConfigError, match="got en, fr, but corpus 'village' is en, de"):
        read_split(resolved(wrong, "train"), wrong)


def test_a_source_that_is_no_corpus_file_is_refused(tmp_path: Path) -> None:
    """Without pairs, a folder, or a pipe, which would be waited for."""
    (tmp_path / "a.tsv").write_text("")
    os.mkfifo(tmp_path / "pipe")
    empty, folder = SplitConfig(file=tmp_path / "a.tsv"), SplitConfig(file=tmp_path)
    pipe = tmp_path / "pipe"
    for read in (read_split, read_examples):
        with pytest.raises(DataError, match=r"a\.tsv: no sentence pairs$"):
            read(empty, DataConfig())
        for split in (SplitConfig(file=pipe), SplitConfig(src=pipe, tgt=pipe), folder):
            with pytest.raises(DataError, match=rf"^{tmp_path}(/pipe)?: not a plain file$"):
                read(split, DataConfig())
    with pytest.raises(DataError, match="not a plain file"):
        read_examples(SplitConfig(src=pipe, tgt=(pipe, pipe)), DataConfig())


def test_a_corpus_not_on_disk_says_how_to_get_it(data: DataConfig) -> None:
    split = SplitConfig(corpus="multi30k-en-fr", split="train")
    english = DataConfig(folder=data.folder)
    home = data.folder / "multi30k-en-fr"
    cure = rf"get it with: nmt corpus fetch multi30k-en-fr `data={data.folder}` \[`from_path=PATH`"
    with pytest.raises(DataError, match=f"^corpus '.*': {home}/train.en.gz: .*; {cure}"):
        read_split(split, english)
    home.mkdir()
    (home / "train.en.gz").touch()
    with pytest.raises(DataError, match=rf"{home}/train\.fr\.gz: no such file; {cure}"):
        split_files(split, english)
    (data.folder / "village" / "train.tsv").unlink()
    with pytest.raises(DataError, match=r"put it there \(its entry has no address\)"):
        read_split(resolved(data, "train"), data)
    assert readable_splits("village", data.folder) == ["test"]


def test_a_joined_split_is_its_parts_one_after_the_other(data: DataConfig) -> None:
    """Also swapped, and cut within its second part."""
    joined = OWN + "    more: {file: more.tsv}\n  joined: {all: [train, more]}\n"
    (data.folder / "catalog.yaml").write_text(joined)
    (data.folder / "village" / "more.tsv").write_text("c\t4\nd\t5\n")
    split = SplitConfig(corpus="village", split="all")
    pairs = [SentencePair(*pair) for pair in ("b1", "a2", "b3", "c4", "d5")]
    assert read_split(split, data) == pairs
    assert read_split(split.model_copy(update={"first": 4}), data) == pairs[:4]
    back = data.model_copy(update={"src_lang": "de", "tgt_lang": "en"})
    assert read_split(split, back)[-1] == SentencePair("5", "d")
    assert count_pairs("village", "all", data.folder) == 5


def test_near_identical_sentences_alone_share_key_and_split() -> None:
    half = HashSplit(valid=0.3, test=0.3)
    marked = ("Un été", "UN E\u0301TE\u0301 !")
    for one, other in (("Run!", "run ."), ("I'm  OK.", "I’m ok"), marked, ("?!", " ?!")):
        assert sentence_key(one) == sentence_key(other)
        assert part_of(one, half) == part_of(other, half)
    for one, other in (("He ran.", "She ran."), ("?", "!"), ("हिन", "हीन")):
        assert sentence_key(one) != sentence_key(other)
    split = HashSplit(valid=0.2, test=0.2)
    parts = "".join(part_of(f"Sentence {n}.", split)[:2] for n in range(20))
    assert parts == "vatrvatrvatrtrtrtetetevavatrvavatrtetrtr", "that of published splits"


def hashed(folder: Path, lines: list[str]) -> DataConfig:
    entry = "big: {src_lang: en, tgt_lang: fr, splits: {all: {file: a.tsv}}, hash_split: "
    (folder / "catalog.yaml").write_text(entry + "{valid: 0.1, test: 0.2}}")
    (folder / "big").mkdir(exist_ok=True)
    (folder / "big" / "a.tsv").write_text("".join(line + "\n" for line in lines))
    return DataConfig(corpus="big", folder=folder)


def test_a_hash_split_survives_reordering_growth_and_swap(tmp_path: Path) -> None:
    lines = [f"sentence {n}\tphrase {n}.{k}" for n in range(500) for k in range(2)]
    before = hashed(tmp_path, lines)
    parts = parts_of(before)
    assert sum(map(len, parts.values())) == 1000
    assert 130 < len(parts["test"]) < 270
    assert 60 < len(parts["valid"]) < 140
    sources = {name: {pair.src_text for pair in pairs} for name, pairs in parts.items()}
    assert sum(map(len, sources.values())) == len(set.union(*sources.values()))
    back = before.model_copy(update={"src_lang": "fr", "tgt_lang": "en"})
    swapped = parts_of(back)
    random.Random(1).shuffle(lines)
    grown = parts_of(hashed(tmp_path, [f"new {n}\tneuf {n}" for n in range(100)] + lines))
    for name, pairs in parts.items():
        assert swapped[name] == {SentencePair(p.tgt_text, p.src_text) for p in pairs}
        assert grown[name] >= pairs


HELD_OUT = [
    *(SentencePair(f"Sentence number {i}.", f"Phrase numéro {i}.") for i in range(200)),
    *(SentencePair(f"sentence NUMBER {i}!", f"Autre phrase {i} !") for i in range(0, 200, 3)),
]


def held_out(path: Path, pairs: list[SentencePair], **config: int) -> DataConfig:
    lines = "".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in pairs)
    path.write_text(lines, encoding="utf-8")
    config = config or {"valid": 20, "test": 30, "seed": 3}
    return DataConfig(train=SplitConfig(file=path), held_out=HeldOutConfig(**config))


def test_held_out_parts_are_of_distinct_sentences(tmp_path: Path) -> None:
    """With all their pairs, whatever the order of the file, drawn by the seed."""
    path = tmp_path / "a.tsv"
    data = held_out(path, HELD_OUT)
    parts = parts_of(data)
    assert set.union(*parts.values()) == set(HELD_OUT)
    assert sum(map(len, parts.values())) == len(HELD_OUT)
    sizes = {name: len({sentence_key(p.src_text) for p in parts[name]}) for name in parts}
    assert sizes == {"valid": 20, "test": 30, "train": 150}
    examples = read_examples(resolved(data, "test"), data)
    assert {SentencePair(e.src_text, ref) for e in examples for ref in e.ref_texts} == parts["test"]
    cut = data.model_copy(update={"train": SplitConfig(file=path, first=100)})
    assert set.union(*parts_of(cut).values()) == set(HELD_OUT[:100])
    with pytest.raises(ConfigError, match=r"data\.held_out\.valid: got 20, but there is already a"):
        resolve_split(data.model_copy(update={"valid": SplitConfig(file=path)}), "valid")
    assert parts_of(held_out(path, random.Random(1).sample(HELD_OUT, len(HELD_OUT)))) == parts
    assert parts_of(held_out(path, HELD_OUT, valid=20, test=30, seed=4)) != parts
    with pytest.raises(DataError, match=r"held_out: got 200 .* fewer than the 200 distinct"):
        parts_of(held_out(path, HELD_OUT, valid=150, test=50))
