"""Attention that is taught given links: it follows them, exactly as the loss is defined."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training.toy import assert_same_run, toy_config, train_tiny, write_reversal

from nmt.batches.batching import Batch, EncodedCorpus
from nmt.batches.guided_alignment import encode_aligned_pairs, piece_links
from nmt.corpora.alignments import parse_gold
from nmt.errors import ConfigError, DataError
from nmt.explain.aligner import Aligner
from nmt.explain.alignment import alignment_score
from nmt.models.base import Seq2Seq
from nmt.models.catalog import build_model
from nmt.ops.backend import BackendName
from nmt.ops.native.library import loaded_library
from nmt.optim.losses import GuidedAlignment, alignment_loss
from nmt.text.tokenizer import train_tokenizers
from nmt.text.word_pieces import WordPieces
from nmt.text.word_tokenizer import WordConfig
from nmt.training.loop import train
from nmt.training.step import StepSettings, train_step, translation_loss
from nmt.translation.translator import Translator
from nmt.types import SentencePair

PAIRS = [SentencePair(t, " ".join(reversed(t.split()))) for t in ("a b c", "b", "c a", "b c a d")]
LINKS = ["2-0 1-1 0-2", "", "1-0", "3-0 2-0 1-2 0-3"]
PLACES = [*([0, j, 2 - j] for j in range(3)), [2, 0, 1], [3, 0, 2], [3, 0, 3], [3, 2, 1], [3, 3, 0]]
_NATIVE: tuple[BackendName, ...] = () if loaded_library().why_not else ("native",)
BACKENDS: tuple[BackendName, ...] = ("reference", "fused", *_NATIVE)
TRANSFORMER = {"kind": "transformer", "size": 16, "heads": 2, "layers": 2, "dropout": 0.0}


def write_links(folder: Path) -> None:
    """train.ali and valid.ali: the words of each reversal are linked crosswise."""
    for name in ("train", "valid", "test"):
        lines = (folder / f"{name}.tsv").read_text().splitlines()
        sizes = [len(line.split("\t")[0].split()) for line in lines]
        links = [" ".join(f"{n - 1 - j}-{j}" for j in range(n)) for n in sizes]
        (folder / f"{name}.ali").write_text("".join(f"{line}\n" for line in links))


def corpus(folder: Path) -> EncodedCorpus:
    """PAIRS with LINKS, of which the word `d` is unknown."""
    tokenizers = train_tokenizers(WordConfig(min_freq=2), PAIRS, "en", "de", 1)
    (folder / "links").write_text("".join(f"{line}\n" for line in LINKS))
    return encode_aligned_pairs(PAIRS, folder / "links", tokenizers, 99)


def batches(corpus: EncodedCorpus, *cuts: int) -> list[Batch]:
    return [corpus.batch(range(first, last)) for first, last in pairwise(cuts)]


def model(kind: str = "rnn", **keys: Any) -> Seq2Seq:
    torch.manual_seed(3)
    shape = TRANSFORMER if kind == "transformer" else {"kind": "rnn", "embedding": 5, "hidden": 7}
    config = toy_config(Path(), model={**shape, "dropout": 0.0, **keys})
    return build_model(config.model, 9, 9).train()


# ---- links and their loss


def test_links_are_spread_over_the_pieces_of_their_words() -> None:
    source = WordPieces(np.array([[1, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0, 0.5]], np.float32))
    target = WordPieces(np.array([[1, 0, 0], [0, 1, 1]], np.float32))
    links = piece_links(frozenset({(0, 1), (2, 0)}), source, target)
    assert links.tolist() == [[0, 1], [0, 2], [1, 1], [1, 2], [3, 0]]


def test_the_loss_is_the_cross_entropy_of_the_linked_rows(tmp_path: Path) -> None:
    links = corpus(tmp_path).batch(range(4)).links
    assert links is not None
    weights = torch.rand(4, 5, 5).softmax(dim=2)
    targets = torch.zeros(4, 5, 5)
    targets[tuple(links.indices)] = links.shares
    assert targets.nonzero().tolist() == PLACES
    expected = -(targets * weights.log()).sum()
    torch.testing.assert_close(alignment_loss(weights, links), expected)
    assert float(alignment_loss(targets, links)) == pytest.approx(math.log(2))


@pytest.mark.parametrize("kind", ["rnn", "transformer"])
@pytest.mark.parametrize("cuts", [(0, 1, 4), (0, 1, 2, 3, 4)])
def test_an_update_does_not_depend_on_how_its_pairs_are_cut(
    kind: str, cuts: tuple[int, ...], tmp_path: Path
) -> None:
    """Padding is invisible to the loss of the links too, and a batch is its sentences."""
    states = []
    settings = StepSettings(loss=GuidedAlignment(factor=0.7))
    for bounds in ((0, 4), cuts):
        net = model(kind)
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        train_step(net, optimizer, batches(corpus(tmp_path), *bounds), settings)
        states.append(net.state_dict())
    for name, weight in states[0].items():
        torch.testing.assert_close(states[1][name], weight, rtol=1e-4, atol=1e-6)


def test_without_guidance_links_change_no_bit(tmp_path: Path) -> None:
    with_links = corpus(tmp_path)
    without = EncodedCorpus(with_links.src_ids, with_links.tgt_ids)
    both = (with_links, without)
    losses = [
        translation_loss(model(), encoded.batch(range(4)), StepSettings()) for encoded in both
    ]
    assert losses[0].loss_sum.equal(losses[1].loss_sum)
    settings = StepSettings(loss=GuidedAlignment())
    guided = translation_loss(model(), with_links.batch(range(4)), settings)
    assert guided.nll_sum.equal(losses[0].nll_sum)
    assert guided.loss_sum > losses[0].loss_sum


@pytest.mark.parametrize("decoder", ["bahdanau", "conditional", "luong"])
def test_every_backend_gives_the_gradient_of_the_reference(decoder: str, tmp_path: Path) -> None:
    """Fused operations return weights that pass gradients; Luong's decoder has a loop."""
    batch = corpus(tmp_path).batch(range(4))
    gradients = {}
    for backend in BACKENDS:
        net = model(decoder={"kind": decoder}, backend=backend)
        loss = translation_loss(net, batch, StepSettings(loss=GuidedAlignment(factor=3.0)))
        loss.loss_sum.backward()  # type: ignore[no-untyped-call]
        gradients[backend] = {n: p.grad for n, p in net.named_parameters() if p.grad is not None}
    for backend, actual in gradients.items():
        assert actual.keys() == gradients["reference"].keys()
        for name, gradient in gradients["reference"].items():
            torch.testing.assert_close(actual[name], gradient, msg=lambda m, b=backend: f"{b}: {m}")


def test_chosen_heads_alone_are_taught(tmp_path: Path) -> None:
    batch = corpus(tmp_path).batch(range(4))
    net = model("transformer")
    output = net(batch.src_ids, batch.src_ids != 0, batch.tgt_in, with_weights=True)
    assert batch.links is not None
    assert output.heads is not None
    loss = GuidedAlignment(heads=(3,)).links_sum(output, batch.links)
    torch.testing.assert_close(loss, alignment_loss(output.heads[:, 3], batch.links))


# ---- a run


def test_attention_learns_the_links_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    """AER falls far below that without links; the factor decays from epoch to epoch."""
    write_reversal(tmp_path, n_train=200, n_test=12)
    write_links(tmp_path)
    links = str(tmp_path / "train.ali")
    loss = {"kind": "guided_alignment", "links": links, "factor": 1.0, "decay": 0.9}
    keys = {"epochs": 4, "lr": 0.02}
    train_tiny(tmp_path, "plain", train=keys)
    train_tiny(tmp_path, "taught", train={**keys, "loss": loss})
    assert error(tmp_path, "taught") < 0.8 * error(tmp_path, "plain")
    train_tiny(tmp_path, "resumed", stop_after=11, train={**keys, "loss": loss})
    train_tiny(tmp_path, "resumed", train={**keys, "loss": loss})
    assert_same_run(tmp_path / "taught", tmp_path / "resumed")


def error(folder: Path, run: str) -> float:
    """The AER of a run on the test set."""
    pairs = [line.split("\t") for line in (folder / "test.tsv").read_text().splitlines()]
    gold = [parse_gold(line, "") for line in (folder / "test.ali").read_text().splitlines()]
    aligner = Aligner(Translator.load(folder / run, "cpu", "last"))
    links = aligner.align([src for src, _ in pairs], [tgt for _, tgt in pairs])
    return alignment_score(links, gold).aer


# ---- what is refused


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (LINKS[:3], r"links: 3 lines for 4 sentence pairs"),
        ([*LINKS, "0-0"], r"links: too many lines for 4 sentence pairs"),
        (["0-3", *LINKS[1:]], r"links:1: got the link 0-3, allowed: target words 0 to 2"),
    ],
)
def test_links_that_do_not_fit_are_refused(tmp_path: Path, lines: list[str], problem: str) -> None:
    tokenizers = train_tokenizers(WordConfig(min_freq=1), PAIRS, "en", "de", 1)
    (tmp_path / "links").write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(DataError, match=problem):
        encode_aligned_pairs(PAIRS, tmp_path / "links", tokenizers, 99)


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ({"data": {"cache": "x"}}, "reads pairs in memory"),
        ({"model": {"attention": {"kind": "none"}}}, "requires attention: got"),
        (
            {"model": {"attention": {"kind": "additive", "weights": {"kind": "hard"}}}},
            "got 'hard'; guided_al",
        ),
    ],
)
def test_settings_that_guidance_cannot_go_with(sections: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        toy_config(Path(), train={"loss": {"kind": "guided_alignment", "links": "x"}}, **sections)


def test_a_head_that_there_is_not_is_named_by_its_key(tmp_path: Path) -> None:
    write_reversal(tmp_path, n_train=20, n_test=3)
    write_links(tmp_path)
    guided = {"links": str(tmp_path / "train.ali"), "heads": "layer 9"}
    loss = {"kind": "guided_alignment", **guided}
    config = toy_config(tmp_path, train={"steps": 1, "loss": loss})
    with pytest.raises(ConfigError, match=r"train.loss.heads: got 'layer 9', allowed"):
        train(config, tmp_path / "run", ["nmt"], quiet=True)
