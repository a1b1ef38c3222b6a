"""Records in the formats of Nematus and BertViz, as their readers take them apart."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from nmt.attention_maps.heads import Head
from nmt.attention_maps.interchange import CSV_COLUMNS, bertviz_line, csv_lines, nematus_block
from nmt.attention_maps.record import records

SELF = (Head("encoder layer 1 head 1", 0, "encoder"), Head("decoder layer 1 head 1", 0, "decoder"))
CROSS = (Head("layer 1 head 1", 0), Head("layer 1 head 2", 1), Head("layer 2 head 1", 2))


@pytest.mark.parametrize(("level", "finished"), [("piece", True), ("word", True), ("word", False)])
def test_a_block_of_nematus_reads_back(level: str, finished: bool, make_translation) -> None:
    """As SoftAlignments reads it: fields between bars, the ends added, a matrix."""
    translation = make_translation("the cat|s sleep", ["les chat|s dorm|ent"], finished=finished)
    [record] = records(translation, 7, level)
    header, *rows, blank = nematus_block(record, level)
    number, target, score, source, n_columns, n_rows = header.split(" ||| ")
    assert (number, blank) == ("6", "")  # Nematus counts from 0
    assert float(score) == pytest.approx(record.score, rel=1e-5)
    matrix = np.array([[float(value) for value in row.split(" ")] for row in rows])
    np.testing.assert_allclose(matrix, record.weights, atol=1e-5)
    assert matrix.shape == (int(n_rows), int(n_columns))
    words = level == "word"
    assert source.split() == (["the", "cats", "sleep"] if words else list(record.source.pieces[:4]))
    assert len(target.split()) + finished == int(n_rows)


def test_a_text_cannot_forge_a_field(make_translation) -> None:
    [record] = records(make_translation("a|||b c", ["d"]), 0, "word")
    record = replace(record, source=replace(record.source, words=("a|||b", "x y", "</s>")))
    header = next(iter(nematus_block(record, "word")))
    assert header.split(" ||| ")[3] == "a| | |b x_y"


@pytest.mark.parametrize("heads", [(), (*CROSS, *SELF)])
def test_csv_reads_back(heads: tuple[Head, ...], make_translation) -> None:
    translation = make_translation('the "cat|s",', ["le|s chat|s"], n_heads=3, n_self_heads=1)
    [record] = records(translation, 2, heads=heads)
    rows = list(csv.DictReader(csv_lines(record), CSV_COLUMNS))
    n_columns, n_rows = len(record.source.pieces), len(record.target.pieces)
    cross = [row for row in rows if row["attention"] == "cross"]
    weights = np.array([float(row["weight"]) for row in cross]).reshape(-1, n_rows, n_columns)
    expected = record.heads if heads else record.weights[None]
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
    assert [row["column_text"] for row in cross[:n_columns]] == list(record.source.pieces)
    assert [row["row_text"] for row in cross[::n_columns]][:n_rows] == list(record.target.pieces)
    place = [cross[n_columns + 2][name] for name in ("sentence", "rank", "row", "column")]
    assert place == ["2", "1", "2", "3"]
    names = [head.name for head in CROSS] if heads else ["mean"]
    assert list(dict.fromkeys(row["head"] for row in cross)) == names
    kinds = {row["attention"] for row in rows if row not in cross}
    assert kinds == ({"encoder", "decoder"} if heads else set())


def test_bertviz_gets_a_tensor_a_layer(make_translation) -> None:
    translation = make_translation("the cat|s", ["le|s chat|s"], n_heads=3, n_self_heads=1)
    [record] = records(translation, heads=(*CROSS, *SELF))
    content = json.loads(bertviz_line(record))
    shapes = [np.array(layer).shape for layer in content["cross_attention"]]
    assert shapes == [(1, 2, 5, 4), (1, 1, 5, 4)]
    np.testing.assert_allclose(content["cross_attention"][1][0][0], record.heads[2])
    for name in ("encoder", "decoder"):
        [layer] = content[f"{name}_attention"]
        np.testing.assert_allclose(layer, record.self_attention[name].heads[None])
    assert content["encoder_tokens"] == ["▁the", "▁cat", "s", "</s>"]
    assert content["decoder_tokens"] == ["<s>", "▁le", "s", "▁chat", "s"]
    [record] = records(translation)
    content = json.loads(bertviz_line(record))
    np.testing.assert_allclose(content["cross_attention"][0][0][0], record.weights)
    assert content["decoder_tokens"] == ["▁le", "s", "▁chat", "s", "</s>"]
    assert sorted(content) == ["cross_attention", "decoder_tokens", "encoder_tokens"]
