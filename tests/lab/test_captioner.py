"""An encoder of anything and the decoder that translates: the contract, and the page about it."""

import re
from pathlib import Path

import pytest
import torch

from nmt.decoding.search_config import SearchConfig
from nmt.lab.captioner import (
    CaptionBatch,
    Captioner,
    FeatureEncoder,
    Features,
    annotate,
    describe,
    train,
)
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.recurrent.rnn_config import RecurrentConfig
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID

PAGE = Path(__file__).parents[2] / "docs" / "features.md"
V = 11


def model_of(seed: int = 0) -> Captioner:
    torch.manual_seed(seed)
    config = RecurrentConfig(embedding=5, hidden=7, attention=AdditiveConfig(size=3), dropout=0.0)
    return Captioner(FeatureEncoder(13, 17), config, 17, V).eval()


def features_of(*lengths: int) -> Features:
    torch.manual_seed(5)
    return Features.padded([torch.rand(length, 13) for length in lengths])


def test_the_page_of_features_runs_and_says_what_it_shows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    loss, shares = capsys.readouterr().out.splitlines()
    assert float(loss.split()[0]) < 0.1
    right, looked = (int(number) for number in re.findall(r"(\d+) (?:of|times)", shares))
    assert right > 90
    assert looked > 90


@torch.inference_mode()
def test_the_steps_equal_the_teacher_forced_pass() -> None:
    model, features = model_of(), features_of(3, 5, 2)
    tgt_in = torch.randint(4, V, (3, 4))
    output = model(features, torch.arange(3), tgt_in, with_weights=True)
    assert output.weights is not None
    state = model.init_state(annotate(model, features))
    for t in range(4):
        step = model.step(tgt_in[:, t], state)
        torch.testing.assert_close(step.logits, output.logits[:, t])
        torch.testing.assert_close(step.weights, output.weights[:, t])
        state = step.state


def test_masked_places_are_invisible_wherever_they_are() -> None:
    """The search finds the same with and without them, and gives them no attention."""
    model, features = model_of(), features_of(4, 4)
    holes = torch.tensor([[True, False, True, True], [False, True, True, False]])
    config = SearchConfig(beam=3, max_length_factor=0, max_length_extra=6)
    firsts = torch.full((2,), BOS_ID)
    masked = describe(model, annotate(model, Features(features.values, holes)), firsts, config)
    for row, found in enumerate(masked):
        alone = Features.padded([features.values[row, holes[row]]])
        [other] = describe(model, annotate(model, alone), firsts[:1], config)
        assert found.ids == other.ids
        assert found.score == pytest.approx(other.score, abs=1e-5)
        assert found.attention[:, holes[row].numpy()] == pytest.approx(other.attention, abs=1e-5)
        assert not found.attention[:, ~holes[row].numpy()].any()
        assert found.attention.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_a_batch_reads_the_first_piece_and_ends_with_eos() -> None:
    batch = CaptionBatch.of(
        features_of(3, 2), [1, 0], [[BOS_ID, 7, EOS_ID], [BOS_ID, 5, 6, EOS_ID]]
    )
    assert batch.tgt_in.tolist() == [[BOS_ID, 7, PAD_ID], [BOS_ID, 5, 6]]
    assert batch.tgt_out.tolist() == [[7, EOS_ID, PAD_ID], [5, 6, EOS_ID]]
    assert batch.n_tokens == 5
    assert batch.rows.tolist() == [1, 0]


def test_several_sentences_about_one_row_cost_as_much_as_apart() -> None:
    model, features = model_of(), features_of(3, 5)
    tgt_in = torch.randint(4, V, (3, 4))
    rows = torch.tensor([1, 1, 0])
    together = model(features, rows, tgt_in).logits
    for i, row in enumerate(rows.tolist()):
        alone = model(features, torch.tensor([row]), tgt_in[i : i + 1]).logits
        torch.testing.assert_close(together[i : i + 1], alone)


def test_training_takes_no_more_batches_than_updates() -> None:
    taken = []

    def batches():  # type: ignore[no-untyped-def]
        while True:
            taken.append(1)
            yield CaptionBatch.of(features_of(3), [0], [[BOS_ID, 7, 8, EOS_ID]])

    model = model_of()
    losses = list(train(model, batches(), 12, 0.02))
    assert len(losses) == len(taken) == 12
    assert losses[-1] < 0.7 * losses[0]
    assert model.training
