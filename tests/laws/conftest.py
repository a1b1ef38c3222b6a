"""Each member of a family in turn, as a fixture."""

import pytest
import torch
from laws.family import ATTENTIONS, MEMORY, MODELS, POSITIONAL, model_of, query_size

from nmt.models.attention.base import Attention
from nmt.models.base import Seq2Seq


def _built(name: str) -> Attention:
    """The attention of this name in evaluation mode, freshly initialised from a fixed seed."""
    torch.manual_seed(1)
    return ATTENTIONS[name].build(query_size(name), MEMORY).eval()


@pytest.fixture(params=ATTENTIONS)
def attention(request: pytest.FixtureRequest) -> Attention:
    """Every kind of attention, and every option with some kinds."""
    return _built(request.param)


@pytest.fixture(params=[name for name in ATTENTIONS if name != "none"])
def looking(request: pytest.FixtureRequest) -> Attention:
    """Every one whose weights depend on what it looks at."""
    return _built(request.param)


@pytest.fixture(params=[name for name in ATTENTIONS if not POSITIONAL & {*name.split("-")}])
def placeless(request: pytest.FixtureRequest) -> Attention:
    """Every one that does not know where in the source anything stands."""
    return _built(request.param)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    """Every architecture in fp64, in evaluation mode, with weights large enough to matter."""
    model = model_of(request.param).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model
