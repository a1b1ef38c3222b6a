"""Waits of the host for a GPU, counted on the pretend one; `-s` prints the launches too."""

import sys

import pytest
import torch
from devices import DEVICE
from laws.family import MODELS, model_of

from nmt.batches.batching import Batch, make_batch
from nmt.optim.losses import CrossEntropy
from nmt.optim.optimizers import AdamConfig, EMAConfig
from nmt.search.graphs import GraphedSteps
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.text.vocabulary import EOS_ID
from nmt.training.step import StepSettings, queue_step, read_results

if "pretend_cuda" not in sys.modules:
    pytest.skip("the pretend GPU counts them: make test-cuda", allow_module_level=True)

import pretend_cuda


def pairs(n_pieces: int) -> Batch:
    side = [tuple(range(5, 5 + n_pieces)), (4,)]
    return make_batch(side, side)


@pytest.mark.parametrize("name", MODELS)
def test_an_update_waits_for_nothing_until_it_is_read(name: str) -> None:
    model = model_of(name).train()
    averages = EMAConfig().build(model)
    optimizer = AdamConfig().build(model.named_parameters(), 1e-3)
    settings = StepSettings(loss=CrossEntropy(0.1), clip_norm=1.0)
    launches = {}
    for n_pieces in (3, 3, 9):
        batch = pairs(n_pieces).pin_memory()
        pretend_cuda.reset()
        result = queue_step(model, optimizer, [batch], settings)
        averages.update_parameters(model)
        launches[n_pieces] = pretend_cuda.launches.total()
        assert not pretend_cuda.waits
    read_results([result])
    assert pretend_cuda.waits.total() == 1
    slope = (launches[9] - launches[3]) / 6
    sys.stdout.write(f"{name}: {launches[3] - 4 * slope:.0f} + {slope:.1f} T launches an update\n")


@pytest.mark.parametrize("name", MODELS)
def test_a_search_step_waits_once_for_its_pieces(name: str, monkeypatch) -> None:
    """They are looked at for repetitions; every fourth step looks for the end too."""
    monkeypatch.setattr(GraphedSteps, "_record", lambda *_: None)  # its launches would be one
    model = model_of(name).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith("output.bias"):
                parameter[EOS_ID] = -torch.inf
    batch = pairs(3).to(torch.device(DEVICE))
    waits, launches = [], []
    for length in (4, 12):
        config = SearchConfig(beam=4, max_length_factor=0, max_length_extra=length)
        pretend_cuda.reset()
        search(model, batch.src_ids, batch.src_lengths, config)
        waits.append(pretend_cuda.waits.total())
        launches.append(pretend_cuda.launches.total())
    sys.stdout.write(f"{name}: {(launches[1] - launches[0]) / 8:.1f} launches a step of a search\n")
    assert waits[1] - waits[0] <= 8 + 2, pretend_cuda.waits
