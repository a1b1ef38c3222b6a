"""Right-to-left runs (data.reverse_target), beside the plain run on the reversed targets."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from training.toy import last_checkpoint, records, train_tiny, write_reversal
from translation.small import PAIRS, PIECES, TEXTS, translator_of, turned

from nmt.batches.batching import EncodedCorpus, encode_pairs
from nmt.batches.resampling import Resampling
from nmt.corpora.sources import DataConfig
from nmt.errors import ConfigError
from nmt.explain.aligner import WeightOptions, piece_weights
from nmt.explain.attribution import inputs
from nmt.explain.attribution.methods import METHODS, Attributor
from nmt.explain.explainer.page import write_explainer
from nmt.export.onnx_folder import export_onnx
from nmt.models.transformer.transformer import TransformerConfig
from nmt.runs.trained_run import TrainedRun
from nmt.search.back_pointers import length_penalty
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import SentencePieceConfig, WordConfig, train_tokenizers
from nmt.translation.translator import Translator
from nmt.types import AttributionMethod, Hypothesis

SOURCES = ["a b c", "h g f e d", "b"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run that learns reversals from right to left, and one that learns copies."""
    folder = tmp_path_factory.mktemp("reversals")
    write_reversal(folder, n_train=100, n_test=10)
    (folder / "copies").mkdir()
    for path in folder.glob("*.tsv"):
        sources = [line.split("\t")[0] for line in path.read_text().splitlines()]
        (folder / "copies" / path.name).write_text("".join(f"{s}\t{s}\n" for s in sources))
    train_tiny(folder, data={"reverse_target": True})
    train_tiny(folder / "copies")
    return [folder / "run", folder / "copies" / "run"]


def test_a_run_equals_a_plain_run_on_reversed_targets(runs: list[Path]) -> None:
    """But for the results, which are in reading order."""
    weights = [last_checkpoint(run).model_tensors for run in runs]
    torch.testing.assert_close(*weights, rtol=0, atol=0)
    losses = [[line.get("loss") for line in records(run)] for run in runs]
    assert losses[0] == losses[1]
    ours, theirs = (Translator.load(run, "cpu") for run in runs)
    targets = [text[::-1] for text in SOURCES]
    translated = [run.translate(SOURCES, with_heads=True) for run in (ours, theirs)]
    forced = ours.force(SOURCES, targets, True), theirs.force(SOURCES, SOURCES, True)
    for one, other in (*zip(*translated, strict=True), *zip(*forced, strict=True)):
        assert one.text.split() == other.text.split()[::-1]
        turned, plain = one.hypotheses[0].hypothesis, other.hypotheses[0].hypothesis
        n, size = len(plain.ids) - plain.finished, len(plain.ids)
        order = [*range(n)[::-1], *range(n, size)]
        assert one.hypotheses[0].target.ids == turned.ids[:n] == plain.ids[:n][::-1]
        assert turned.log_probs == tuple(plain.log_probs[i] for i in order)
        lp = length_penalty(len(turned.ids), ours.search.length_penalty)
        assert plain.score == turned.score == pytest.approx(sum(turned.log_probs) / lp)
        assert np.array_equal(turned.attention, plain.attention[order])
        assert np.array_equal(turned.heads, plain.heads[:, order])
    for reading in (WeightOptions(), WeightOptions(shift=1), WeightOptions(method="norms")):
        one, other = (
            piece_weights(t, [x.source for x in xs], [x.hypotheses[0].target for x in xs], reading)
            for t, xs in zip((ours, theirs), forced, strict=True)
        )
        assert all(np.array_equal(a, b[::-1]) for a, b in zip(one, other, strict=True))


def test_ensembles_and_rerankers(runs: list[Path]) -> None:
    run, plain = runs
    with pytest.raises(ConfigError, match=r"data\.reverse_target differs"):
        Translator.load([plain, run], "cpu")
    one, two = Translator.load(run, "cpu"), Translator.load([run, run], "cpu")
    assert [t.text for t in one.translate(SOURCES)] == [t.text for t in two.translate(SOURCES)]
    searcher = Translator.load(plain, "cpu", search={"beam": 3})
    beam = searcher.translate(SOURCES[:1], n_best=3)[0].hypotheses
    before = {output.text: output.hypothesis.score for output in beam}
    searcher.rerank_by([run], [1.0])
    for output in searcher.translate(SOURCES[:1], n_best=3)[0].hypotheses:
        second = one.force(SOURCES[:1], [output.text])[0].hypotheses[0].hypothesis.score
        assert output.hypothesis.score == pytest.approx((before[output.text] + second) / 2)


def test_a_reversed_run_is_not_exported(runs: list[Path]) -> None:
    """Other programs would read its translations backwards."""
    for export in (export_onnx, write_explainer):
        with pytest.raises(ConfigError, match=r"export data\.reverse_target"):
            export(TrainedRun.open(runs[0]), "best", runs[0].parent / "out")


def test_batches_reverse_sampled_pieces_and_links() -> None:
    tokenizers = train_tokenizers(PIECES, PAIRS, "en", "fr", 1)
    data = DataConfig.model_validate({"sampling": {"tgt": 0.7}})
    resampling = Resampling.of(data, tokenizers, 1)
    plain = replace(encode_pairs(PAIRS, tokenizers, 99), resampling=resampling)
    ours, theirs = (c.batch([0, 1], 3) for c in (replace(plain, reverse_target=True), plain))
    for one, other in zip(ours.tgt_out.tolist(), theirs.tgt_out.tolist(), strict=True):
        end = other.index(3)
        assert one == [*other[:end][::-1], *other[end:]]
    links = [np.array([[0, 1], [0, 2], [2, 0]], np.int32), np.zeros((0, 2), np.int32)]
    corpus = EncodedCorpus([(4, 5, 6)] * 2, [(7, 8, 9, 4), (5,)], links=links, reverse_target=True)
    batch = corpus.batch([0, 1])
    assert batch.tgt_in[0].tolist() == [2, 4, 9, 8, 7]
    assert batch.links is not None
    assert sorted(batch.links.indices.T.tolist()) == [[0, 1, 0], [0, 2, 0], [0, 3, 2]]


@pytest.mark.parametrize("method", METHODS)
def test_attribution_and_self_attention(method: AttributionMethod, monkeypatch) -> None:
    monkeypatch.setattr(inputs, "_POINTS", (8,))  # the law holds for any number of points
    # By this seed some hypotheses end with eos, some are cut.
    transformer = translator_of(seed=2, model=TransformerConfig(size=12, heads=2, layers=2))

    def explained(translator: Translator) -> list[Hypothesis]:
        translations = translator.with_self_attention(translator.translate(TEXTS))
        attributor = Attributor(translator, method)
        return [o.hypothesis for t in attributor.attribute(translations) for o in t.hypotheses]

    pairs = list(zip(explained(turned(transformer)), explained(transformer), strict=True))
    assert {theirs.finished for _, theirs in pairs} == {True, False}
    for ours, theirs in pairs:
        n, size = len(theirs.ids) - theirs.finished, len(theirs.ids)
        rows, read = [*range(n)[::-1], *range(n, size)], [0, *range(1, n + 1)[::-1]]
        one, other = ours.attribution, theirs.attribution
        prefix, decoder = other.prefix_scores[rows], theirs.self_heads["decoder"]
        assert ours.ids == tuple(theirs.ids[row] for row in rows)
        assert np.array_equal(ours.attention, theirs.attention[rows])
        assert np.array_equal(one.scores, other.scores[rows])
        assert np.array_equal(one.prefix_scores, prefix[:, read] if prefix.size else prefix)
        assert np.array_equal(ours.self_heads["decoder"], decoder[:, read][:, :, read])


@pytest.mark.parametrize("config", [PIECES, WordConfig(min_freq=1)])
def test_words_must_and_must_not_occur(config: SentencePieceConfig | WordConfig) -> None:
    search = SearchConfig(max_length=17, allow_unk=False)
    translator = turned(translator_of(config, search))
    words = re.findall(r"\w+", " ".join(t.text for t in translator.translate(TEXTS)))[:3]
    must_not = tuple({*words} - {"deux", "chiens", "noir"})
    keys = {"must": ("deux chiens", "noir"), "must_not": must_not}
    for text in [t.text for t in translator.translate(TEXTS, search=keys) if t.hypotheses]:
        assert re.search(r"\bdeux chiens\b", text)
        assert re.search(r"\bnoir\b", text)
        assert not {*must_not} & {*re.findall(r"\w+", text)}


def test_a_beginning_is_refused() -> None:
    """And a contrast is the piece that is written first."""
    plain = translator_of()
    translator = turned(plain)
    for prefix, attention in (("Il", {}), ((5,), {}), ("", {0: [1.0]})):
        with pytest.raises(ConfigError, match=r"prefix: not possible with data\.reverse_target"):
            translator.translate(TEXTS[:1], prefixes=[prefix], attention=[attention])
    assert translator.translate(TEXTS[:1], prefixes=[""]) == translator.translate(TEXTS[:1])
    ids = plain.tokenizers.tgt.encode("chats").ids
    pairs = [Attributor(t, "erasure", "chats")._contrast_id for t in (plain, translator)]
    assert pairs == [ids[0], ids[-1]]
