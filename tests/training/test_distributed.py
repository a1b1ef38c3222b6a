"""Laws of distributed training: any number of ranks trains the same model."""

import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from training.ranks import in_world
from training.toy import (
    assert_same_checkpoint,
    last_checkpoint,
    log_of,
    records,
    tiny_config,
    toy_state,
)

from nmt.batches.batching import Batch, make_batch
from nmt.errors import ConfigError
from nmt.optim.losses import CrossEntropy
from nmt.training.distributed import ALONE, InterruptedWorkError, LostRankError, Ranks
from nmt.training.loop import Outcome, train
from nmt.training.step import StepSettings, train_step


def micro_batches(n: int, seed: int) -> list[Batch]:
    """Batches of unequal sizes."""
    draw = random.Random(seed)

    def side(size: int) -> list[tuple[int, ...]]:
        return [tuple(draw.choices(range(4, 10), k=draw.randint(1, 7))) for _ in range(size)]

    return [make_batch(side(1 + i % 3), side(1 + i % 3)) for i in range(n)]


def losses_of_updates(ranks: Ranks) -> list[tuple[float, float]]:
    """Losses and norms of updates of 6 micro-batches, the last of 2."""
    torch.manual_seed(3)
    state = toy_state()
    state.model.double().train()
    optimizer = torch.optim.Adam(state.model.parameters(), 0.01, fused=True)
    settings = StepSettings(clip_norm=1.0, loss=CrossEntropy(0.1), ranks=ranks)
    measurements = []
    for seed, n in enumerate((6, 6, 6, 2)):
        group = micro_batches(n, seed)
        mine = [group[i] for i in ranks.share([batch.n_positions for batch in group])]
        result = train_step(state.model, optimizer, mine, settings)
        assert result.n_tokens == sum(batch.n_tokens for batch in group)
        measurements.append((result.loss, result.grad_norm))
    return measurements


def test_any_world_has_the_same_losses() -> None:
    """With the same micro-batches in all; in the last update a third rank has none."""
    expected = losses_of_updates(ALONE)
    for world in (2, 3):
        results = in_world(world, losses_of_updates)
        assert results == [results[0]] * world, "every rank reports the same bits"
        for ours, theirs in zip(results[0], expected, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-9)


def test_a_parameter_without_a_gradient_anywhere_gets_none() -> None:
    """An optimiser would move it by its momentum; a parameter with one somewhere counts as 0."""

    def work(ranks: Ranks) -> list[list[float] | None]:
        dtypes = (torch.float32, torch.float32, torch.float64)  # of two dtypes: in two buckets
        parameters = [torch.nn.Parameter(torch.zeros(2, dtype=dtype)) for dtype in dtypes]
        module = torch.nn.ParameterList(parameters)
        module.register_buffer("baseline", torch.tensor(float(ranks.rank)))
        parameters[0].grad = torch.full((2,), 1.0 + ranks.rank)
        if ranks.rank == 1:
            parameters[2].grad = torch.tensor([5.0, 7.0], dtype=torch.float64)
        ranks.sum_gradients(parameters, module)
        gradients = [None if p.grad is None else p.grad.tolist() for p in parameters]
        return [*gradients, [float(module.baseline)]]

    assert in_world(2, work) == [[[3.0, 3.0], None, [5.0, 7.0], [0.5]]] * 2


@given(st.lists(st.integers(0, 9), max_size=9), st.integers(1, 5))
def test_shares_are_a_partition_by_cost(costs: list[int], world: int) -> None:
    shares = [Ranks(rank, world, rank).share(costs) for rank in range(world)]
    assert sorted(item for share in shares for item in share) == list(range(len(costs)))
    assert all(share == sorted(share) for share in shares)
    loads = [sum(costs[i] for i in share) for share in shares]
    assert max(loads) - min(loads) <= max(costs, default=0)
    assert all(shares) or len(costs) < world, "with a batch for each, none is idle"


def test_the_ranks_are_those_of_torchrun() -> None:
    assert Ranks.from_environment({}) == Ranks.from_environment({"LOCAL_RANK": "0"}) == Ranks()
    names = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}
    environment = {**names, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    assert Ranks.from_environment(environment) == Ranks(3, 4, 1)
    for malformed in ({"RANK": "0"}, *({**environment, "WORLD_SIZE": n} for n in ("two", "3"))):
        with pytest.raises(ConfigError, match=r"^RANK, WORLD_SIZE, LOCAL_RANK: got .*$"):
            Ranks.from_environment(malformed)
    with pytest.raises(ConfigError, match=r"^MASTER_ADDR, MASTER_PORT: not set"):
        Ranks.from_environment(names)


def test_each_rank_has_a_gpu_or_the_one_that_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task of Slurm may see its own GPU alone."""
    assert Ranks(7, 9, 1000).device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert Ranks(1, 2, 1).device("cuda") == torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert Ranks(1, 2, 1).device("auto") == torch.device("cuda", 1)
    for ranks, name in ((Ranks(7, 9, 1000), "cuda"), (Ranks(1, 2, 1), "cuda:1")):
        with pytest.raises(ConfigError, match=rf"train\.device: got '{name}' for rank \d+ of this"):
            ranks.device(name)


def test_a_rank_that_ends_ends_the_others() -> None:
    """They are told by the closed connection, and do not wait for a time-out."""

    def work(ranks: Ranks) -> float:
        if ranks.rank == 1:
            raise MemoryError("full")
        return math.fsum(ranks.sum(1.0))

    results = in_world(3, work)
    assert [type(result) for result in results] == [LostRankError, MemoryError, LostRankError]


def test_work_is_shared_in_turn_and_gathered_in_order() -> None:
    """Ranks with other settings do not begin: all get the line."""

    def work(ranks: Ranks) -> list[Any]:
        done: list[int] = []

        def square(item: int) -> int:
            done.append(item)
            return item * item

        squares = ranks.map(range(5), square, lambda: False, list)
        with pytest.raises(InterruptedWorkError):
            ranks.map(range(5), square, lambda: ranks.rank == 1, list)
        with pytest.raises(ConfigError, match=r"^train: rank 1 has b, rank 0 has a; all"):
            ranks.check_same({"seed": 1, "train": "a" if ranks.is_first else "b"})
        return [squares, done]

    squares = [0, 1, 4, 9, 16]
    assert in_world(2, work) == [[squares, [0, 2, 4, 0, 2, 4]], [squares, [1, 3]]]


def train_in_world(world: int, run: Path, interrupted=lambda ranks: False, **sections) -> Outcome:
    """Train on the corpus beside the run, 4 batches an epoch; all ranks have the same outcome."""
    config = tiny_config(run.parent, **sections)

    def work(ranks: Ranks) -> Outcome:
        keys: dict[str, Any] = {"quiet": True, "allow_change": True, "ranks": ranks}
        return train(config, run, interrupted=lambda: interrupted(ranks), **keys)

    outcomes = in_world(world, work, connect=False)
    assert {type(outcome) for outcome in outcomes} == {Outcome}, outcomes
    assert len({(outcome.step, outcome.reason, outcome.best) for outcome in outcomes}) == 1
    return outcomes[0]


def test_a_run_goes_on_with_the_same_bits_and_in_another_world(corpus: Path) -> None:
    """Dropout draws on each rank from a generator of its own, and all are in the checkpoint."""
    sections = {"model": {"dropout": 0.3}, "valid": {"every": 2, "samples": 1}}
    train = {"ema": {"decay": 0.9}}
    run, parts, calls = corpus / "unbroken", corpus / "parts", itertools.count(1)

    def second_rank(ranks: Ranks) -> bool:
        return next(calls) > 2 and ranks.rank == 1

    assert train_in_world(2, run, train=train, **sections).step == 4
    stopped = train_in_world(2, parts, second_rank, train=train, **sections)
    assert (stopped.step, stopped.reason) == (2, None), "all stop after the same update"
    assert last_checkpoint(parts).step == 2
    train_in_world(2, parts, train=train, **sections)
    assert_same_checkpoint(run, parts)
    state = last_checkpoint(run).state_tensors
    assert not torch.equal(state["rng.cpu"], state["rank1.rng.cpu"])
    card = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert card["hardware"]["processes"] == "2"
    train_in_world(1, run, train={**train, "epochs": 3}, **sections)
    assert "processes     2 -> 1: from now on an update has 1 x" in log_of(run)
    assert [record["step"] for record in records(run, "train")] == list(range(1, 9))
    assert "rank1.rng.cpu" not in last_checkpoint(run).state_tensors
    assert train_in_world(2, run, train={**train, "epochs": 4}, **sections).step == 10


def test_a_validation_is_that_of_one_process(corpus: Path) -> None:
    """And so are the losses of updates without dropout, with as many batches in each."""
    valid = {"every": 2, "metric": "chrf"}
    for world, accumulate in ((1, 2), (2, 1)):
        train_in_world(world, corpus / f"{world}", train={"accumulate": accumulate}, valid=valid)
    for kind in ("train", "valid"):
        one, two = (records(corpus / name, kind) for name in ("1", "2"))
        assert len(one) == len(two) > 0
        for ours, theirs in zip(one, two, strict=True):
            for key in ours.keys() - {"type"}:
                assert ours[key] == pytest.approx(theirs[key], rel=1e-4), key
