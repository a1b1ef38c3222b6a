"""Attention records in the formats of other programs: CSV, Nematus' text, BertViz' arguments."""

import json
import re
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float32

from nmt.attention_maps.record import AttentionRecord, SelfAttentionRecord
from nmt.attention_maps.words import Level
from nmt.storage.output import csv_line

CSV_COLUMNS = (
    *("sentence", "rank", "attention", "head"),
    *("row", "row_text", "column", "column_text", "weight"),
)

_LAYER = re.compile(r"layer (\d+)")


def nematus_block(record: AttentionRecord, level: Level) -> Iterator[str]:
    """The lines of one hypothesis as `nematus --output_alignment` writes them, a blank one last.

    A header `number ||| target ||| score ||| source ||| columns ||| rows`, then a row of weights
    for each target piece. SoftAlignments and others that read Nematus add the ends of sentence to
    both texts themselves, so the header leaves them out. A `|||` in a text becomes `| | |`. Nematus
    numbers sentences from 0.
    """
    source, target = (
        each.words if level == "word" else each.pieces for each in (record.source, record.target)
    )
    texts = _joined(target[:-1] if record.finished else target), _joined(source[:-1])
    n_rows, n_columns = record.weights.shape
    header = (record.sentence - 1, texts[0], f"{record.score:.6g}", texts[1], n_columns, n_rows)
    yield " ||| ".join(map(str, header))
    for row in record.weights:
        yield " ".join(f"{weight:.6g}" for weight in row)
    yield ""


def csv_lines(record: AttentionRecord) -> Iterator[str]:
    """A line for each weight, with the fields of CSV_COLUMNS; sentences, rows, columns from 1.

    `attention` is cross, encoder or decoder. The mean over all heads stands where no head over the
    source was chosen. A label with a comma, a quote or a line break is in quotes.
    """
    is_word = record.level == "word"
    source, target = (
        each.words if is_word else each.pieces for each in (record.source, record.target)
    )
    heads = record.weights[None] if record.heads is None else record.heads
    parts = [("cross", target, source, record.head_names or ("mean",), heads)]
    for kind, own in record.self_attention.items():
        parts.append((kind, own.labels, own.labels, own.head_names, own.heads))
    for attention, rows, columns, names, matrices in parts:
        for name, weights in zip(names, matrices, strict=True):
            for (row, column), weight in np.ndenumerate(weights):
                place = (row + 1, rows[row], column + 1, columns[column])
                yield csv_line(
                    (record.sentence, record.rank, attention, name, *place, f"{weight:.6g}")
                )


def bertviz_line(record: AttentionRecord) -> str:
    """One JSON object: the keyword arguments of BertViz' `head_view` and `model_view`.

    Attentions are lists of layers of shape (1, heads, rows, columns), to be made tensors of. The
    mean stands as a layer of one head where no head over the source was chosen. With the decoder's
    self-attention `decoder_tokens` are its inputs, which begin with bos; else what was predicted.
    """
    is_word = record.level == "word"
    source = record.source.words if is_word else record.source.pieces
    target = record.target.words if is_word else record.target.pieces
    heads = record.weights[None] if record.heads is None else record.heads
    cross = _layers(heads, record.head_names or ("mean",))
    content: dict[str, object] = {
        "encoder_tokens": source,
        "decoder_tokens": target,
        "cross_attention": cross,
    }
    for name, own in record.self_attention.items():
        content[f"{name}_attention"] = _own_layers(own)
        content[f"{name}_tokens"] = own.labels
    return json.dumps(content, ensure_ascii=False)


def _own_layers(own: SelfAttentionRecord) -> list[object]:
    return _layers(own.heads, own.head_names)


def _layers(heads: Float32[np.ndarray, "N Q S"], names: Sequence[str]) -> list[object]:
    """The heads by layer, as their names tell; names without a layer are one."""
    by_layer: dict[str, list[list[list[float]]]] = {}
    for weights, name in zip(heads, names, strict=True):
        found = _LAYER.search(name)
        rows = [[float(str(weight)) for weight in row] for row in weights]
        by_layer.setdefault(found[1] if found else "", []).append(rows)
    return [[layer] for layer in by_layer.values()]


def _joined(labels: Sequence[str]) -> str:
    """Labels between spaces; one within a label, as in a digit group, becomes a low line."""
    return " ".join(re.sub(r"\s", "_", label) for label in labels).replace("|||", "| | |")
