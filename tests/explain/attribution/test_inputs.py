"""Gradients and erasure against their definitions, for every kind of model."""

from collections.abc import Callable

import pytest
import torch
from captum.attr import IntegratedGradients
from explain.attribution.pairs import (
    CONTRAST,
    RECURRENT,
    SOURCE,
    TARGET,
    TRANSFORMERS,
    assert_close,
    log_probs,
    pair_of,
)
from laws.family import TGT_VOCAB, model_of
from torch import Tensor, nn

from nmt.explain.attribution import inputs
from nmt.explain.attribution.inputs import EmbeddedPair, erasure, input_x_gradient
from nmt.explain.attribution.pair import Scores
from nmt.models.base import Seq2Seq
from nmt.models.ensemble import Ensemble
from nmt.models.vocabulary import PieceEmbedding

METHODS = (input_x_gradient, inputs.integrated_gradients, erasure)
each_model = pytest.mark.parametrize("name", [*RECURRENT, *TRANSFORMERS])


def built(name: str) -> Seq2Seq:
    """A model in double precision, in which differences are exact enough for a derivative."""
    return model_of(name).eval().double()


def untied(model: Seq2Seq) -> tuple[nn.Embedding, nn.Embedding]:
    """The embeddings of source and prefix, with tables that nothing else uses."""
    tables = [module for module in model.modules() if isinstance(module, PieceEmbedding)]
    for table in tables:
        table.weight = nn.Parameter(table.weight.detach().clone())
    source, prefix = tables
    return source, prefix


def by_scaling(model: Seq2Seq, effect: Callable[[Callable[[float], Tensor]], Tensor]) -> Scores:
    """The `effect` of scaling the embedding of each piece, whose ids differ within a side."""
    sides = []
    for table, ids in zip(untied(model), (SOURCE, (2, *TARGET[:-1])), strict=True):
        columns = []
        for id_ in ids:
            row = table.weight[id_].detach().clone()

            def scaled(factor: float, table=table, id_=id_, row=row) -> Tensor:
                with torch.no_grad():
                    table.weight[id_] = factor * row
                    values = log_probs(model)
                    table.weight[id_] = row
                return values

            columns.append(effect(scaled))
        sides.append(torch.stack(columns, dim=1))
    return Scores(*sides)


@each_model
def test_scores_and_erasure_are_by_the_scale_of_an_input(name: str) -> None:
    """x . dF/dx = dF(a x)/da at a = 1; erasure is a pass without the piece."""
    model, step = built(name), 1e-6
    derivative = by_scaling(model, lambda f: (f(1 + step) - f(1 - step)) / (2 * step))
    assert_close(input_x_gradient(model, pair_of()), derivative, atol=1e-8, rtol=1e-5)
    without = by_scaling(model, lambda f: f(1) - f(0))
    assert_close(erasure(model, pair_of()), without, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("name", [*RECURRENT, "transformer"])
def test_integrated_gradients_are_complete(name: str) -> None:
    """Each row sums to F(x) - F(0), within a hundredth of it or of a nat."""
    model = built(name)
    embedded = EmbeddedPair(model, pair_of())
    zeros = {name: torch.zeros_like(x)[None] for name, x in embedded.vectors.items()}
    at_zero = embedded.objective(embedded.forward(zeros).logits, embedded.pair.tgt_out)[0]
    source, prefix = inputs.integrated_gradients(model, pair_of())
    total = source.sum(dim=1) + prefix.sum(dim=1)
    difference = log_probs(model) - at_zero
    assert ((total - difference).abs() <= 0.01 * difference.abs().clamp(min=1)).all()


@pytest.mark.parametrize("name", ["rnn", "transformer"])
def test_integrated_gradients_are_those_of_captum(name: str, monkeypatch) -> None:
    """Its quadrature has the same points."""
    monkeypatch.setattr(inputs, "_POINTS", (7,))
    embedded = EmbeddedPair(built(name), pair_of())

    def values(*vectors: Tensor) -> Tensor:
        named = dict(zip(embedded.vectors, vectors, strict=True))
        return embedded.objective(embedded.forward(named).logits, embedded.pair.tgt_out)

    x = tuple(vectors[None].requires_grad_() for vectors in embedded.vectors.values())
    quadrature = {"n_steps": 7, "method": "gausslegendre"}
    reference = IntegratedGradients(values)
    rows = [reference.attribute(x, target=t, **quadrature) for t in range(len(TARGET))]
    expected = [torch.cat(side).sum(dim=-1).detach() for side in zip(*rows, strict=True)]
    assert_close(inputs.integrated_gradients(embedded.model, pair_of()), Scores(*expected))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["rnn", "transformer"])
def test_a_contrast_explains_the_difference(method, name: str, monkeypatch) -> None:
    """All three are linear in F: log p(y) - log p(y') has the difference of their scores."""
    monkeypatch.setattr(inputs, "_POINTS", (4,))
    model = built(name)
    ours, theirs = method(model, pair_of()), method(model, pair_of((CONTRAST,) * len(TARGET)))
    expected = Scores(*(one - other for one, other in zip(ours, theirs, strict=True)))
    assert_close(method(model, pair_of(contrast=CONTRAST)), expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["rnn", "rnn-conditional-two-layers-gate", "transformer"])
def test_rows_in_small_batches_change_nothing(method, name: str, monkeypatch) -> None:
    """Neither do later pieces, nor does a call change the model."""
    model = built(name)
    monkeypatch.setattr(inputs, "_POINTS", (4,))
    before = {name: (tensor, tensor.clone()) for name, tensor in model.state_dict().items()}
    expected = method(model, pair_of())
    assert not expected.prefix.triu(1).any()
    monkeypatch.setattr(inputs, "_MAX_ROWS", 3)
    assert_close(method(model, pair_of()), expected, atol=1e-12, rtol=1e-9)
    for name, tensor in model.state_dict().items():
        assert tensor.data_ptr() == before[name][0].data_ptr()
        torch.testing.assert_close(tensor, before[name][1], rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_an_ensemble_sums_over_the_embeddings_of_its_members() -> None:
    """With one member it is that member."""
    model = built("rnn")
    for method in METHODS:  # an ensemble takes its mean in single precision
        scores = method(Ensemble([model], TGT_VOCAB), pair_of())
        expected = Scores(*(part.to(scores.source.dtype) for part in method(model, pair_of())))
        assert_close(scores, expected, atol=1e-5, rtol=1e-4)
    both = Ensemble([model, built("transformer")], TGT_VOCAB)
    source, prefix = erasure(both, pair_of())
    assert source.shape == (len(TARGET), len(SOURCE))
    assert prefix.shape == (len(TARGET),) * 2
