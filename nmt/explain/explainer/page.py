"""The page: a model's weights, its tokenizers and a translator in JavaScript, in one file.

docs/export.md describes it.
"""

import base64
from collections.abc import Iterator
from pathlib import Path

import torch

from nmt.config import RunConfig
from nmt.errors import ConfigError
from nmt.explain.explainer.tokenizers import tokenizer_data
from nmt.explain.explainer.weights import Numbers, layout_and_bytes
from nmt.explain.page import html_head, script_json
from nmt.explain.web import map_script, map_style, web_file
from nmt.models.recurrent.rnn import RNNConfig
from nmt.runs.directory import RunDirectory
from nmt.runs.trained_run import LoadedModel, TrainedRun
from nmt.search.search_config import SearchConfig
from nmt.storage.atomic import encode_utf8
from nmt.storage.output import atomic_output
from nmt.training.samples import read_samples
from nmt.types import FilePath

_SCRIPTS = (  # each needs those before it
    *("arithmetic", "model", "search", "text", "tokenizer", "translator"),
    *("labels", "cards", "step_view", "tree_view", "page"),
)
_SCORES = ("additive", "dot", "scaled_dot", "general")
_PLAIN = {"weights": "soft", "span": "global", "coverage": "none"}

_Refusal = tuple[str, object, str]
"""A key, its value and what is allowed."""


def write_explainer(
    run: TrainedRun,
    checkpoint: str,
    path: FilePath,
    numbers: Numbers = "int8",
    force: bool = False,
) -> None:
    """Write the page of a checkpoint, whose matrices are in `numbers`, to `path`.

    `path` must be new unless `force`. Raises ConfigError, naming the key, for what the page's
    script does not compute, DataError if `path` cannot be written, and what
    `TrainedRun.load_model` raises.
    """
    check_explainable(run.config)
    with atomic_output(Path(path), force) as stream:
        loaded = run.load_model(checkpoint, torch.device("cpu"))
        for part in page(loaded, numbers, _example(run.directory, loaded.step)):
            stream.write(encode_utf8(part))


def check_explainable(config: RunConfig) -> None:
    """Raise ConfigError, naming the key, for what the page's script does not compute."""
    for key, got, allowed in (*_of_model(config), *_of_search(config.search)):
        value = f"'{got}'" if isinstance(got, str) else got
        raise ConfigError(f"cannot export {key}: got {value}, allowed: {allowed} (format page)")


def _of_model(config: RunConfig) -> Iterator[_Refusal]:
    model = config.model
    if not isinstance(model, RNNConfig):
        yield "model.kind", model.kind, "'rnn'"
        return
    attention = model.attention
    if attention.kind == "none" or attention.kind not in (*_SCORES, "multi_head"):
        yield "model.attention.kind", attention.kind, ", ".join((*_SCORES, "multi_head"))
        return
    if attention.kind == "multi_head" and attention.over.kind not in _SCORES:
        yield "model.attention.over.kind", attention.over.kind, ", ".join(_SCORES)
    for option, kind in _PLAIN.items():
        if (got := getattr(attention, option).kind) != kind:
            yield f"model.attention.{option}.kind", got, f"'{kind}'"
    if attention.gate:
        yield "model.attention.gate", "true", "false"


def _of_search(search: SearchConfig) -> Iterator[_Refusal]:
    for key, value in (("sampling", search.sampling), ("mbr", search.mbr)):
        if value is not None:
            yield f"search.{key}", "settings", "null"
    for key, words in (("must", search.must), ("must_not", search.must_not)):
        if words:
            yield f"search.{key}", words[0], "no words"


def page(loaded: LoadedModel, numbers: Numbers, example: str = "") -> Iterator[str]:
    """Yield the parts of the page of a model that `check_explainable` has passed.

    `example` is the sentence that it begins with.
    """
    script = "".join([map_script(), *(web_file(f"explainer/{name}.js") for name in _SCRIPTS)])
    style = f"{map_style()}{web_file('explainer/page.css')}"
    tensors, content = layout_and_bytes(loaded.model, numbers)
    tokenizers = loaded.tokenizers
    data = {
        "name": loaded.config.name,
        "step": loaded.step,
        "numbers": numbers,
        "example": example,
        "model": loaded.config.model.model_dump(mode="json"),
        "search": loaded.config.search.model_dump(mode="json"),
        "tokenizers": {
            "src": tokenizer_data(tokenizers.src),
            "tgt": tokenizer_data(tokenizers.tgt),
        },
        "tensors": tensors,
    }
    yield html_head(f"nmt: {loaded.config.name}", style, script)
    yield f'<body class="nmt-attention">\n{web_file("explainer/page.html")}'
    yield f'<script type="application/json" id="data">{script_json(data)}</script>\n'
    yield f'<script type="text/plain" id="weights">{base64.b64encode(content).decode()}</script>\n'
    yield f"<script>{script}</script>\n</body>\n</html>\n"


def _example(directory: RunDirectory, step: int) -> str:
    """Return the first sentence whose samples a validation at this step wrote, if there is one."""
    samples = read_samples(directory.path, step)
    return samples[0].record.source_text if samples else ""
