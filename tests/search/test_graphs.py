"""Translations by a CUDA graph are those without, on a GPU, real or pretend."""

import pytest
import torch
from devices import IS_CPU
from laws.family import MODELS, RECORDED, TGT_VOCAB, UNORDERED, model_of

from nmt.search.graphs import GraphedSteps
from nmt.search.search import search
from nmt.search.search_config import SearchConfig

pytestmark = pytest.mark.skipif(IS_CPU, reason="CUDA graphs are for a GPU")


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", RECORDED)
def test_a_graph_gives_the_translations_of_steps_without(name: str, beam: int, monkeypatch) -> None:
    model = model_of(name).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    sources = torch.randint(4, TGT_VOCAB, (5, 7))
    lengths = torch.tensor([7, 3, 1, 5, 6])
    config = SearchConfig(beam=beam, max_length_extra=5)

    def translate():
        return search(model, sources, lengths, config)

    records: list[bool] = []
    record = GraphedSteps._record

    def spied(*args: object) -> object:
        graph = record(*args)  # type: ignore[arg-type]
        records.append(graph is not None)
        return graph

    monkeypatch.setattr(GraphedSteps, "_record", spied)
    by_graph = translate()
    monkeypatch.setattr(GraphedSteps, "_record", lambda *_: None)
    assert records == [MODELS[name]["kind"] == "rnn"]  # the state of a Transformer grows
    for hypotheses, expected in zip(by_graph, translate(), strict=True):
        assert [h.ids for h in hypotheses] == [e.ids for e in expected]
        scores = [e.score for e in expected]
        if name in UNORDERED:
            scores = pytest.approx(scores, rel=1e-5)
        assert [h.score for h in hypotheses] == scores
