"""Each member of a family in turn, as a fixture."""

import pytest
from laws.family import ATTENTIONS, MEMORY, MODELS, model_of, perturbed, query_size

from nmt.models.attention.base import Attention
from nmt.models.base import Seq2Seq


@pytest.fixture(params=ATTENTIONS)
def attention(request: pytest.FixtureRequest) -> Attention:
    """Every kind of attention, and every option with some kinds."""
    return ATTENTIONS[request.param].build(query_size(request.param), MEMORY).eval()


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return perturbed(model_of(request.param))
