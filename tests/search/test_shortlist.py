"""A search with a shortlist is a search by a model that gives other pieces no probability."""

import pytest
import torch
from search.table_model import VOCAB
from search.test_search import SOURCES, assert_all_same, batch, lively

from nmt.errors import ConfigError
from nmt.models.base import Seq2Seq
from nmt.models.ensemble import Ensemble
from nmt.models.quantized import in_int8
from nmt.models.vocabulary import VocabLinear
from nmt.search.constraints import Constraint
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.search.shortlist import Shortlist
from nmt.types import Hypothesis

SHORTLIST = Shortlist({5: [5], 9: [6], 4: [4, 5], 7: [], 8: [6]}, [], 19, VOCAB)
CONFIG = SearchConfig(beam=4, n_best=3, max_length=13)


def among(model: Seq2Seq, allowed: list[bool]) -> Seq2Seq:
    """The model with a logit of -1e4 for pieces that are not allowed."""
    [vocabulary] = [module for module in model.modules() if isinstance(module, VocabLinear)]
    with torch.no_grad():
        vocabulary.bias[:VOCAB][~torch.tensor(allowed)] = -1e4
    return model


@pytest.mark.parametrize("int8", [False, True])
def test_other_pieces_have_no_probability(int8: bool) -> None:
    model = in_int8(lively()) if int8 else lively()
    together = search(model, *batch(SOURCES), CONFIG, shortlist=SHORTLIST)
    for source, hypotheses in zip(SOURCES, together, strict=True):
        src_ids, lengths = batch([source])
        [allowed] = SHORTLIST.allowed(src_ids).tolist()
        reference = among(lively(), allowed)
        expected = search(in_int8(reference) if int8 else reference, src_ids, lengths, CONFIG)[0]
        assert all(allowed[id_] for h in hypotheses for id_ in h.ids)
        finite = [h for h in expected if h.score > -1000]
        assert_all_same(hypotheses[: len(finite)], finite)


def test_all_pieces_are_the_whole_vocabulary() -> None:
    everything = Shortlist({}, range(VOCAB), 19, VOCAB)
    usual = search(lively(), *batch(SOURCES), CONFIG)
    for hypotheses, expected in zip(
        search(lively(), *batch(SOURCES), CONFIG, shortlist=everything), usual, strict=True
    ):
        assert_all_same(hypotheses, expected)


def test_a_prefix_may_have_other_pieces() -> None:
    def best(shortlist: Shortlist | None) -> Hypothesis:
        constraints = [Constraint(prefix=(6, 5))]
        return search(lively(), *batch([[7, 3]]), CONFIG, None, constraints, shortlist)[0][0]

    assert best(SHORTLIST).ids[:2] == (6, 5)
    assert best(SHORTLIST).log_probs[:2] == best(None).log_probs[:2]


def test_an_ensemble_is_refused() -> None:
    ensemble = Ensemble([lively(), lively()], VOCAB)
    with pytest.raises(ConfigError, match="shortlist"):
        search(ensemble, *batch(SOURCES), CONFIG, shortlist=SHORTLIST)
