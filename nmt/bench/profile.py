"""The time of an update, by operation."""

from collections.abc import Iterator

from torch.profiler import ProfilerActivity, profile

from nmt.bench.bench_plan import Plan
from nmt.bench.load import Watch
from nmt.bench.material import Material
from nmt.bench.speed_report import Profile, ProfileRow
from nmt.bench.training import Learner

_UPDATES = 3
_ROWS = 15


def profile_update(plan: Plan, material: Material) -> Profile:
    """The operations that take longest, by their own time, per pass over the batches.

    On a GPU this is the GPU's time. The profiler itself takes time at every call, so operations of
    many small calls seem slower than they are.
    """
    material = material.to(plan.device)
    learner = Learner(plan, plan.variants()[0], material)
    learner.update(material.batches)
    on_gpu = plan.device.type == "cuda"
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
    watch = Watch()
    with profile(activities=activities) as profiler:
        for _ in range(_UPDATES):
            learner.update(material.batches)
    others = watch.look()
    times = {
        event.key: (event.self_device_time_total if on_gpu else event.self_cpu_time_total,
                    event.count)
        for event in profiler.key_averages()
    }  # fmt: skip
    return Profile(
        f"an update of {learner.variant.name}, {material.title}", tuple(_rows(times)), others
    )


def _rows(times: dict[str, tuple[float, int]]) -> Iterator[ProfileRow]:
    total = sum(micro for micro, _ in times.values())
    ordered = sorted(times.items(), key=lambda item: -item[1][0])
    rest = ordered[_ROWS:]
    for name, (micro, calls) in ordered[:_ROWS]:
        yield ProfileRow(name, micro / 1e3 / _UPDATES, micro / total, calls / _UPDATES)
    micro, calls = sum(m for _, (m, _) in rest), sum(c for _, (_, c) in rest)
    yield ProfileRow(f"{len(rest)} others", micro / 1e3 / _UPDATES, micro / total, calls / _UPDATES)
