"""Building every architecture: with first weights, and without."""

import pytest
import torch
from devices import DEVICE
from laws.family import MODELS, SRC_VOCAB, TGT_VOCAB, config_of

from nmt.models.base import Seq2Seq
from nmt.models.catalog import build_model, uninitialised_model

NAMES_OF_A_TABLE = {"none": 1, "target": 2, "all": 3}


def _ties(model: Seq2Seq) -> set[frozenset[str]]:
    """Names of one and the same parameter."""
    names: dict[torch.Tensor, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, set()).add(name)
    return {frozenset(group) for group in names.values()}


@pytest.mark.parametrize("name", MODELS)
def test_a_seed_gives_first_weights_and_a_bare_model_takes_them(name: str) -> None:
    config = config_of(name)
    models = []
    for seed in (2, 1, 1):
        torch.manual_seed(seed)
        models.append(build_model(config, SRC_VOCAB, TGT_VOCAB))
    before = torch.random.get_rng_state()
    bare = uninitialised_model(config, SRC_VOCAB, TGT_VOCAB)
    assert torch.equal(torch.random.get_rng_state(), before), "a bare model draws nothing"
    other, same, model = models
    assert max(map(len, _ties(model))) == NAMES_OF_A_TABLE[config.tie_embeddings]
    assert _ties(bare) == _ties(model)
    for key, weight in model.state_dict().items():
        assert torch.equal(weight, same.state_dict()[key]), key
        assert weight.dim() < 2 or not torch.equal(weight, other.state_dict()[key]), key
    bare.load_state_dict(model.state_dict())
    assert {parameter.device.type for parameter in bare.parameters()} == {DEVICE}
    args = torch.tensor([[5, 6, 3]]), torch.ones(1, 3, dtype=torch.bool), torch.tensor([[2, 7]])
    assert torch.equal(bare.eval()(*args).logits, model.eval()(*args).logits)
