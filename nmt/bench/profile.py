"""The time of an update, by operation."""

from collections.abc import Iterable, Iterator

from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEventAvg
from torch.profiler import ProfilerActivity, profile

from nmt.bench.bench_plan import Plan
from nmt.bench.load import Watch
from nmt.bench.material import Material
from nmt.bench.speed_report import Profile, ProfileRow
from nmt.bench.training import Learner

_UPDATES = 3
_ROWS = 15


def profile_update(plan: Plan, material: Material) -> Profile:
    """The operations with the longest own time, per pass over the batches.

    On a GPU these are its kernels, with the GPU's time. The profiler itself takes time at every
    call, so operations of many small calls seem slower than they are.
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
    times = _times(profiler.key_averages(), on_gpu)
    title = f"an update of {learner.variant.name}, {material.title}"
    return Profile(title, tuple(_rows(times)), others)


def _times(events: Iterable[FunctionEventAvg], on_gpu: bool) -> list[tuple[float, int, str]]:
    """Return the own time, the number of calls and the name of each operation or kernel.

    On a GPU the profiler has the time of a kernel three times: in its own row, in that of the
    operator that launched it, and in those of ranges that a program marks.
    """
    if not on_gpu:
        return [(event.self_cpu_time_total, event.count, str(event.key)) for event in events]
    return [
        (event.self_device_time_total, event.count, str(event.key))
        for event in events
        if event.device_type == DeviceType.CUDA and not event.is_user_annotation
    ]


def _rows(times: list[tuple[float, int, str]]) -> Iterator[ProfileRow]:
    """A row for each of the longest operations, and one for all others; times in microseconds."""
    total = sum(micro for micro, _, _ in times)
    ordered = sorted(times, reverse=True)
    rest = ordered[_ROWS:]
    others = sum(micro for micro, _, _ in rest), sum(calls for _, calls, _ in rest)
    for micro, calls, name in [*ordered[:_ROWS], (*others, f"{len(rest)} others")]:
        yield ProfileRow(name, micro / 1e3 / _UPDATES, micro / total, calls / _UPDATES)
