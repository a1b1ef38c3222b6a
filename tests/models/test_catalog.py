"""Building every architecture: with first weights, and without."""

import pytest
import torch
from laws.family import MODELS, SRC_VOCAB, TGT_VOCAB
from pydantic import TypeAdapter

from nmt.models.base import Seq2Seq
from nmt.models.catalog import ModelConfig, bare_model, build_model

CONFIG: TypeAdapter[ModelConfig] = TypeAdapter(ModelConfig)


def _ties(model: Seq2Seq) -> set[frozenset[str]]:
    """Names of one and the same parameter."""
    names: dict[torch.Tensor, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, set()).add(name)
    return {frozenset(group) for group in names.values()}


@pytest.mark.parametrize("name", MODELS)
def test_a_bare_model_draws_nothing_and_takes_the_weights_of_another(name: str) -> None:
    config = CONFIG.validate_python(MODELS[name])
    torch.manual_seed(1)
    model = build_model(config, SRC_VOCAB, TGT_VOCAB)
    before = torch.random.get_rng_state()
    bare = bare_model(config, SRC_VOCAB, TGT_VOCAB)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert _ties(bare) == _ties(model)
    bare.load_state_dict(model.state_dict())
    assert {p.device.type for p in bare.parameters()} == {"cpu"}
    args = torch.tensor([[5, 6, 3]]), torch.ones(1, 3, dtype=torch.bool), torch.tensor([[2, 7]])
    assert torch.equal(bare.eval()(*args).logits, model.eval()(*args).logits)


@pytest.mark.parametrize("name", MODELS)
def test_first_weights_follow_from_the_seed(name: str) -> None:
    config = CONFIG.validate_python(MODELS[name])
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(build_model(config, SRC_VOCAB, TGT_VOCAB).state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    matrices = [key for key, weight in states[0].items() if weight.dim() > 1]
    assert not any(torch.equal(states[0][key], states[2][key]) for key in matrices)
