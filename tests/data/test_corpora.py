"""Named corpora and splits: what a config says is what is read, and nothing leaks."""

import gzip
import os
import random
import re
from pathlib import Path

import pytest

from nmt.data.corpora import (
    part_of,
    read_examples,
    read_split,
    readable_splits,
    resolve_split,
    split_files,
)
from nmt.data.entries import RUN_SPLITS, HashSplit, SplitName, load_catalog
from nmt.data.sources import DataConfig, SplitConfig, group_by_source
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


def hashed(folder: Path, lines: list[str]) -> DataConfig:
    entry = "big: {src_lang: en, tgt_lang: fr, splits: {all: {file: a.tsv}}, hash_split: "
    (folder / "catalog.yaml").write_text(entry + "{valid: 0.1, test: 0.2}}")
    (folder / "big").mkdir(exist_ok=True)
    (folder / "big" / "a.tsv").write_text("".join(line + "\n" for line in lines))
    return DataConfig(corpus="big", folder=folder)


def resolved(data: DataConfig, name: SplitName) -> SplitConfig:
    split = resolve_split(data, name)
    assert split is not None
    return split


def test_the_corpora_are_there_with_licence_and_splits() -> None:
    entries = load_catalog(Path("nowhere"))
    assert set(entries) == {"starter", "tatoeba-en-fr", "multi30k-en-fr", "wmt14-en-fr"}
    for entry in entries.values():
        assert entry.split_names[:3] == ["train", "valid", "test"]
        assert entry.licence != "unknown"
        assert entry.attribution
        for name in entry.split_names:
            named = {path.parts[0] for path in entry.texts(name)}
            assert entry.embedded or named <= set(entry.files), name
    assert entries["starter"].embedded
    assert entries["tatoeba-en-fr"].split_names == ["train", "valid", "test", "all"]
    tatoeba = entries["tatoeba-en-fr"].files["fra-eng.zip"].sources
    assert [source.name for source in tatoeba] == ["d2l", "latest", "2017"]
    assert [source.checked for source in tatoeba] == [True, False, True]
    multi30k = entries["multi30k-en-fr"]
    assert len(multi30k.files) == 12
    for name, file in multi30k.files.items():
        assert file.sources[0].url is not None
        assert file.sources[0].url.endswith(f"/multi30k/dataset/master/data/task1/raw/{name}")
        assert file.sources[0].sha256 is not None


def test_what_is_packed_may_unpack_to_so_much_and_no_more(data: DataConfig) -> None:
    """The size is known, so a bomb in the place of a corpus is refused long before the general
    limit; every packed file of the catalogue has one.
    """
    for corpus, entry in load_catalog(data.folder).items():
        for name, file in entry.files.items():
            if corpus == "wmt14-en-fr":
                assert file.max_text_bytes <= 13 * file.max_bytes
            elif name.endswith((".gz", ".zip")):
                assert file.max_text_bytes <= 500_000_000
    home = data.folder / "multi30k-en-fr"
    home.mkdir()
    for lang in ("en", "fr"):
        with gzip.open(home / f"train.{lang}.gz", "wb", compresslevel=1) as out:
            for _ in range(7):
                out.write(b"a" * 999_999 + b"\n")
    with pytest.raises(DataError, match=r"train\.en\.gz: unpacks to more than the 6,000,000 bytes"):
        read_split(
            SplitConfig(corpus="multi30k-en-fr", split="train"), DataConfig(folder=data.folder)
        )


def test_a_catalogue_that_says_a_key_twice(data: DataConfig) -> None:
    (data.folder / "catalog.yaml").write_text("mine: {}\n\nmine: {}\n")
    with pytest.raises(ConfigError, match=r"catalog\.yaml:3: mine: given twice, first in .*:1$"):
        load_catalog(data.folder)
    (data.folder / "catalog.yaml").write_text("? [a]\n: b\n")
    with pytest.raises(ConfigError, match=r"catalog\.yaml:1: keys are plain names$"):
        load_catalog(data.folder)


def test_a_users_entry_is_read_and_may_replace_a_builtin_one(data: DataConfig) -> None:
    own = (data.folder / "catalog.yaml").read_text()
    (data.folder / "catalog.yaml").write_text(own + own.replace("village", "starter", 1))
    entries = load_catalog(data.folder)
    assert entries["village"].tgt_lang == "de"
    assert not entries["starter"].embedded
    assert "multi30k-en-fr" in entries


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x: {src_lang: en, tgt_lang: fr}", r":1: x\.splits: missing, and it has no default"),
        ("\nx:\n  src_lang: en\n  tgt_lag: fr\n  splits: {all: {file: a}}", r":2: x\.tgt_lang: "),
        (
            OWN + "  licens: MIT\n",
            r":9: village\.licens: unknown key; did you mean 'v.*licence'",
        ),
        (OWN + "  files: {../x: {sources: [{url: a}]}}", r":9: .*'\.\./x' is not a plain file"),
        (OWN + "  files: {x: {sources: [{name: a}]}}", r":9: .*needs a url, a checksum or both"),
        (OWN + "  files: {x: {sources: [{sha256: 12}]}}", r":9: village\.files\.x\.sources\.0\.s"),
        (OWN + "  hash_split: {of: train}", r"would make test, train|would make train, test"),
        (OWN + "  hash_split: {of: all}", r"there is no split 'all'"),
        (OWN + "  joined: {all: [train, tset]}", r"joined\.all: there is no split 'tset'"),
        (OWN + "  joined: {test: [train]}", r"joined: would make test, which splits has already"),
        (OWN + "  joined: {all: []}", r"joined\.all: needs a split at least"),
        (
            OWN + "  joined: {valid: [train]}\n  hash_split: {of: train}",
            r"hash_split: would make test, train, valid, which splits has already",
        ),
        (
            "x: {src_lang: en, tgt_lang: fr, splits: {a: {corpus: y}}}",
            r"allowed keys: file, col",
        ),
        ("../x: {}", r"'\.\./x' is not a plain file name"),
        ("a: [1\nb: 2", r":2: "),
        ("- a", r":1: "),
    ],
)
def test_a_malformed_catalogue_names_file_line_and_key(
    data: DataConfig, text: str, message: str
) -> None:
    path = data.folder / "catalog.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_catalog(data.folder)
    lines = str(caught.value).splitlines()
    assert re.search(message, lines[0])
    assert all(line.startswith(f"{path}:") for line in lines)


def test_all_faults_of_a_catalogue_are_told_and_each_once(data: DataConfig) -> None:
    path = data.folder / "catalog.yaml"
    path.write_text(OWN + "  licens: MIT\n  files:\n    x: {max_bytes: 0, sources: [{name: a}]}\n")
    with pytest.raises(ConfigError) as caught:
        load_catalog(data.folder)
    assert str(caught.value).replace(f"{path}:", "").splitlines() == [
        "9: village.licens: unknown key; did you mean 'village.licence'?",
        "11: village.files.x.sources.0: a source needs a url, a checksum or both",
        "11: village.files.x.max_bytes: got '0', allowed: >= 1",
    ]


def test_yaml_words_and_numbers_stay_the_text_they_are(data: DataConfig) -> None:
    sha1 = "1234567890" * 4
    (data.folder / "catalog.yaml").write_text(
        "x: {src_lang: no, tgt_lang: en, splits: {train: {file: 2017}},\n"
        f"    files: {{2017: {{max_bytes: 10_000, sources: [{{sha1: {sha1}}}]}}}}}}"
    )
    entry = load_catalog(data.folder)["x"]
    assert entry.src_lang == "no"
    assert entry.files["2017"].sources[0].sha1 == sha1
    assert entry.files["2017"].max_bytes == 10_000


def test_an_empty_catalogue_adds_nothing(data: DataConfig) -> None:
    (data.folder / "catalog.yaml").write_text("# nothing yet\n")
    assert load_catalog(data.folder) == load_catalog(Path("nowhere"))


def test_resolve_takes_the_corpus_unless_a_split_is_given(data: DataConfig) -> None:
    assert resolve_split(data, "train") == SplitConfig(corpus="village", split="train")
    assert resolve_split(data, "valid") is None
    given = SplitConfig(file=Path("dev.tsv"))
    assert resolve_split(data.model_copy(update={"valid": given}), "valid") == given
    short = data.model_copy(update={"test": SplitConfig(corpus="village", first=2)})
    assert resolve_split(short, "test") == SplitConfig(corpus="village", split="test", first=2)
    assert resolve_split(DataConfig(folder=data.folder), "train") is None


def test_an_unknown_corpus_or_split_names_what_there_is(data: DataConfig) -> None:
    with pytest.raises(ConfigError, match=r"got 'vilage', allowed: .*did you mean 'village'\?"):
        resolve_split(data.model_copy(update={"corpus": "vilage"}), "train")
    with pytest.raises(ConfigError, match="did you mean 'tatoeba-en-fr'"):
        resolve_split(data.model_copy(update={"corpus": "tato"}), "train")
    wrong = data.model_copy(update={"valid": SplitConfig(corpus="village", split="dev")})
    with pytest.raises(ConfigError, match="'village': got 'dev', allowed: train, test"):
        resolve_split(wrong, "valid")
    with pytest.raises(ConfigError, match="'village': got None, allowed: train, test"):
        read_split(SplitConfig(corpus="village"), data)


def test_a_tsv_gives_pairs_for_training_and_grouped_examples(data: DataConfig) -> None:
    split = resolved(data, "train")
    assert read_split(split, data) == [
        SentencePair(*p) for p in [("b", "1"), ("a", "2"), ("b", "3")]
    ]
    assert read_examples(split, data) == [EvalExample("b", ("1", "3")), EvalExample("a", ("2",))]


def test_first_counts_pairs_in_training_and_sources_in_evaluation(data: DataConfig) -> None:
    split = SplitConfig(corpus="village", split="train", first=1)
    assert read_split(split, data) == [SentencePair("b", "1")]
    assert read_examples(split, data) == [EvalExample("b", ("1", "3"))]


def test_aligned_files_give_an_example_a_line_and_drop_nothing(data: DataConfig) -> None:
    split = resolved(data, "test")
    assert read_examples(split, data) == [
        EvalExample("x", ("1", "4")),
        EvalExample("", ("2", "5")),
        EvalExample("x", ("3", "")),
    ]
    home = data.folder / "village"
    assert split_files(split, data) == [home / "test.en", home / "test.1.de", home / "test.2.de"]
    with pytest.raises(DataError, match="2 reference files, allowed 1"):
        read_split(split, data)


def test_a_corpus_reads_the_other_way_round(data: DataConfig) -> None:
    back = data.model_copy(update={"src_lang": "de", "tgt_lang": "en"})
    assert read_split(resolved(back, "train"), back)[0] == SentencePair("1", "b")
    assert read_examples(resolved(back, "train"), back)[2] == EvalExample("3", ("b",))
    with pytest.raises(DataError, match="the other way round"):
        read_examples(resolved(back, "test"), back)


def test_wrong_languages_are_refused(data: DataConfig) -> None:
    wrong = data.model_copy(update={"tgt_lang": "fr"})
    with pytest.raises(ConfigError, match="got en, fr, but corpus 'village' is en, de"):
        read_split(resolved(wrong, "train"), wrong)


def test_plain_files_need_no_catalogue(tmp_path: Path) -> None:
    (tmp_path / "a.xx").write_text("1\n")
    (tmp_path / "a.yy").write_text("2\n")
    split = SplitConfig(src=tmp_path / "a.xx", tgt=tmp_path / "a.yy")
    data = DataConfig(src_lang="xx", tgt_lang="yy")
    assert read_split(split, data) == [SentencePair("1", "2")]
    assert read_examples(split, data) == [EvalExample("1", ("2",))]
    assert split_files(split, data) == [tmp_path / "a.xx", tmp_path / "a.yy"]


def test_a_split_without_pairs_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("")
    split = SplitConfig(file=tmp_path / "a.tsv")
    for read in (read_split, read_examples):
        with pytest.raises(DataError, match=r"a\.tsv: no sentence pairs$"):
            read(split, DataConfig())


def test_a_folder_is_no_corpus_file(tmp_path: Path) -> None:
    data = DataConfig(train=SplitConfig(file=tmp_path))
    split = resolve_split(data, "train")
    assert split is not None
    with pytest.raises(DataError, match=rf"^{tmp_path}: not a plain file$"):
        split_files(split, data)


@pytest.mark.parametrize("n_references", [0, 1, 2])
def test_a_pipe_without_a_writer_is_refused_and_not_waited_for(
    tmp_path: Path, n_references: int
) -> None:
    pipe = tmp_path / "a"
    os.mkfifo(pipe)
    split = SplitConfig(src=pipe, tgt=(pipe,) * n_references) if n_references else None
    read = read_split if n_references < 2 else read_examples
    with pytest.raises(DataError, match=rf"^{pipe}: not a plain file$"):
        read(split or SplitConfig(file=pipe), DataConfig())


def test_a_corpus_not_on_disk_says_how_to_get_it(data: DataConfig) -> None:
    split = SplitConfig(corpus="multi30k-en-fr", split="train")
    english = DataConfig(folder=data.folder)
    home = data.folder / "multi30k-en-fr"
    cure = (
        rf"get it with: nmt corpus fetch multi30k-en-fr `data={data.folder}` \[`from_path=PATH`\]$"
    )
    with pytest.raises(DataError, match=f"^corpus 'multi30k-en-fr' is not in {home}; {cure}"):
        read_split(split, english)
    home.mkdir()
    (home / "train.en.gz").touch()
    with pytest.raises(DataError, match=rf"lacks train\.fr\.gz in {home}; {cure}"):
        split_files(split, english)
    (data.folder / "village" / "train.tsv").unlink()
    with pytest.raises(DataError, match=r"put train\.tsv there \(its entry names no address\)"):
        read_split(resolved(data, "train"), data)


def test_in_the_usual_folder_the_cure_needs_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as caught:
        read_split(SplitConfig(corpus="tatoeba-en-fr", split="all"), DataConfig())
    assert str(caught.value) == (
        "corpus 'tatoeba-en-fr' is not in data/tatoeba-en-fr; "
        "get it with: nmt corpus fetch tatoeba-en-fr [`from_path=PATH`]"
    )


def test_readable_splits_are_those_with_all_their_files(data: DataConfig) -> None:
    assert readable_splits("village", data.folder) == ["train", "test"]
    (data.folder / "village" / "test.2.de").unlink()
    assert readable_splits("village", data.folder) == ["train"]
    assert readable_splits("multi30k-en-fr", data.folder) == []


def test_nmt_data_overrides_the_folder(data: DataConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NMT_DATA", str(data.folder))
    elsewhere = data.model_copy(update={"folder": Path("elsewhere")})
    assert len(read_split(resolved(elsewhere, "train"), elsewhere)) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [("Run!", "run ."), ("I'm  OK.", "I’m ok"), ("Un été", "UN E\u0301TE\u0301 !"), ("?!", " ?!")],
)
def test_near_identical_sentences_share_a_key(one: str, other: str) -> None:
    assert sentence_key(one) == sentence_key(other)
    half = HashSplit(valid=0.3, test=0.3)
    assert part_of(one, half) == part_of(other, half)


@pytest.mark.parametrize(("one", "other"), [("He ran.", "She ran."), ("?", "!"), ("हिन", "हीन")])
def test_different_sentences_have_different_keys(one: str, other: str) -> None:
    assert sentence_key(one) != sentence_key(other)


def test_the_hash_is_the_one_that_published_splits_were_made_with() -> None:
    sentences = [f"Sentence {n}." for n in range(20)]
    split = HashSplit(valid=0.2, test=0.2)
    assert [n for n, s in enumerate(sentences) if part_of(s, split) == "test"] == [8, 9, 10, 17]
    assert [n for n, s in enumerate(sentences) if part_of(s, split) == "valid"] == [
        0,
        2,
        4,
        11,
        12,
        14,
        15,
    ]


def test_the_split_survives_reordering_and_growth(tmp_path: Path) -> None:
    lines = [f"sentence {n}\tphrase {n}.{k}" for n in range(500) for k in range(2)]
    before = hashed(tmp_path, lines)
    parts = {name: read_split(resolved(before, name), before) for name in RUN_SPLITS}
    assert sum(map(len, parts.values())) == 1000
    assert 130 < len(parts["test"]) < 270
    assert 60 < len(parts["valid"]) < 140
    sources = {name: {pair.src_text for pair in pairs} for name, pairs in parts.items()}
    assert not sources["train"] & (sources["valid"] | sources["test"])
    assert not sources["valid"] & sources["test"]
    assert len(read_split(SplitConfig(corpus="big", split="all"), before)) == 1000

    random.Random(1).shuffle(lines)
    grown = hashed(tmp_path, [f"new {n}\tneuf {n}" for n in range(100)] + lines)
    for name in RUN_SPLITS:
        assert set(parts[name]) <= set(read_split(resolved(grown, name), grown))


def test_a_hash_split_keeps_the_languages_of_the_entry_when_swapped(tmp_path: Path) -> None:
    there = hashed(tmp_path, [f"sentence {n}\tphrase {n}" for n in range(200)])
    back = there.model_copy(update={"src_lang": "fr", "tgt_lang": "en"})
    for name in RUN_SPLITS:
        assert {(p.src_text, p.tgt_text) for p in read_split(resolved(there, name), there)} == {
            (p.tgt_text, p.src_text) for p in read_split(resolved(back, name), back)
        }


def test_starter_is_found_without_fetching() -> None:
    data = DataConfig(corpus="starter", folder=Path("nowhere"))
    assert len(read_split(resolved(data, "train"), data)) >= 10_000
    for name in ("valid", "test"):
        assert len(read_examples(resolved(data, name), data)) == 500


def test_an_embedded_corpus_that_is_missing_says_so(
    data: DataConfig,
) -> None:
    (data.folder / "catalog.yaml").write_text(
        "gone: {src_lang: en, tgt_lang: fr, embedded: true, splits: {train: {file: a.tsv}}}"
    )
    gone = DataConfig(corpus="gone", folder=data.folder)
    with pytest.raises(DataError, match=r"'gone' comes with the package, but .*gone/a\.tsv is not"):
        read_split(resolved(gone, "train"), gone)


CORPORA = os.environ.get("NMT_CORPORA")
needs_corpora = pytest.mark.skipif(not CORPORA, reason="NMT_CORPORA names no folder")


@needs_corpora
def test_tatoeba_of_2017(tmp_path: Path) -> None:
    assert CORPORA
    (tmp_path / "tatoeba-en-fr").mkdir()
    (tmp_path / "tatoeba-en-fr" / "fra-eng.zip").symlink_to(f"{CORPORA}/tatoeba/fra-eng.zip")
    data = DataConfig(corpus="tatoeba-en-fr", folder=tmp_path)
    everything = read_split(SplitConfig(corpus="tatoeba-en-fr", split="all"), data)
    assert len(everything) == 142_787
    assert everything[:2] == [SentencePair("Go.", "Va !"), SentencePair("Run!", "Cours\u202f!")]
    assert len({pair.src_text for pair in everything}) == 98_659
    valid, test = (read_examples(resolved(data, name), data) for name in ("valid", "test"))
    assert 900 < len(valid) < 1100
    assert 900 < len(test) < 1100
    grouped = set(group_by_source(everything))
    assert set(valid) | set(test) <= grouped
    keys = {sentence_key(example.src_text) for example in valid + test}
    kept = grouped - set(valid) - set(test)
    # Every sentence of training would take long under the type checker: these are the likely.
    likely = [e.src_text for e in kept if len(e.src_text) < 15]
    assert len(likely) > 3000
    assert keys.isdisjoint(map(sentence_key, likely))


@needs_corpora
def test_multi30k(tmp_path: Path) -> None:
    assert CORPORA
    (tmp_path / "multi30k-en-fr").symlink_to(f"{CORPORA}/multi30k")
    data = DataConfig(corpus="multi30k-en-fr", folder=tmp_path)
    sizes = [len(read_split(resolved(data, name), data)) for name in RUN_SPLITS]
    assert sizes == [29_000, 1_014, 1_000]
    assert len(read_examples(resolved(data, "test"), data)) == 1_000
