"""One HTML file with a model's weights, tokenizers and a JavaScript translator (docs/export.md)."""

import base64
from collections.abc import Iterator
from pathlib import Path

import torch

from nmt.config import RunConfig
from nmt.errors import ConfigError
from nmt.explain.explainer.tokenizers import tokenizer_data
from nmt.explain.explainer.weights import NumberFormat, layout_and_bytes
from nmt.explain.page import html_head, script_json
from nmt.explain.web import map_script, map_style, web_file
from nmt.models.recurrent.rnn import RNNConfig
from nmt.runs.trained_run import LoadedModel, TrainedRun
from nmt.storage.atomic import encode_utf8
from nmt.storage.output import atomic_output
from nmt.training.samples import read_samples
from nmt.types import FilePath

_SCRIPTS = (  # a script requires those before it
    *("arithmetic", "model", "search", "text", "tokenizer", "translator"),
    *("labels", "cards", "step_view", "tree_view", "page"),
)
_SCORES = ("additive", "dot", "scaled_dot", "general")
_CELLS, _TOKENIZERS = ("gru", "lstm"), ("sentencepiece", "word")
_ATTENTION_KINDS = {"weights": "soft", "span": "global", "coverage": "none"}


def write_explainer(
    run: TrainedRun,
    checkpoint: str,
    path: FilePath,
    numbers: NumberFormat = "int8",
    force: bool = False,
) -> None:
    """Write the page of a checkpoint to `path`, with matrices in the number format `numbers`.

    `path` must be new unless `force`. Raises ConfigError as `check_explainable` does, and the
    errors of `atomic_output` and `TrainedRun.load_model`.
    """
    check_explainable(run.config)
    with atomic_output(Path(path), force) as stream:
        loaded = run.load_model(checkpoint, torch.device("cpu"))
        samples = read_samples(run.path, loaded.step)
        example = samples[0].record.source_text if samples else ""
        stream.writelines(map(encode_utf8, page(loaded, numbers, example)))


def check_explainable(config: RunConfig) -> None:
    """Raise ConfigError, which names the key, if the page's script does not support a setting."""
    for key, value, allowed in _unsupported(config):
        raise ConfigError(f"cannot export {key}: got {value}, allowed: {allowed} (format page)")


def _unsupported(config: RunConfig) -> Iterator[tuple[str, str, str]]:
    """Yield the key, the value and the allowed values of each setting that is not supported."""
    model, search = config.model, config.search
    if not isinstance(model, RNNConfig):
        yield "model.kind", f"'{model.kind}'", "'rnn'"
        return
    for side in ("encoder", "decoder"):
        if (cell := getattr(model, side).cell) not in _CELLS:
            yield f"model.{side}.cell", f"'{cell}'", ", ".join(_CELLS)
    if (tokenizer := config.tokenizer.kind) not in _TOKENIZERS:
        yield "tokenizer.kind", f"'{tokenizer}'", ", ".join(_TOKENIZERS)
    attention = model.attention
    if attention.kind == "none" or attention.kind not in (*_SCORES, "multi_head"):
        yield "model.attention.kind", f"'{attention.kind}'", ", ".join((*_SCORES, "multi_head"))
        return
    if attention.kind == "multi_head" and attention.over.kind not in _SCORES:
        yield "model.attention.over.kind", f"'{attention.over.kind}'", ", ".join(_SCORES)
    for option, allowed in _ATTENTION_KINDS.items():
        if (kind := getattr(attention, option).kind) != allowed:
            yield f"model.attention.{option}.kind", f"'{kind}'", f"'{allowed}'"
    if attention.gate:
        yield "model.attention.gate", "true", "false"
    for key, settings in (("sampling", search.sampling), ("mbr", search.mbr)):
        if settings is not None:
            yield f"search.{key}", "settings", "null"
    if config.data.reverse_target:
        yield "data.reverse_target", "true", "false"
    for key, words in (("must", search.must), ("must_not", search.must_not)):
        if words:
            yield f"search.{key}", f"'{words[0]}'", "no words"


def page(loaded: LoadedModel, numbers: NumberFormat, example: str = "") -> Iterator[str]:
    """Yield the parts of the page of a model that `check_explainable` accepts.

    `example` is the sentence that the page translates first.
    """
    script = "".join([map_script(), *(web_file(f"explainer/{name}.js") for name in _SCRIPTS)])
    style = f"{map_style()}{web_file('explainer/page.css')}"
    tensors, content = layout_and_bytes(loaded.model, numbers)
    sides = loaded.tokenizers
    data = {
        "name": loaded.config.name,
        "step": loaded.step,
        "numbers": numbers,
        "example": example,
        "model": loaded.config.model.model_dump(mode="json"),
        "search": loaded.config.search.model_dump(mode="json"),
        "tokenizers": {"src": tokenizer_data(sides.src), "tgt": tokenizer_data(sides.tgt)},
        "tensors": tensors,
    }
    yield html_head(f"nmt: {loaded.config.name}", style, script)
    yield f'<body class="nmt-attention">\n{web_file("explainer/page.html")}'
    yield f'<script type="application/json" id="data">{script_json(data)}</script>\n'
    yield f'<script type="text/plain" id="weights">{base64.b64encode(content).decode()}</script>\n'
    yield f"<script>{script}</script>\n</body>\n</html>\n"
