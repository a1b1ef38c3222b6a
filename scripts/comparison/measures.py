"""The measurements of one finished run: translations, perplexity, and attention."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from pydantic import TypeAdapter

from nmt.batches.batching import encode_pairs
from nmt.corpora.corpora import read_examples
from nmt.corpora.sources import pairs_of
from nmt.errors import CheckpointError
from nmt.evaluation.evaluate import Scoring, evaluate
from nmt.evaluation.examples import split_named
from nmt.runs.directory import RunDirectory
from nmt.storage.atomic import write_json
from nmt.training.validation import mean_loss
from nmt.translation.translator import Translator
from nmt.types import EvalExample, Translation

FILE = "comparison.json"
_FORMAT = 1
_NO_LIMIT = 10**9
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Looks:
    """The spread of attention, as means over the pieces of the references (eos included).

    `entropy` in nats, of the weights averaged over heads; `share` is the entropy over the
    logarithm of the number of source pieces, 1 for uniform attention; `largest` is the mean largest
    weight. `head_entropy` is the mean over the heads of each head's own entropy.
    """

    entropy: float
    share: float
    largest: float
    head_entropy: float
    n_heads: int


@dataclass(frozen=True)
class Measured:
    """One run. `loss` is in nats per target piece of the test set, without label smoothing."""

    step: int
    n_parameters: int
    bleu: float
    signature: str
    loss: float
    looks: Looks
    hyp_texts: list[str]


def measure(run: Path) -> Measured:
    """The measures of a run's last checkpoint, stored in the run and read from there if current."""
    directory = RunDirectory(run)
    step = max(directory.checkpoint_folder.steps())
    if (stored := _stored(directory, step)) is not None:
        return stored
    translator = Translator.load(run, device="cpu", checkpoint="last")
    examples = test_set(run)
    scoring = Scoring(tgt_lang=directory.load_config().data.tgt_lang, n_bootstrap=0)
    evaluation = evaluate(translator, examples, scoring)
    corpus = encode_pairs(pairs_of(examples), translator.tokenizers, _NO_LIMIT)
    measured = Measured(
        step=step,
        n_parameters=sum(p.numel() for p in translator.model.parameters()),
        bleu=evaluation.scores["bleu"].score,
        signature=evaluation.scores["bleu"].signature,
        loss=mean_loss(translator.model, corpus, _CPU),
        looks=looks_of(forced(translator, examples)),
        hyp_texts=list(evaluation.hyp_texts),
    )
    write_json(run / FILE, {"format": _FORMAT, **asdict(measured)})
    return measured


def test_set(run: Path) -> list[EvalExample]:
    data = RunDirectory(run).load_config().data
    return read_examples(split_named(data, "test"), data)


def forced(translator: Translator, examples: Sequence[EvalExample]) -> Sequence[Translation]:
    """The forced decoding of the first reference, so that all models have the same pieces."""
    texts = [example.src_text for example in examples]
    refs = [example.ref_texts[0] for example in examples]
    return translator.force(texts, refs, with_heads=True)


def looks_of(translations: Sequence[Translation]) -> Looks:
    """Return the means over all target pieces of the sources with two or more pieces."""
    means, of_heads, tops, shares = [], [], [], []
    n_heads = 1
    for translation in translations:
        if not translation.hypotheses:
            continue
        hypothesis = translation.hypotheses[0].hypothesis
        n_pieces = hypothesis.attention.shape[1]
        if n_pieces < 2:
            continue
        assert hypothesis.heads is not None
        n_heads = len(hypothesis.heads)
        means.append(_entropy(hypothesis.attention))
        shares.append(means[-1] / np.log(n_pieces))
        tops.append(hypothesis.attention.max(axis=-1))
        of_heads.append(_entropy(hypothesis.heads).mean(axis=0))
    mean, share, top, head = (
        float(np.concatenate(parts).mean()) for parts in (means, shares, tops, of_heads)
    )
    return Looks(mean, share, top, head, n_heads)


def _entropy(weights: Float[np.ndarray, "*L S"]) -> Float[np.ndarray, "*L"]:
    """-sum w log w over the last axis, 0 log 0 being 0."""
    logs = np.log(np.where(weights > 0, weights, 1.0))
    entropy: Float[np.ndarray, "*L"] = -(weights * logs).sum(axis=-1)
    return entropy


def _stored(directory: RunDirectory, step: int) -> Measured | None:
    """Return the stored measures if they are of this checkpoint and format."""
    try:
        stored = directory.read_json(FILE)
    except CheckpointError:
        return None
    if not isinstance(stored, dict) or stored.pop("format", 0) != _FORMAT:
        return None
    return TypeAdapter(Measured).validate_python(stored) if stored.get("step") == step else None
