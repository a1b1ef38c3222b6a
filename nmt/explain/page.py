"""Attention records as one self-contained HTML page: a list of sentences and their maps.

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
from nmt.translation.words import Level, method_title, row_shares
from nmt.types import Encoded, FilePath


def write_page(
    records: Iterable[AttentionRecord], path: FilePath, level: Level = "word", force: bool = False
) -> None:
    """Write a page of records of level "piece". The records of a sentence must be consecutive.

    The records are read one sentence at a time. `level` is the level that the page displays first.
    `path` must be new unless `force`. Raises the errors of `atomic_output`.
    """
    with atomic_output(Path(path), force) as stream:
        stream.writelines(map(encode_utf8, _page(records, level)))


def html_head(title: str, style: str, script: str) -> str:
    """Return the HTML before the body, with a policy that allows only this style and script."""
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; "
        "img-src blob: data:; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n</head>\n"
    )


def script_json(value: object) -> str:
    """Return `value` as JSON that is safe inside a script element.

    `</script` would end the element and `<!--` would change how it is parsed. JSON has `<` only in
    strings, where an escape can replace it.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def _page(records: Iterable[AttentionRecord], level: Level) -> Iterator[str]:
    script = f"{map_script()}{web_file('page.js')}"
    yield html_head("Attention", f"{map_style()}{web_file('page.css')}", script)
    yield f'<body class="nmt-attention" data-level="{level}">\n{web_file("page.html")}'
    yield '<script type="application/json" id="data">[\n'
    for i, (number, group) in enumerate(itertools.groupby(records, lambda record: record.sentence)):
        hypotheses = list(group)
        source = _side(hypotheses[0].source_text, hypotheses[0].source)
        outputs = [_hypothesis(record) for record in hypotheses]
        sentence = {"number": number, "source": source, "hypotheses": outputs}
        yield f"{',' if i else ''}{script_json(sentence)}\n"
    yield f"]</script>\n<script>{script}</script>\n</body>\n</html>\n"


def _source(text: str) -> str:
    """Return the hash by which a Content-Security-Policy allows an inline script or style."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _hypothesis(record: AttentionRecord) -> dict[str, object]:
    assert record.level == "piece"
    attribution = record.attribution
    method = (
        "mean" if attribution is None else method_title(attribution.method, attribution.contrast)
    )
    maps = [(method, "cross", record.weights)]
    heads = {kind: (part.head_names, part.heads) for kind, part in record.self_attention.items()}
    if record.heads is not None:
        heads = {"cross": (record.head_names, record.heads), **heads}
    for kind, (names, parts) in heads.items():
        maps += [(name, kind, weights) for name, weights in zip(names, parts, strict=True)]
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
        "maps": [{"name": name, "attention": kind, **pack(part)} for name, kind, part in maps],
    }


def _side(text: str, encoded: Encoded) -> dict[str, object]:
    ends = [end for _, end in encoded.word_spans]
    return {"text": text, "pieces": encoded.pieces, "words": encoded.words, "ends": ends}


def pack(weights: Float32[np.ndarray, "T S"]) -> dict[str, str]:
    """Return `scales`, the greatest weight of each row, and `weights`, one byte each, in base64.

    A byte counts steps of 1/255 of the row's greatest weight. The error of a weight is at most
    1/510 of that greatest weight, which is less than 0.002 for weights up to 1.
    """
    scales = weights.max(axis=1, initial=0.0).astype("<f4")
    factors = np.divide(255, scales, where=scales > 0, out=np.zeros(len(scales)), dtype=float)
    arrays = {"scales": scales, "weights": np.rint(weights * factors[:, None]).astype(np.uint8)}
    return {name: base64.b64encode(array.tobytes()).decode() for name, array in arrays.items()}
