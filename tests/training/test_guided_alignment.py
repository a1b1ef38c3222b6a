"""Attention that is taught given links, exactly as the loss is defined."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training.toy import assert_resumes, spy, toy_config

from nmt.batches.batching import EncodedCorpus
from nmt.batches.guided_alignment import encode_aligned_pairs, piece_links
from nmt.errors import DataError
from nmt.models.base import Seq2Seq
from nmt.models.catalog import build_model
from nmt.ops.backend import BackendName
from nmt.ops.native.library import loaded_library
from nmt.optim.losses import GuidedAlignment, alignment_loss
from nmt.text.tokenizer import train_tokenizers
from nmt.text.word_pieces import WordPieces
from nmt.text.word_tokenizer import WordConfig
from nmt.training.step import StepSettings, train_step, translation_loss
from nmt.types import SentencePair

PAIRS = [SentencePair(t, " ".join(reversed(t.split()))) for t in ("a b c", "b", "c a", "b c a d")]
LINKS = ["2-0 1-1 0-2", "", "1-0", "3-0 2-0 1-2 0-3"]
PLACES = [*([0, j, 2 - j] for j in range(3)), [2, 0, 1], [3, 0, 2], [3, 0, 3], [3, 2, 1], [3, 3, 0]]
_NATIVE: tuple[BackendName, ...] = () if loaded_library().why_not else ("native",)
BACKENDS: tuple[BackendName, ...] = ("reference", "fused", *_NATIVE)
TRANSFORMER = {"kind": "transformer", "size": 16, "heads": 2, "layers": 2, "dropout": 0.0}


def write_links(folder: Path) -> Path:
    """Write the links of train.tsv: the words of each reversal are linked crosswise."""
    path = folder / "train.ali"
    lines = (folder / "train.tsv").read_text().splitlines()
    sizes = [len(line.split("\t")[0].split()) for line in lines]
    links = [" ".join(f"{n - 1 - j}-{j}" for j in range(n)) for n in sizes]
    path.write_text("".join(f"{line}\n" for line in links))
    return path


def encoded_pairs(folder: Path, links: Sequence[str] = LINKS) -> EncodedCorpus:
    """PAIRS with links, of which the word `d` is unknown."""
    tokenizers = train_tokenizers(WordConfig(min_freq=2), PAIRS, "en", "de", 1)
    (folder / "links").write_text("".join(f"{line}\n" for line in links))
    return encode_aligned_pairs(PAIRS, folder / "links", tokenizers, 99)


def model(kind: str = "rnn", **keys: Any) -> Seq2Seq:
    torch.manual_seed(3)
    shape = TRANSFORMER if kind == "transformer" else {"kind": "rnn", "embedding": 5, "hidden": 7}
    config = toy_config(Path(), model={**shape, "dropout": 0.0, **keys})
    return build_model(config.model, 9, 9).train()


def test_links_are_spread_over_the_pieces_of_their_words() -> None:
    source = WordPieces(np.array([[1, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0, 0.5]], np.float32))
    target = WordPieces(np.array([[1, 0, 0], [0, 1, 1]], np.float32))
    links = piece_links(frozenset({(0, 1), (2, 0)}), source, target)
    assert links.tolist() == [[0, 1], [0, 2], [1, 1], [1, 2], [3, 0]]


def test_the_loss_is_the_cross_entropy_of_the_linked_rows(tmp_path: Path) -> None:
    links = encoded_pairs(tmp_path).batch(range(4)).links
    assert links is not None
    weights = torch.rand(4, 5, 5).softmax(dim=2)
    targets = torch.zeros(4, 5, 5)
    targets[tuple(links.indices)] = links.shares
    assert targets.nonzero().tolist() == PLACES
    expected = -(targets * weights.log()).sum()
    torch.testing.assert_close(alignment_loss(weights, links), expected)
    assert float(alignment_loss(targets, links)) == pytest.approx(math.log(2))


@pytest.mark.parametrize("kind", ["rnn", "transformer"])
def test_an_update_does_not_depend_on_how_its_pairs_are_cut(kind: str, tmp_path: Path) -> None:
    """Padding is invisible to the loss of the links too, and a batch is its sentences."""
    states, pairs = [], encoded_pairs(tmp_path)
    settings = StepSettings(loss=GuidedAlignment(factor=0.7))
    for cuts in ((0, 4), (0, 1, 4), (0, 1, 2, 3, 4)):
        net = model(kind)
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        parts = [pairs.batch(range(first, last)) for first, last in pairwise(cuts)]
        train_step(net, optimizer, parts, settings)
        states.append(net.state_dict())
        torch.testing.assert_close(states[-1], states[0], rtol=1e-4, atol=1e-6)


def test_without_guidance_links_change_no_bit(tmp_path: Path) -> None:
    linked = encoded_pairs(tmp_path).batch(range(4))
    unlinked = replace(linked, links=None)
    plain, other = (translation_loss(model(), b, StepSettings()) for b in (linked, unlinked))
    assert plain.loss_sum.equal(other.loss_sum)
    guided = translation_loss(model(), linked, StepSettings(loss=GuidedAlignment()))
    assert guided.nll_sum.equal(plain.nll_sum)
    assert guided.loss_sum > plain.loss_sum


@pytest.mark.parametrize("decoder", ["bahdanau", "conditional", "luong"])
def test_every_backend_gives_the_gradient_of_the_reference(decoder: str, tmp_path: Path) -> None:
    """Fused operations return weights that pass gradients; Luong's decoder has a loop."""
    batch = encoded_pairs(tmp_path).batch(range(4))
    gradients = []
    for backend in BACKENDS:
        net = model(decoder={"kind": decoder}, backend=backend)
        loss = translation_loss(net, batch, StepSettings(loss=GuidedAlignment(factor=3.0)))
        loss.loss_sum.backward()  # type: ignore[no-untyped-call]
        gradients.append({n: p.grad for n, p in net.named_parameters() if p.grad is not None})
        torch.testing.assert_close(gradients[-1], gradients[0])


def test_chosen_heads_alone_are_taught(tmp_path: Path) -> None:
    batch = encoded_pairs(tmp_path).batch(range(4))
    net = model("transformer")
    output = net(batch.src_ids, batch.src_ids != 0, batch.tgt_in, with_weights=True)
    assert batch.links is not None
    assert output.heads is not None
    loss = GuidedAlignment(heads=(3,)).batch_alignment_loss(output, batch.links)
    torch.testing.assert_close(loss, alignment_loss(output.heads[:, 3], batch.links))


def test_a_run_is_taught_by_its_links_and_resumes(corpus: Path, monkeypatch) -> None:
    """The factor decays from epoch to epoch, also in a run that goes on."""
    factors: list[float] = []
    spy(
        monkeypatch,
        GuidedAlignment,
        "batch_alignment_loss",
        lambda loss, *_: factors.append(loss.factor),
    )
    loss = {"kind": "guided_alignment", "links": str(write_links(corpus)), "decay": 0.8}
    assert_resumes(corpus, 3, train={"loss": loss})
    assert factors == pytest.approx(2 * ([0.5] * 4 + [0.4] * 4))


def test_links_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for lines, problem in (
        (LINKS[:3], r"links: 3 lines for 4 sentence pairs"),
        ([*LINKS, "0-0"], r"links: too many lines for 4 sentence pairs"),
        (["0-3", *LINKS[1:]], r"links:1: got the link 0-3, allowed: target words 0 to 2"),
    ):
        with pytest.raises(DataError, match=problem):
            encoded_pairs(tmp_path, lines)
