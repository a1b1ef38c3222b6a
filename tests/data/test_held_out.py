"""Evaluation sets taken out of train: by distinct sentence, by count, whatever the order."""

import random
from pathlib import Path

import pytest

from nmt.data.corpora import read_examples, read_split, resolve_split
from nmt.data.held_out import HeldOut, HeldOutConfig
from nmt.data.sources import DataConfig, SplitConfig
from nmt.errors import ConfigError, DataError
from nmt.text.normalisation import sentence_key
from nmt.types import SentencePair, SplitName

PAIRS = [
    *(SentencePair(f"Sentence number {i}.", f"Phrase numéro {i}.") for i in range(200)),
    *(SentencePair(f"sentence NUMBER {i}!", f"Autre phrase {i} !") for i in range(0, 200, 3)),
]


def write(path: Path, pairs: list[SentencePair]) -> DataConfig:
    lines = "".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in pairs)
    path.write_text(lines, encoding="utf-8")
    return DataConfig(
        train=SplitConfig(file=path), held_out=HeldOutConfig(valid=20, test=30, seed=3)
    )


def parts(data: DataConfig) -> dict[SplitName, set[SentencePair]]:
    names: tuple[SplitName, ...] = ("train", "valid", "test")
    found = {}
    for name in names:
        split = resolve_split(data, name)
        assert split is not None
        found[name] = set(read_split(split, data))
    return found


def keys(pairs: set[SentencePair]) -> set[str]:
    return {sentence_key(pair.src_text) for pair in pairs}


def test_the_parts_are_of_distinct_sentences_and_have_all_pairs(tmp_path: Path) -> None:
    found = parts(write(tmp_path / "a.tsv", PAIRS))
    assert found["train"] | found["valid"] | found["test"] == set(PAIRS)
    assert [len(keys(found[name])) for name in ("valid", "test", "train")] == [20, 30, 150]
    assert sum(map(len, found.values())) == len(PAIRS)


def test_the_order_of_the_file_is_nothing_to_it_and_the_seed_is(tmp_path: Path) -> None:
    shuffled = random.Random(1).sample(PAIRS, len(PAIRS))
    data = write(tmp_path / "b.tsv", shuffled)
    assert parts(data) == parts(write(tmp_path / "a.tsv", PAIRS))
    other = data.model_copy(update={"held_out": HeldOutConfig(valid=20, test=30, seed=4)})
    assert parts(other)["valid"] != parts(data)["valid"]


def test_the_references_of_a_sentence_are_examples_together(tmp_path: Path) -> None:
    twice = [*PAIRS, *(SentencePair(p.src_text, f"{p.tgt_text} bis") for p in PAIRS)]
    data = write(tmp_path / "a.tsv", twice)
    split = resolve_split(data, "test")
    assert split is not None
    examples = read_examples(split, data)
    assert {len(example.ref_texts) for example in examples} == {2}
    assert len(examples) >= 30


def test_only_the_first_pairs_are_meant_where_train_is_cut(tmp_path: Path) -> None:
    data = write(tmp_path / "a.tsv", PAIRS)
    cut = SplitConfig(file=tmp_path / "a.tsv", first=100)
    found = parts(data.model_copy(update={"train": cut}))
    assert found["train"] | found["valid"] | found["test"] == set(PAIRS[:100])
    assert len(found["valid"]) == 20


def test_nothing_is_held_out_where_none_is_wanted(tmp_path: Path) -> None:
    data = write(tmp_path / "a.tsv", PAIRS)
    data = data.model_copy(update={"held_out": HeldOutConfig(valid=5)})
    assert resolve_split(data, "test") is None
    assert len(keys(set(read_split(resolve_split(data, "train"), data)))) == 195  # type: ignore[arg-type]


def test_too_many_sentences_are_refused(tmp_path: Path) -> None:
    data = write(tmp_path / "a.tsv", PAIRS)
    data = data.model_copy(update={"held_out": HeldOutConfig(valid=150, test=50)})
    with pytest.raises(DataError, match=r"held_out: got 200 .* fewer than the 200 different ones"):
        parts(data)


def test_a_second_validation_set_is_a_contradiction(tmp_path: Path) -> None:
    data = write(tmp_path / "a.tsv", PAIRS)
    own = data.model_copy(update={"valid": SplitConfig(file=tmp_path / "a.tsv")})
    with pytest.raises(ConfigError, match=r"data\.held_out\.valid: got 20, but there is a split"):
        resolve_split(own, "valid")
    named = DataConfig(corpus="starter", held_out=HeldOutConfig(valid=20))
    with pytest.raises(ConfigError, match="already"):
        resolve_split(named, "valid")


def test_the_lowest_checksums_are_chosen() -> None:
    """Against sorting all of them."""
    config = HeldOutConfig(valid=3, test=4, seed=9)
    texts = [f"text {i % 40}" for i in range(90)]
    chosen = HeldOut.choose(texts, config, "x")
    found = {name: {t for t in texts if chosen.part_of(t) == name} for name in ("valid", "test")}
    assert [len(each) for each in found.values()] == [3, 4]
    assert HeldOut.choose(reversed(texts), config, "x") == chosen
