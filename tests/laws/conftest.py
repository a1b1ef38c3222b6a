"""Each member of a family in turn, as a fixture."""

import pytest
import torch
from laws.family import ATTENTIONS, BLIND, MEMORY, MODELS, QUERY, SRC_VOCAB, TGT_VOCAB

from nmt.models.attention import Attention
from nmt.models.base import Seq2Seq
from nmt.models.catalog import ModelConfig, build_model


@pytest.fixture(params=ATTENTIONS)
def attention(request: pytest.FixtureRequest) -> Attention:
    """Every kind of attention, freshly initialised from a fixed seed."""
    torch.manual_seed(1)
    return ATTENTIONS[request.param].build(query_size=QUERY, memory_size=MEMORY)


@pytest.fixture(params=[kind for kind in ATTENTIONS if kind not in BLIND])
def looking(request: pytest.FixtureRequest) -> Attention:
    """Every kind whose weights depend on what it looks at."""
    torch.manual_seed(1)
    return ATTENTIONS[request.param].build(query_size=QUERY, memory_size=MEMORY)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    """Every architecture in fp64, in evaluation mode, with weights large enough to matter."""
    torch.manual_seed(1)
    model = build_model(ModelConfig(**MODELS[request.param]), SRC_VOCAB, TGT_VOCAB).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model
