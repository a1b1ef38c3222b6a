"""Attention records as one HTML page that loads nothing: a list of sentences, and their maps.

docs/attention-dump.md describes the page and the data in it.
"""

import base64
import hashlib
import html
import itertools
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from nmt.explain.web import map_script, map_style, web_file
from nmt.storage.atomic import encode_utf8
from nmt.storage.output import atomic_output
from nmt.translation.record import AttentionRecord
from nmt.translation.words import Level, described, row_shares
from nmt.types import Encoded, FilePath

_LEVELS = 255
"""The greatest value of a weight's byte."""


def write_page(
    records: Iterable[AttentionRecord],
    path: FilePath,
    level: Level = "word",
    force: bool = False,
) -> None:
    """Write the page of records by piece, those of a sentence side by side, one at a time.

    `level` is what it shows first. `path` must be new unless `force`. Raises DataError if it cannot
    be written.
    """
    with atomic_output(Path(path), force) as stream:
        for part in _page(records, level):
            stream.write(encode_utf8(part))


def html_head(title: str, style: str, script: str = "") -> str:
    """A page up to its body, under a policy that loads nothing and runs only this script."""
    scripts = f"script-src {_source(script)}; " if script else ""
    policy = (
        f"default-src 'none'; style-src {_source(style)}; {scripts}img-src blob: data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n</head>\n"
    )


def script_json(value: object) -> str:
    """`value` as JSON that cannot end or change the script element that it stands in."""
    # `</script` ends it and `<!--` changes how it is read; JSON has `<` in strings only.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def _page(records: Iterable[AttentionRecord], level: Level) -> Iterator[str]:
    script = f"{map_script()}{web_file('page.js')}"
    yield html_head("Attention", f"{map_style()}{web_file('page.css')}", script)
    yield f'<body class="nmt-attention" data-level="{level}">\n{web_file("page.html")}'
    yield '<script type="application/json" id="data">[\n'
    for i, (_, group) in enumerate(itertools.groupby(records, lambda record: record.sentence)):
        yield f"{',' if i else ''}{script_json(_sentence(list(group)))}\n"
    yield f"]</script>\n<script>{script}</script>\n</body>\n</html>\n"


def _source(text: str) -> str:
    """The name that a policy has for an inline script or style."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _sentence(records: list[AttentionRecord]) -> dict[str, object]:
    first = records[0]
    return {
        "number": first.sentence,
        "source": _side(first.source_text, first.source),
        "hypotheses": [_hypothesis(record) for record in records],
    }


def _hypothesis(record: AttentionRecord) -> dict[str, object]:
    assert record.level == "piece"
    attribution = record.attribution
    method = "mean" if attribution is None else described(attribution.method, attribution.contrast)
    maps = [(method, "cross", record.weights)]
    if record.heads is not None:
        named = zip(record.head_names, record.heads, strict=True)
        maps += [(name, "cross", weights) for name, weights in named]
    for attention, self_weights in record.self_attention.items():
        named = zip(self_weights.head_names, self_weights.heads, strict=True)
        maps += [(name, attention, weights) for name, weights in named]
    shares: dict[str, object] = {}
    if attribution is not None and attribution.source_share is not None:
        maps.append(("over the prefix", "prefix", row_shares(attribution.prefix_scores)))
        shares["source_share"] = [round(float(share), 4) for share in attribution.source_share]
    return {
        **shares,
        "rank": record.rank,
        "forced": record.forced,
        "score": record.score if math.isfinite(record.score) else None,
        "finished": record.finished,
        **_side(record.target_text, record.target),
        "maps": [
            {"name": name, "attention": attention, **pack(weights)}
            for name, attention, weights in maps
        ],
    }


def _side(text: str, encoded: Encoded) -> dict[str, object]:
    ends = [end for _, end in encoded.word_spans]
    return {"text": text, "pieces": encoded.pieces, "words": encoded.words, "ends": ends}


def pack(weights: Float32[np.ndarray, "T S"]) -> dict[str, str]:
    """Each row as bytes in steps of 1/255 of its greatest weight, its scale; base64 of both.

    The page shows each weight within scale / 510, so within 0.002 of a distribution, and a row's
    greatest weight exactly.
    """
    scales = weights.max(axis=1, initial=0.0).astype("<f4")
    steps = np.divide(_LEVELS, scales, where=scales > 0, out=np.zeros(len(scales)), dtype=float)
    levels = np.rint(weights * steps[:, None]).astype(np.uint8)
    arrays = {"scales": scales, "weights": levels}
    return {name: base64.b64encode(array.tobytes()).decode() for name, array in arrays.items()}
