"""CTranslate2 export: scores, greedy and beam search are those of the model."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from training.toy import toy_config, write_reversal

from nmt.export.ctranslate2_folder import export_ctranslate2
from nmt.ops.masks import keep_from_lengths
from nmt.runs.trained_run import TrainedRun
from nmt.text.vocabulary import BOS_ID, EOS_ID
from nmt.training.loop import train
from nmt.translation.translator import Translator

_MODEL = {"kind": "transformer", "size": 24, "heads": 2, "layers": 1, "decoder_layers": 2}
MODELS: dict[str, dict[str, Any]] = {
    "pre-sinusoidal-tied": {**_MODEL, "tie_embeddings": "target"},
    "post-learned-gelu": {
        **{**_MODEL, "norm": "post", "activation": "gelu"},
        "positions": {"kind": "learned", "max_length": 1000},
    },
    "pre-rotary": {**_MODEL, "positions": {"kind": "rotary"}},
    "post-none-all-tied": {
        **{**_MODEL, "norm": "post", "tie_embeddings": "all"},
        "positions": {"kind": "none"},
    },
}
QUICK = "pre-sinusoidal-tied"
TOLERANCE = 1e-5
"""The largest difference of a log-probability that is allowed."""

SCORED_ALIKE = 0.01
"""Translations whose scores differ by less may be found in either order."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    write_reversal(folder, n_train=300, n_test=20)
    return folder


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=[] if n == QUICK else pytest.mark.slow) for n in MODELS],
)
def exported(request: pytest.FixtureRequest, corpus: Path) -> tuple[TrainedRun, Path]:
    """A run that ends its translations, and its folder."""
    pytest.importorskip("ctranslate2", reason="needs pip install 'attention-nmt[ctranslate2]'")
    path = corpus / request.param
    config = toy_config(
        corpus,
        model={**MODELS[request.param], "dropout": 0.0},
        tokenizer={"kind": "word", "min_freq": 1, "joint": "all" in request.param},
        train={"epochs": 12, "batch_size": 10, "lr": 0.005},
        search={"length_penalty": 0.0, "max_repeats": None},
    )
    train(config, path, quiet=True)
    run = TrainedRun.open(path)
    out = corpus / f"{request.param}.ct2"
    assert export_ctranslate2(run, "last", out) == out / "manifest.json"
    return run, out


def sources(run: TrainedRun) -> list[str]:
    lines = (run.path.parent / "test.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[0] for line in lines]


@torch.inference_mode()
def test_log_probabilities_are_those_of_the_model(exported) -> None:
    import ctranslate2

    run, folder = exported
    loaded = run.with_config(["model.backend=reference"]).load_model("last", torch.device("cpu"))
    src_vocab, tgt_vocab = loaded.tokenizers.src.vocab, loaded.tokenizers.tgt.vocab
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    differences = []
    for n, text in enumerate([*sources(run), "zzz a"]):
        src = loaded.tokenizers.src.encode(text).ids
        tgt = [4 + (n + i) % (len(tgt_vocab) - 4) for i in range(n % 7)]
        (scored,) = translator.score_batch(
            [[src_vocab.piece_of(i) for i in src]], [[tgt_vocab.piece_of(i) for i in tgt]]
        )
        ids = torch.tensor([[*src, EOS_ID]])
        keep = keep_from_lengths(torch.tensor([ids.shape[1]]), ids.shape[1])
        model = loaded.model
        state = model.init_state(model.encode(ids, keep))
        out = model.teacher_forced(torch.tensor([[BOS_ID, *tgt]]), state)
        log_probs = out.vocabulary(out.features).log_softmax(dim=-1)[0]
        ours = [float(row[i]) for row, i in zip(log_probs, [*tgt, EOS_ID], strict=True)]
        assert len(ours) == len(scored.log_probs)
        differences += [abs(a - b) for a, b in zip(ours, scored.log_probs, strict=True)]
    assert max(differences) < TOLERANCE


@pytest.mark.parametrize("beam", [1, 4])
def test_the_example_of_the_page_translates_as_nmt_does(exported, beam) -> None:
    """CTranslate2 has another limit of length, and ends its beam by another rule.

    So a text may differ where the search of nmt met its limit, or by what the model scores alike.
    """
    run, folder = exported
    texts = [*sources(run), "a b a b a b", "x", ""]
    translator = Translator.load(run, "cpu", "last", {"beam": beam})
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import ctranslate2.*?)```", page, flags=re.DOTALL)
    example: dict[str, Any] = {}
    exec(code.replace("model.ct2", str(folder)), example)
    translations = translator.translate(texts), example["translate"](texts, beam)
    for text, ours, theirs in zip(texts, *translations, strict=True):
        if theirs == ours.text or not ours.hypotheses[0].hypothesis.finished:
            continue
        (forced,) = translator.force([text], [theirs])
        score = ours.hypotheses[0].hypothesis.score
        assert forced.hypotheses[0].hypothesis.score > score - SCORED_ALIKE


def test_the_manifest_knows_the_longest_sentence(exported) -> None:
    run, folder = exported
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert {"model.bin", "config.json"} < set(manifest["sha256"])
    positions = run.config.model.positions.kind  # type: ignore[union-attr]
    longest = {"rotary": None, "learned": 1000}.get(positions, run.config.search.max_length + 1)
    assert manifest["max_positions"] == longest
