import json
import math
import zipfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from nmt.attention_maps.dump import read_jsonl, read_npz, to_json, write_jsonl, write_npz
from nmt.attention_maps.heads import MEAN, Head
from nmt.attention_maps.interchange import CSV_COLUMNS, csv_lines
from nmt.attention_maps.record import AttentionRecord, attention, records
from nmt.attention_maps.words import attention_table
from nmt.errors import DataError
from nmt.storage.output import csv_line, write_lines

PAGE = Path(__file__).parents[2] / "docs" / "attention-dump.md"


HEADS = (Head("layer 1 head 2", 1), MEAN, Head("layer 1 head 1", 0))
SELF_HEADS = (
    Head("decoder layer 1 head 2", 1, "decoder"),
    Head("encoder layer 1 head 1", 0, "encoder"),
    Head("decoder layer 1 head 1", 0, "decoder"),
)


@pytest.fixture(params=["piece", "word"])
def some_records(request, make_translation) -> list[AttentionRecord]:
    """Three sentences, the first with a beam of three, the last with two of its three heads and
    three of self-attention; accents, œ, a line separator, an emoji.
    """
    first = make_translation("the cat|s\u2028 sleep 🎉", ["le|s chat|s dorment", "œuvre", "été là"])
    second = make_translation("no end", ["pas de fin"], finished=False)
    third = make_translation("the cat|s", ["le|s chat|s"], n_heads=3, n_self_heads=2)
    made = records(first, 0, request.param) + records(second, 12, request.param, forced=True)
    made += records(third, 13, request.param, heads=HEADS + SELF_HEADS)
    assert len(made) == 5
    return made


def assert_same(got: AttentionRecord, wanted: AttentionRecord) -> None:
    for field in fields(AttentionRecord):
        if field.name not in ("weights", "heads", "self_attention"):
            assert getattr(got, field.name) == getattr(wanted, field.name), field.name
    assert got.weights.dtype == np.float32
    np.testing.assert_array_equal(got.weights, wanted.weights)
    assert (got.heads is None) == (wanted.heads is None)
    if got.heads is not None:
        assert got.heads.dtype == np.float32
        np.testing.assert_array_equal(got.heads, wanted.heads)
    assert got.self_attention.keys() == wanted.self_attention.keys()
    for name, each in got.self_attention.items():
        expected = wanted.self_attention[name]
        assert (each.labels, each.head_names) == (expected.labels, expected.head_names)
        assert each.heads.dtype == np.float32
        np.testing.assert_array_equal(each.heads, expected.heads)


def test_a_record_per_hypothesis_with_all_that_names_it(make_translation) -> None:
    translation = make_translation("the cat|s", ["le|s chats", "un chat"])
    best, second = records(translation, 7)
    assert (best.sentence, best.rank, best.level, best.forced) == (7, 1, "piece", False)
    assert (best.source_text, best.target_text) == ("the cats", "les chats")
    assert best.source.pieces == ("▁the", "▁cat", "s", "</s>")
    assert best.source.ids == (*translation.source.ids, 3)
    assert best.source.words == ("the", "cats", "</s>")
    assert best.source.word_spans == ((0, 1), (1, 3), (3, 4))
    assert best.target.ids == translation.hypotheses[0].hypothesis.ids
    assert len(best.log_probs) == len(best.target.pieces)
    assert best.weights.shape == (len(best.target.pieces), len(best.source.pieces))
    assert best.key() == "weights_000007_1"
    assert (second.rank, second.key("heads"), second.target_text) == (
        2,
        "heads_000007_2",
        "un chat",
    )
    assert (best.head_names, best.heads) == ((), None)
    assert second.score == translation.hypotheses[1].hypothesis.score


def test_an_empty_source_gives_no_record(make_translation) -> None:
    assert records(make_translation("", [])) == []


def test_word_level_changes_the_weights_alone(make_translation) -> None:
    translation = make_translation("the cat|s", ["le|s chats"])
    (by_piece,), (by_word,) = records(translation), records(translation, level="word")
    assert by_word.weights.shape == (3, 3)
    assert_same(replace(by_word, level="piece", weights=by_piece.weights), by_piece)


@pytest.mark.parametrize("level", ["piece", "word"])
def test_heads_stand_beside_their_mean(level, make_translation) -> None:
    translation = make_translation("the cat|s", ["le|s chat|s"], n_heads=3)
    (record,) = records(translation, level=level, heads=HEADS)
    assert record.head_names == ("layer 1 head 2", "layer 1 head 1")
    wanted = [attention_table(translation, 0, level, head).weights for head in HEADS]
    np.testing.assert_array_equal(record.heads, [wanted[0], wanted[2]])
    np.testing.assert_array_equal(record.weights, wanted[1])


def test_self_attention_has_its_own_labels(make_translation) -> None:
    translation = make_translation("the cat|s", ["le|s chat"], n_self_heads=2)
    own = translation.hypotheses[0].hypothesis.self_heads
    (record,) = records(translation, heads=SELF_HEADS)
    assert (record.heads, record.head_names) == (None, ())
    encoder, decoder = record.self_attention["encoder"], record.self_attention["decoder"]
    assert encoder.labels == ("▁the", "▁cat", "s", "</s>")
    assert decoder.labels == ("<s>", "▁le", "s", "▁chat")
    assert decoder.head_names == ("decoder layer 1 head 2", "decoder layer 1 head 1")
    np.testing.assert_array_equal(encoder.heads, own["encoder"][:1])
    np.testing.assert_array_equal(decoder.heads, own["decoder"][::-1])
    (by_word,) = records(translation, level="word", heads=SELF_HEADS)
    decoder = by_word.self_attention["decoder"]
    assert decoder.labels == ("<s>", "les", "chat")
    row = own["decoder"][1][1:3].mean(axis=0)
    np.testing.assert_allclose(decoder.heads[0][1], [row[0], row[1] + row[2], row[3]], atol=1e-6)
    np.testing.assert_allclose(decoder.heads.sum(axis=2), 1, atol=1e-6)


def test_the_decoder_of_a_cut_translation_read_all_its_pieces(make_translation) -> None:
    translation = make_translation("a b", ["c d e"], finished=False, n_self_heads=2)
    (record,) = records(translation, heads=SELF_HEADS)
    assert record.self_attention["decoder"].labels == ("<s>", "▁c", "▁d", "▁e")


def test_heads_are_added_to_the_old_form_and_change_none_of_it(make_translation) -> None:
    """Who reads a dump by the fields it knows reads both."""
    translation = make_translation("the cat", ["le chat"], n_heads=3, n_self_heads=2)
    (old,), (new,) = records(translation), records(translation, heads=HEADS + SELF_HEADS)
    old_fields, new_fields = json.loads(to_json(old)), json.loads(to_json(new))
    assert set(new_fields) - set(old_fields) == {"head_names", "heads", "self_attention"}
    assert {key: new_fields[key] for key in old_fields} == old_fields


def test_jsonl_gives_back_what_was_written(some_records, tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    write_jsonl(iter(some_records), path)
    assert path.read_bytes().count(b"\n") == len(some_records)
    for got, wanted in zip(read_jsonl(path), some_records, strict=True):
        assert_same(got, wanted)


def test_npz_gives_back_what_was_written(some_records, tmp_path: Path) -> None:
    path = tmp_path / "dump.npz"
    write_npz(iter(some_records), path)
    for got, wanted in zip(read_npz(path), some_records, strict=True):
        assert_same(got, wanted)


def test_npz_is_the_same_bytes_each_time(some_records, tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        write_npz(some_records, tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_dump_of_nothing_is_a_dump(tmp_path: Path) -> None:
    write_npz([], tmp_path / "x.npz")
    write_jsonl([], tmp_path / "x.jsonl")
    assert list(read_npz(tmp_path / "x.npz")) == []
    assert list(read_jsonl(tmp_path / "x.jsonl")) == []


def test_json_names_axes_and_version_and_is_plain_text(make_translation) -> None:
    (record,) = records(make_translation("the cat", ["l' œuvre"]))
    line = to_json(record)
    value = json.loads(line)
    assert (value["format"], value["version"]) == ("nmt-attention", 1)
    assert value["axes"] == ["target", "source"]
    assert np.shape(value["weights"]) == (
        len(value["target"]["pieces"]),
        len(value["source"]["pieces"]),
    )
    assert "œuvre" in line


def test_json_has_no_infinity(make_translation) -> None:
    (record,) = records(make_translation("a", ["b"]))
    line = to_json(replace(record, log_probs=(-math.inf, -0.5), score=-math.inf))
    value = json.loads(line, parse_constant=lambda name: pytest.fail(name))
    assert value["log_probs"] == [None, -0.5]
    assert value["score"] is None


def test_infinity_survives_a_round_trip(make_translation, tmp_path: Path) -> None:
    (record,) = records(make_translation("a", ["b"]))
    record = replace(record, log_probs=(-math.inf, -0.5), score=-math.inf)
    write_npz([record], tmp_path / "x.npz")
    assert_same(next(read_npz(tmp_path / "x.npz")), record)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:-9], r"dump.jsonl:2: not JSON"),
        (lambda text: "[1]", r"dump.jsonl:2: got format None, version None; this nmt reads"),
        (lambda text: text.replace('"version": 1', '"version": 2'), r":2: got .* version 2; this"),
        (lambda text: text.replace('"score"', '"scores"'), r":2: not a record .*'score'"),
        (lambda text: text.replace('"level": "piece"', '"level": "word"'), r":2: weights have sh"),
        (lambda text: text.replace('"weights": [[', '"weights": [[0.0, '), r":2: not a record"),
    ],
)
def test_a_damaged_line_is_named(damage, message: str, make_translation, tmp_path: Path) -> None:
    (record,) = records(make_translation("the cat|s", ["le|s chat|s"]))
    line = to_json(record)
    assert damage(line) != line
    (tmp_path / "dump.jsonl").write_text(f"{line}\n{damage(line)}\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        list(read_jsonl(tmp_path / "dump.jsonl"))


def test_files_that_are_no_dump_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "other.npz").read_bytes()[:-30])
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("text", "other", "cut", "empty"):
        with pytest.raises(DataError, match=f"{name}.npz: not an npz of nmt-attention"):
            list(read_npz(tmp_path / f"{name}.npz"))
    for read in (read_npz, read_jsonl):
        with pytest.raises(DataError, match=r"cannot read .*absent: No such file"):
            list(read(tmp_path / "absent"))


def test_an_npz_array_of_another_shape_is_refused(make_translation, tmp_path: Path) -> None:
    write_npz(records(make_translation("the cat", ["le chat"])), tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as dump:
        np.savez(tmp_path / "y.npz", index=dump["index"], weights_000001_1=np.zeros((2, 2)))
    with pytest.raises(DataError, match=r"weights_000001_1: weights have shape \(2, 2\), not"):
        list(read_npz(tmp_path / "y.npz"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda value: value.pop("head_names"), r"heads have shape \(2, 3, 3\), not \(0,\)"),
        (lambda value: value.pop("heads"), r"heads have shape \(0,\), not \(2, 3, 3\)"),
        (lambda value: value["heads"].pop(), r"heads have shape \(1, 3, 3\), not \(2, 3, 3\)"),
        (lambda value: value["heads"][0].pop(), r"not a record"),
        (
            lambda value: value["self_attention"]["encoder"]["labels"].pop(),
            r"encoder heads have shape \(1, 3, 3\), not \(1, 2, 2\)",
        ),
        (lambda value: value["self_attention"]["decoder"].pop("heads"), r"not a record"),
        (lambda value: value.update(self_attention=[1]), r"not a record"),
        (lambda value: value["self_attention"].update(encoder=3), r"not a record"),
    ],
)
def test_heads_that_do_not_fit_their_names_are_refused(
    damage, message: str, make_translation, tmp_path: Path
) -> None:
    translation = make_translation("the cat", ["le chat"], n_heads=3, n_self_heads=2)
    (record,) = records(translation, heads=HEADS + SELF_HEADS)
    value = json.loads(to_json(record))
    damage(value)
    (tmp_path / "x.jsonl").write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(DataError, match=rf"x.jsonl:1: .*{message}"):
        list(read_jsonl(tmp_path / "x.jsonl"))


def test_no_pickle_is_in_an_npz(some_records, tmp_path: Path) -> None:
    write_npz(some_records, tmp_path / "x.npz")
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        assert archive.testzip() is None
        names = [record.key() for record in some_records]
        names += [some_records[-1].key(name) for name in ("heads", "encoder", "decoder")]
        assert archive.namelist() == [f"{name}.npy" for name in [*names, "index"]]
    with np.load(tmp_path / "x.npz", allow_pickle=False) as dump:
        assert all(dump[name].dtype == np.float32 for name in names)


def python_blocks(page: Path) -> list[str]:
    parts = page.read_text(encoding="utf-8").split("```python\n")[1:]
    return [part.split("```")[0] for part in parts]


def test_the_examples_of_the_page_run(make_translation, tmp_path: Path, monkeypatch) -> None:
    translation = make_translation("the cat|s", ["le|s chat|s", "un chat"], n_heads=3)
    made = records(translation, heads=HEADS)
    write_npz(made, tmp_path / "dump.npz")
    write_jsonl(made, tmp_path / "dump.jsonl")
    of_mean = (line for record in records(translation) for line in csv_lines(record))
    write_lines([csv_line(CSV_COLUMNS), *of_mean], tmp_path / "cat.csv")
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(PAGE)
    assert len(blocks) >= 3
    for block in blocks:
        if "bertviz" in block:  # it is not installed here
            continue
        names: dict[str, object] = {}
        exec(compile(block, str(PAGE), "exec"), names)
        if "csv" in names:
            first = -(made[0].weights[0] * np.log(made[0].weights[0])).sum()
            assert names["entropies"]["1", "1", "1"] == pytest.approx(first, rel=1e-4)
    three_lines = blocks[0].strip().splitlines()
    assert len(three_lines) <= 4  # the import and three lines
    exec(compile(blocks[0], str(PAGE), "exec"), names)
    np.testing.assert_array_equal(names["weights"], made[0].weights)


def test_the_page_names_every_field(make_translation) -> None:
    translation = make_translation("the cat", ["le chat"], n_heads=3, n_self_heads=2)
    (record,) = records(translation, heads=HEADS + SELF_HEADS)
    value = json.loads(to_json(record))
    page = PAGE.read_text(encoding="utf-8")
    for name in [*value, *(f"source.{key}" for key in value["source"])]:
        assert f"`{name}`" in page, name


def test_records_and_tables_compare_hash_and_are_short(make_translation) -> None:
    made = make_translation("the cat|s", ["le|s chat|s"], n_heads=3, n_self_heads=2)
    one, other = (records(made, heads=HEADS + SELF_HEADS)[0] for _ in range(2))
    tables = [attention_table(made) for _ in range(2)]
    for ours, theirs in (
        (one, other),
        tables,
        [each.self_attention["encoder"] for each in (one, other)],
    ):
        assert ours == theirs
        assert hash(ours) == hash(theirs)
        assert len(repr(ours)) < 150
    nudged = np.nextafter(one.weights, np.float32(2))
    assert one != replace(one, weights=nudged)
    assert one != replace(one, heads=None)
    assert one != replace(one, self_attention={})
    assert tables[0] != replace(tables[0], weights=nudged)
    assert one != tables[0]
    assert repr(one).startswith("<AttentionRecord 1, rank 1: 'the cats' -> 'les chats', by piece (")


def test_attention_numbers_the_sentences_it_is_given(make_translation) -> None:
    several = [make_translation("a", ["b", "c"]), make_translation("", []), make_translation("d")]
    found = list(attention(several, level="word"))
    assert [(each.sentence, each.rank) for each in found][:2] == [(1, 1), (1, 2)]
    assert {each.sentence for each in found} == {1, 3}
    assert found[0] == next(attention(several[0], level="word"))
