"""An encoder of anything and the decoder that translates."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.lab import captioner as lab
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.recurrent.rnn_config import RecurrentConfig
from nmt.search.search_config import SearchConfig
from nmt.text.vocabulary import BOS_ID, EOS_ID

PAGE = Path(__file__).parents[2] / "docs" / "features.md"
V = 11


def model_of() -> lab.Captioner:
    torch.manual_seed(0)
    config = RecurrentConfig(embedding=5, hidden=7, attention=AdditiveConfig(size=3), dropout=0.0)
    return lab.Captioner(lab.FeatureEncoder(13, 17), config, 17, V).eval()


def features(*lengths: int) -> lab.Features:
    torch.manual_seed(5)
    return lab.Features.padded([torch.rand(length, 13) for length in lengths])


def test_the_page_of_features_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    loss, shares = capsys.readouterr().out.splitlines()
    assert float(loss.split()[0]) < 0.1
    right, looked = (int(number) for number in re.findall(r"(\d+) (?:of|times)", shares))
    assert min(right, looked) > 90


@torch.inference_mode()
def test_steps_equal_the_teacher_forced_pass_and_rows_are_apart() -> None:
    model, rows, inputs = model_of(), torch.tensor([1, 1, 0]), features(3, 5)
    tgt_in = torch.randint(4, V, (3, 4))
    output = model(inputs, rows, tgt_in, with_weights=True)
    for i in range(3):
        alone = model(inputs, rows[i : i + 1], tgt_in[i : i + 1]).logits
        torch.testing.assert_close(output.logits[i : i + 1], alone)
    state = model.init_state(lab.annotate(model, inputs).select(rows))
    for t in range(4):
        step = model.step(tgt_in[:, t], state)
        torch.testing.assert_close(step.logits, output.logits[:, t])
        torch.testing.assert_close(step.weights, output.weights[:, t])
        state = step.state


def test_masked_places_are_invisible_wherever_they_are() -> None:
    """The search gives the same with and without them, and gives them no attention."""
    model, values = model_of(), features(4, 4).values
    holes = torch.tensor([[True, False, True, True], [False, True, True, False]])
    config = SearchConfig(beam=3, max_length_factor=0, max_length_extra=6)
    firsts = torch.full((2,), BOS_ID)
    results = lab.describe(model, lab.annotate(model, lab.Features(values, holes)), firsts, config)
    for masked, places, keep in zip(results, values, holes, strict=True):
        [alone] = lab.describe(
            model, lab.annotate(model, lab.Features.padded([places[keep]])), firsts[:1], config
        )
        assert masked.ids == alone.ids
        assert masked.score == pytest.approx(alone.score, abs=1e-5)
        attention = np.zeros_like(masked.attention)
        attention[:, keep.numpy()] = alone.attention
        np.testing.assert_allclose(masked.attention, attention, atol=1e-5)
        np.testing.assert_allclose(attention.sum(axis=1), 1, atol=1e-5)


def test_training_takes_no_more_batches_than_updates() -> None:
    batch = lab.CaptionBatch.of(features(3), [0], [[BOS_ID, 7, 8, EOS_ID]])
    model, batches = model_of(), itertools.repeat(batch, 14)
    losses = list(lab.train(model, batches, 12, 0.02))
    assert (len(losses), len([*batches])) == (12, 2)
    assert losses[-1] < 0.7 * losses[0]
    assert model.training
