"""Every architecture: first weights, half precision, and what does not fit."""

import pytest
import torch
from devices import DEVICE
from laws.family import MODELS, SRC_VOCAB, TGT_VOCAB, config_of, model_of
from pydantic import ValidationError

from nmt.models.base import Seq2Seq
from nmt.models.catalog import build_model, uninitialised_model
from nmt.ops.masks import keep_from_lengths

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


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("rnn", torch.bfloat16),
        ("rnn-luong-dropout-mean-penalty", torch.float16),
        ("rnn-dot-three-layers", torch.bfloat16),
        ("lstm-above-gru-backward-two-layers", torch.bfloat16),
        ("lstm-copy-cosine-coverage-two-layers", torch.float16),
        ("lstm-multi-head-mean", torch.bfloat16),
        ("transformer-post-all-maps", torch.bfloat16),
        ("transformer-relative-window", torch.float16),
        ("transformer-rotary-post", torch.bfloat16),
    ],
)
@pytest.mark.parametrize("lengths", [(3, 1), (3, 3)])
def test_autocast_trains_and_steps(lengths: tuple[int, ...], name: str, dtype: torch.dtype) -> None:
    """torch asks oneDNN for an LSTM of autocast's dtype, which it may lack."""
    model, src = model_of(name, dropout=0.0), torch.tensor([[5, 6, 3], [3, 8, 3]])
    keep, tgt_in = keep_from_lengths(torch.tensor(lengths), 3), torch.tensor([[2, 7], [2, 8]])
    with torch.autocast(DEVICE, dtype=dtype):
        results = [model(src, keep, tgt_in, with_weights=flag).logits for flag in (True, False)]
        state = model.init_state(model.encode(src, keep))
        for last_ids in tgt_in.unbind(dim=1):
            step = model.step(last_ids, state)
            state = step.state
    results[1][..., :TGT_VOCAB].float().logsumexp(-1).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    expected = model(src, keep, tgt_in).logits
    for logits in (*results, step.logits.unsqueeze(1)):
        n = logits.shape[1]
        torch.testing.assert_close(logits.float(), expected[:, -n:], atol=0.1, rtol=0.1)


_HEADS = {"kind": "multi_head", "heads": 2}
_HARD = {"weights": {"kind": "hard"}}
_PENALTY = {"kind": "additive", "doubly_stochastic": 1.0, **_HARD}
_ROTARY = {"size": 9, "heads": 3, "positions": {"kind": "rotary"}}


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("rnn", {"decoder": {"kind": "luong", "initial_state": "copy"}}, "size: got 14"),
        *(
            ("rnn", {"attention": {"kind": kind}}, f"attention.kind: '{kind}' .*got 7 .* 14 ")
            for kind in ("dot", "scaled_dot", "gaussian", "cosine")
        ),
        ("rnn", {"attention": {**_HEADS, "size": 15}}, "size: 2 heads: got .* 15"),
        ("rnn", {"attention": {**_HEADS, "over": {"kind": "location"}}}, "over.kind: 'location'"),
        ("rnn", {"attention": {**_HEADS, "over": {"kind": "dot", **_HARD}}}, "over.weights"),
        ("rnn", {"attention": _PENALTY}, "doubly_stochastic: weights 'hard'"),
        ("transformer", {"size": 12, "heads": 5}, r"heads: got 5, .*\(12\)"),
        ("transformer", {"size": 9, "heads": 3}, "size: got 9, .*even"),
        ("transformer", _ROTARY, "heads: got 3, .*rotary"),
        ("transformer", {"attention_layer": 3}, "attention_layer: got 3, .*2"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        config_of(name, **options)
