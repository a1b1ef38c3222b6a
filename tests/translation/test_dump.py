"""Attention as tables of pieces or words, heads, records of it, and the dumps that hold them."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import ConfigError, DataError
from nmt.translation.dump import read_jsonl, read_npz, to_json, write_npz
from nmt.translation.heads import MEAN, Head, choose_heads
from nmt.translation.record import AttentionRecord, attention, records
from nmt.translation.words import attention_table, merge_words, row_shares, source_share

word_lengths = st.lists(st.integers(1, 4), min_size=1, max_size=7)


@given(word_lengths, word_lengths)
def test_merge_is_the_mean_over_target_of_the_sum_over_source(target, source) -> None:
    weights = np.random.default_rng(1).random((sum(target), sum(source)), dtype=np.float32)
    weights /= weights.sum(axis=1, keepdims=True)
    shares = [np.repeat(np.eye(len(n), dtype=np.float32), n, axis=1) for n in (target, source)]
    merged = merge_words(weights, *shares)
    assert merged.dtype == np.float32
    rows, columns = (
        [*itertools.pairwise([0, *itertools.accumulate(lengths)])] for lengths in (target, source)
    )
    expected = [[weights[a:b, c:d].sum(axis=1).mean() for c, d in columns] for a, b in rows]
    np.testing.assert_allclose(merged, expected, atol=1e-6)
    np.testing.assert_allclose(merged.sum(axis=1), 1, atol=1e-6)


def test_a_shared_piece_counts_by_its_share() -> None:
    """A word without pieces has no weight, and takes none."""
    shares = np.array([[1, 0.25, 0], [0, 0.75, 0], [0, 0, 0]], np.float32)
    columns = np.array([[1, 0.5], [0, 0.5]], np.float32)
    weights = np.array([[0.2, 0.8], [1, 0], [0.3, 0.7]], np.float32)
    merged = merge_words(weights, shares, columns)
    first = (np.array([0.6, 0.4]) + 0.25 * np.array([1, 0])) / 1.25
    np.testing.assert_allclose(merged, [first, [1, 0], [0, 0]], atol=1e-6)


def test_table_by_words_keeps_eos_apart(make_translation) -> None:
    rows = [0.5, 0.2, 0.2, 0.1], [0.1, 0.5, 0.3, 0.1], [0.1, 0.1, 0.6, 0.2], [0, 0, 0.1, 0.9]
    translation = make_translation("the cat|s", ["les chat|s"], np.array(rows, np.float32))
    table = attention_table(translation, level="word")
    assert table.columns == ("the", "cats", "</s>")
    assert table.rows == ("les", "chats", "</s>")
    expected = [[0.5, 0.4, 0.1], [0.1, 0.75, 0.15], [0.0, 0.1, 0.9]]
    np.testing.assert_allclose(table.weights, expected, atol=1e-7)
    for level, mark in (("piece", "▁"), ("word", "")):  # no row of eos where the bound cut the text
        cut = attention_table(make_translation("the cat", ["les"], finished=False), level=level)
        assert (cut.rows, cut.columns) == ((f"{mark}les",), (f"{mark}the", f"{mark}cat", "</s>"))
        empty = attention_table(make_translation("hi", [""]), level=level)
        assert (empty.rows, empty.weights.shape) == (("</s>",), (1, 2))


NAMES = tuple(f"layer {layer} head {head}" for layer in (1, 2, 10) for head in (1, 2, 3, 4))
WHOLE = {
    "encoder": tuple(f"encoder {name}" for name in NAMES[:8]),
    "decoder": tuple(f"decoder {name}" for name in NAMES),
    "cross": NAMES,
}
RECURRENT = {"cross": ("attention",)}


@pytest.mark.parametrize(
    ("wanted", "attention", "expected"),
    [
        ("1", "cross", [0]),
        ("3,12", "cross", [2, 11]),
        ("Layer  2 HEAD 3", "cross", [6]),
        ("layer 1", "cross", range(4)),  # and not layer 10
        ("layer 10", "cross", range(8, 12)),
        ("head 2", "cross", [1, 5, 9]),
        ("cross", "cross", range(12)),
        ("Encoder.2", "encoder", range(4, 8)),
        ("encoder.1.2, encoder.1.1", "encoder", [1, 0]),
    ],
)
def test_a_part_selects_heads_of_one_attention(wanted: str, attention: str, expected) -> None:
    heads = choose_heads(wanted, WHOLE)
    names = WHOLE[attention]
    assert list(heads) == [Head(names[index], index, attention) for index in expected]


def test_all_is_every_head_and_the_mean_is_named() -> None:
    heads = choose_heads("all,mean", WHOLE)
    expected = [name for names in WHOLE.values() for name in names]
    assert [head.name for head in heads] == [*expected, "mean"]
    assert choose_heads("mean,cross,mean", RECURRENT) == (MEAN, Head("attention", 0))


@pytest.mark.parametrize("wanted", ["0", "13", "lay", "1,,2", "head 2 layer", "encoder.1.1.1"])
def test_a_part_that_means_nothing_is_refused(wanted: str) -> None:
    wrong = "" if wanted == "1,,2" else wanted
    with pytest.raises(ConfigError, match=f"^`heads`: got '{wrong}', allowed: .*1 to 12"):
        choose_heads(wanted, WHOLE)
    with pytest.raises(ConfigError, match=f"got '{wrong}', .*'attention'"):
        choose_heads(wanted, RECURRENT)


HEADS = (Head("layer 1 head 2", 1), MEAN, Head("layer 1 head 1", 0))
SELF_HEADS = (
    Head("decoder layer 1 head 2", 1, "decoder"),
    Head("encoder layer 1 head 1", 0, "encoder"),
    Head("decoder layer 1 head 1", 0, "decoder"),
)


def write_jsonl(rows, path: Path) -> None:
    """Write what `nmt attention --format jsonl` prints."""
    path.write_text("".join(f"{to_json(row)}\n" for row in rows), encoding="utf-8", newline="\n")


@pytest.fixture(params=["piece", "word"])
def some_records(request, make_translation) -> list[AttentionRecord]:
    """Four sentences: the first with a beam of three, the last but one with two of its three
    heads and three of self-attention; accents, a line separator, an emoji, infinities.
    """
    first = make_translation("the cat|s\u2028 sleep 🎉", ["le|s chat|s dorment", "œuvre", "été là"])
    second = make_translation("no end", ["pas de fin"], finished=False)
    third = make_translation("the cat|s", ["le|s chat|s"], n_heads=3, n_self_heads=2)
    result = records(first, 0, request.param) + records(second, 12, request.param, forced=True)
    result += records(third, 13, request.param, heads=HEADS + SELF_HEADS)
    infinite = replace(result[-1], sentence=14, log_probs=(-math.inf, -0.5), score=-math.inf)
    attributed = make_translation("the cat|s", ["le|s chat|s"], method="erasure")
    return [*result, infinite, *records(attributed, 15, request.param)]


def test_a_record_per_hypothesis_with_all_that_names_it(make_translation) -> None:
    translation = make_translation("the cat|s", ["le|s chats", "un chat"])
    best, second = records(translation, 7)
    assert (best.sentence, best.rank, best.level, best.forced) == (7, 1, "piece", False)
    assert (best.source_text, best.target_text) == ("the cats", "les chats")
    assert best.source.pieces == ("▁the", "▁cat", "s", "</s>")
    assert best.source.ids == (*translation.source.ids, 3)
    assert best.source.word_spans == ((0, 1), (1, 3), (3, 4))
    assert best.target.ids == translation.hypotheses[0].hypothesis.ids
    assert (second.rank, second.target_text) == (2, "un chat")
    assert second.score == translation.hypotheses[1].hypothesis.score
    several = [translation, make_translation("", []), make_translation("d")]  # the empty left out
    result = list(attention(several, level="word"))
    assert [(record.sentence, record.rank) for record in result] == [(1, 1), (1, 2), (3, 1)]


@pytest.mark.parametrize("level", ["piece", "word"])
def test_heads_stand_beside_their_mean(level, make_translation) -> None:
    translation = make_translation("the cat|s", ["le|s chat|s"], n_heads=3)
    (record,) = records(translation, level=level, heads=HEADS)
    assert record.head_names == ("layer 1 head 2", "layer 1 head 1")
    expected = [attention_table(translation, 0, level, head).weights for head in HEADS]
    np.testing.assert_array_equal(record.heads, [expected[0], expected[2]])
    np.testing.assert_array_equal(record.weights, expected[1])


def test_self_attention_has_its_own_labels(make_translation) -> None:
    translation = make_translation("the cat|s", ["le|s chat"], n_self_heads=2)
    self_heads = translation.hypotheses[0].hypothesis.self_heads
    (record,) = records(translation, heads=SELF_HEADS)
    assert (record.heads, record.head_names) == (None, ())
    encoder, decoder = record.self_attention["encoder"], record.self_attention["decoder"]
    assert encoder.labels == ("▁the", "▁cat", "s", "</s>")
    assert decoder.head_names == ("decoder layer 1 head 2", "decoder layer 1 head 1")
    np.testing.assert_array_equal(encoder.heads, self_heads["encoder"][:1])
    np.testing.assert_array_equal(decoder.heads, self_heads["decoder"][::-1])
    (by_word,) = records(translation, level="word", heads=SELF_HEADS)
    decoder = by_word.self_attention["decoder"]
    assert decoder.labels == ("<s>", "les", "chat")
    row = self_heads["decoder"][1][1:3].mean(axis=0)
    np.testing.assert_allclose(decoder.heads[0][1], [row[0], row[1] + row[2], row[3]], atol=1e-6)


def test_scores_stand_beside_their_shares(make_translation) -> None:
    translation = make_translation("the cat|s", ["le|s chat"], method="erasure")
    attribution = translation.hypotheses[0].hypothesis.attribution
    scores, prefix = attribution.scores, attribution.prefix_scores
    (by_piece,), (by_word,) = (records(translation, level=level) for level in ("piece", "word"))
    record = by_piece.attribution
    assert (record.method, record.contrast) == ("erasure", "un")
    assert record.prefix_labels == ("<s>", "▁le", "s", "▁chat")
    np.testing.assert_array_equal(record.scores, scores)
    np.testing.assert_array_equal(record.prefix_scores, prefix)
    sides = np.abs(scores).sum(axis=1), np.abs(prefix).sum(axis=1)
    share = sides[0] / (sides[0] + sides[1])
    np.testing.assert_allclose(record.source_share, share, rtol=1e-5)
    np.testing.assert_allclose(by_piece.weights, np.abs(scores) / sides[0][:, None], rtol=1e-5)
    words = by_word.attribution
    assert words.prefix_labels == ("<s>", "les", "chat")
    np.testing.assert_allclose(words.scores[0, 1], scores[:2, 1:3].sum() / 2, rtol=1e-5)
    np.testing.assert_allclose(words.prefix_scores[0, 1], prefix[:2, 1:3].sum() / 2, rtol=1e-5)
    np.testing.assert_allclose(words.source_share, [share[:2].mean(), *share[2:]], rtol=1e-5)
    np.testing.assert_allclose(by_word.weights.sum(axis=1), 1, rtol=1e-5)
    alone = replace(attribution, prefix_scores=prefix[:, :0])
    assert source_share(alone, by_piece.target, "piece") is None
    np.testing.assert_array_equal(row_shares(np.zeros((2, 3), np.float32)), np.zeros((2, 3)))


def test_json_is_plain_and_heads_only_add_fields(make_translation) -> None:
    """A reader of a dump by the fields it knows reads both."""
    translation = make_translation("the cat", ["l' œuvre"], n_heads=3, n_self_heads=2)
    (without,) = records(translation)
    (with_heads,) = records(translation, heads=HEADS + SELF_HEADS)
    plain, extended = json.loads(to_json(without)), json.loads(to_json(with_heads))
    assert (plain["format"], plain["version"]) == ("nmt-attention", 1)
    assert plain["axes"] == ["target", "source"]
    assert "œuvre" in to_json(without)
    assert set(extended) - set(plain) == {"head_names", "heads", "self_attention"}
    assert {key: extended[key] for key in plain} == plain
    infinite = replace(without, log_probs=(-math.inf, -0.5), score=-math.inf)
    value = json.loads(to_json(infinite), parse_constant=lambda name: pytest.fail(name))
    assert (value["log_probs"], value["score"]) == ([None, -0.5], None)


@pytest.mark.parametrize(("write", "read"), [(write_jsonl, read_jsonl), (write_npz, read_npz)])
def test_a_dump_reads_back_and_is_always_the_same(write, read, some_records, tmp_path) -> None:
    path = tmp_path / "dump"
    write(iter(some_records), path)
    result = list(read(path))
    assert result == some_records
    for record in result:
        arrays = [record.weights, *(maps.heads for maps in record.self_attention.values())]
        assert {array.dtype for array in arrays} == {np.dtype("float32")}
    write(some_records, tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()
    write([], tmp_path / "empty")
    assert list(read(tmp_path / "empty")) == []


def _change(**fields):
    return lambda value: value.update(fields)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_change(version=2), "version 2"),
        (lambda value: value.pop("score"), "'score'"),
        (_change(level="word"), r"weights have shape \(3, 4\), not \(3, 3\)"),
        (lambda value: value["heads"].pop(), r"heads have shape \(1, 3, 4\), not \(2, 3, 4\)"),
        (lambda value: value["self_attention"]["encoder"]["labels"].pop(), "encoder heads have sh"),
        (_change(attribution={"method": "erasure"}), "not a record"),
        (lambda value: value["attribution"]["scores"].pop(), r"scores have shape \(2, 4\)"),
        (lambda value: value["attribution"]["source_share"].pop(), r"source_share have shape"),
    ],
)
def test_a_damaged_line_is_named(damage, message: str, make_translation, tmp_path: Path) -> None:
    kinds = {"n_heads": 3, "n_self_heads": 2, "method": "erasure"}
    translation = make_translation("the cat|s", ["le chat"], **kinds)
    (record,) = records(translation, heads=HEADS + SELF_HEADS)
    value = json.loads(to_json(record))
    damage(value)
    lines = f"{to_json(record)}\n{json.dumps(value)}\n"
    (tmp_path / "x.jsonl").write_text(lines, encoding="utf-8")
    with pytest.raises(DataError, match=rf"x.jsonl:2: .*{message}"):
        list(read_jsonl(tmp_path / "x.jsonl"))


def test_files_that_are_no_dump_are_refused(make_translation, tmp_path: Path) -> None:
    write_npz(records(make_translation("the cat", ["le chat"])), tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as dump:
        np.savez(tmp_path / "y.npz", index=dump["index"], weights_000001_1=np.zeros((2, 2)))
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "other.npz").read_bytes()[:-30])
    (tmp_path / "x.jsonl").write_text('{"format"')
    for name, place in (("y.npz", ": weights_000001_1: "), ("other.npz", ""), ("cut.npz", "")):
        with pytest.raises(DataError, match=name + place):
            list(read_npz(tmp_path / name))
    with pytest.raises(DataError, match=r"x.jsonl:1: "):
        list(read_jsonl(tmp_path / "x.jsonl"))
    for read in (read_npz, read_jsonl):
        with pytest.raises(DataError, match=r"absent"):
            list(read(tmp_path / "absent"))
