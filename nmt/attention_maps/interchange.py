"""Attention records in the formats of other programs: Nematus' text, and arguments for BertViz."""

import json
import re
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float32

from nmt.attention_maps.record import AttentionRecord, SelfAttentionRecord
from nmt.attention_maps.words import Level

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
