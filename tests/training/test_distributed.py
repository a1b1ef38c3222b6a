"""Laws of distributed training: any number of ranks trains the same model."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
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
from nmt.training.distributed import ALONE, InterruptedWorkError, LostRankError, Ranks, _lost_ranks
from nmt.training.loop import Outcome, train
from nmt.training.step import StepSettings, train_step


def micro_batches(n: int, seed: int) -> list[Batch]:
    """Batches of unequal sizes."""
    generator = torch.Generator().manual_seed(seed)

    def ids() -> tuple[int, ...]:
        length = int(torch.randint(1, 8, (), generator=generator))
        return tuple(torch.randint(4, 10, (length,), generator=generator).tolist())

    return [
        make_batch([ids() for _ in range(size)], [ids() for _ in range(size)])
        for size in (1 + i % 3 for i in range(n))
    ]


def losses_of_updates(ranks: Ranks) -> list[tuple[float, float]]:
    """Losses and norms of updates of 6 micro-batches, the last of 2."""
    torch.manual_seed(3)
    state = toy_state()
    state.model.double().train()
    optimizer = torch.optim.Adam(state.model.parameters(), 0.01, fused=True)
    settings = StepSettings(clip_norm=1.0, loss=CrossEntropy(0.1), ranks=ranks)
    measurements = []
    for seed, n in enumerate((6, 6, 6, 6, 2)):
        group = micro_batches(n, seed)
        mine = [group[i] for i in ranks.share([batch.n_positions for batch in group])]
        result = train_step(state.model, optimizer, mine, settings)
        assert result.n_tokens == sum(batch.n_tokens for batch in group)
        measurements.append((result.loss, result.grad_norm))
    return measurements


def test_any_world_has_the_same_losses() -> None:
    """With the same micro-batches in all; in the last update a third rank has none."""
    expected = losses_of_updates(ALONE)
    for world in (1, 2, 3):
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


@pytest.mark.parametrize("costs", [[], [5], [3, 3, 3, 3], [9, 1, 1, 1, 1, 5], [0, 0, 0], [7, 2]])
@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_shares_are_a_partition_by_cost(costs: list[int], world: int) -> None:
    shares = [Ranks(rank, world, rank).share(costs) for rank in range(world)]
    assert sorted(item for share in shares for item in share) == list(range(len(costs)))
    assert all(share == sorted(share) for share in shares)
    loads = [sum(costs[i] for i in share) for share in shares]
    assert max(loads) - min(loads) <= max(costs, default=0)
    if len(costs) >= world:
        assert all(shares), "with a batch for each, none is idle"


def test_the_ranks_are_those_of_torchrun() -> None:
    assert Ranks.from_environment({}) == Ranks.from_environment({"LOCAL_RANK": "0"}) == Ranks()
    environment = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}
    assert Ranks.from_environment(environment) == Ranks(3, 4, 1)
    for malformed in ({"RANK": "0"}, {**environment, "WORLD_SIZE": "two"}):
        with pytest.raises(ConfigError, match=r"^RANK, WORLD_SIZE, LOCAL_RANK: got .*$"):
            Ranks.from_environment(malformed)


def test_each_rank_has_a_gpu_or_the_one_that_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task of Slurm may see its own GPU alone."""
    ranks = Ranks(7, 9, 1000)
    assert ranks.device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert Ranks(1, 2, 1).device("cuda") == torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    with pytest.raises(ConfigError, match=r"train\.device: got 'cuda' for rank 1000 of this mach"):
        ranks.device("cuda")
    with pytest.raises(ConfigError, match=r"train\.device: got 'cuda:1' for rank 1 of this mach"):
        Ranks(1, 2, 1).device("cuda:1")
    assert Ranks(1, 2, 1).device("auto") == torch.device("cuda", 1)


def test_memory_that_runs_out_in_nccl_is_no_lost_rank() -> None:
    message = "NCCL error: unhandled cuda error\nCuda failure 2 'out of memory'"
    with pytest.raises(dist.DistBackendError), _lost_ranks():
        raise dist.DistBackendError(message)
    with pytest.raises(LostRankError), _lost_ranks():
        raise dist.DistBackendError(
            "NCCL error: remote process exited or there was a network error"
        )


def test_other_settings_of_a_rank_are_a_line_on_all() -> None:
    def work(ranks: Ranks) -> None:
        ranks.check_same({"seed": 1, "train": "a" if ranks.is_first else "b"})

    for error in in_world(2, work):
        assert str(error).startswith("train: rank 1 has b, rank 0 has a; allowed: the same ")


def test_a_rank_that_ends_ends_the_others() -> None:
    """They are told by the closed connection, and do not wait for a time-out."""

    def work(ranks: Ranks) -> float:
        if ranks.rank == 1:
            raise MemoryError("full")
        return math.fsum(ranks.sum(1.0))

    zero, one, two = in_world(3, work)
    assert isinstance(one, MemoryError)
    for lost in (zero, two):
        assert isinstance(lost, LostRankError)
        assert str(lost).startswith("another process of this training has ended or cannot be ")


def test_work_is_shared_in_turn_and_gathered_in_order() -> None:
    def work(ranks: Ranks) -> list[Any]:
        done: list[int] = []

        def square(item: int) -> int:
            done.append(item)
            return item * item

        squares = ranks.map(range(5), square, lambda: False, list)
        with pytest.raises(InterruptedWorkError):
            ranks.map(range(5), square, lambda: ranks.rank == 1, list)
        return [squares, done]

    squares = [0, 1, 4, 9, 16]
    zero, one = in_world(2, work)
    assert zero == [squares, [0, 2, 4, 0, 2, 4]]
    assert one == [squares, [1, 3]]


def run_of(
    corpus: Path,
    name: str,
    interrupted: Callable[[Ranks], bool] = lambda ranks: False,
    **train_: Any,
) -> Callable[[Ranks], Outcome]:
    """A work for `in_world` that trains `corpus / name`, with dropout; 4 batches an epoch."""
    settings = {"ema": {"decay": 0.9}, **train_}
    config = tiny_config(
        corpus, train=settings, model={"dropout": 0.3}, valid={"every": 2, "samples": 1}
    )

    def work(ranks: Ranks) -> Outcome:
        keys: dict[str, Any] = {"quiet": True, "allow_change": True, "ranks": ranks}
        return train(config, corpus / name, interrupted=lambda: interrupted(ranks), **keys)

    return work


def in_run(world: int, work: Callable[[Ranks], Outcome]) -> Outcome:
    """The outcome, which is the same on every rank."""
    outcomes = in_world(world, work, connect=False)
    for outcome in outcomes:
        assert isinstance(outcome, Outcome), outcome
    assert len({(outcome.step, outcome.reason, outcome.best) for outcome in outcomes}) == 1
    return outcomes[0]


@pytest.fixture
def unbroken(corpus: Path) -> Path:
    """A run of two processes, of four updates."""
    assert in_run(2, run_of(corpus, "unbroken")).step == 4
    return corpus / "unbroken"


def test_a_world_goes_on_with_the_same_bits(corpus: Path, unbroken: Path) -> None:
    """Dropout draws on each rank from a generator of its own, and all are in the checkpoint."""
    calls = 0

    def second_rank(ranks: Ranks) -> bool:
        nonlocal calls
        calls += 1
        return ranks.rank == 1 and calls > 2

    stopped = in_run(2, run_of(corpus, "parts", second_rank))
    assert (stopped.step, stopped.reason) == (2, None), "all stop after the same update"
    assert last_checkpoint(corpus / "parts").step == 2
    in_run(2, run_of(corpus, "parts"))
    assert_same_checkpoint(unbroken, corpus / "parts")
    state = last_checkpoint(unbroken).state_tensors
    assert not torch.equal(state["rng.cpu"], state["rank1.rng.cpu"])
    card = json.loads((unbroken / "run.json").read_text(encoding="utf-8"))
    assert card["hardware"]["processes"] == "2"
    assert "processes     2; tokens/s" in log_of(unbroken)


def test_another_world_goes_on_and_reports_it(corpus: Path, unbroken: Path) -> None:
    in_run(1, run_of(corpus, "unbroken", epochs=3))
    assert "processes     2 -> 1: from now on an update has 1 x" in log_of(unbroken)
    assert [record["step"] for record in records(unbroken, "train")] == list(range(1, 9))
    assert "rank1.rng.cpu" not in last_checkpoint(unbroken).state_tensors
    in_run(2, run_of(corpus, "unbroken", epochs=4))
    assert "processes     1 -> 2: from now on an update has 2 x" in log_of(unbroken)


def test_a_validation_is_that_of_one_process(corpus: Path) -> None:
    """And so are the losses of updates without dropout, with as many batches in each."""
    for world, accumulate in ((1, 2), (2, 1)):
        config = tiny_config(
            corpus, train={"accumulate": accumulate}, valid={"every": 2, "metric": "chrf"}
        )
        in_run(world, lambda ranks: train(config, corpus / f"{ranks.world}", ranks=ranks))  # noqa: B023
    for kind in ("train", "valid"):
        one, two = (records(corpus / name, kind) for name in ("1", "2"))
        assert len(one) == len(two) > 0
        for ours, theirs in zip(one, two, strict=True):
            for key in ours.keys() - {"type"}:
                assert ours[key] == pytest.approx(theirs[key], rel=1e-4), key
