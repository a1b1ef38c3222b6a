"""Peak memory of an update. Each variant of the model is measured in a process of its own."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch

from nmt.bench.bench_plan import Plan, Variant
from nmt.bench.material import fixed_shape
from nmt.bench.speed_report import Row, Section
from nmt.bench.training import Learner
from nmt.device import MemoryUse

_MIB = 2**20


@dataclass(frozen=True)
class Use:
    """Bytes in use before an update (weights, optimiser, libraries), and the peak during it."""

    before: int
    peak: int


def measure_memory(plan: Plan) -> Section | None:
    """The memory that an update adds to its process; None if the system does not tell."""
    uses: dict[str, Use] = {}
    for variant in plan.variants():
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            use = pool.submit(use_of_update, plan, variant, torch.get_num_threads()).result()
        if use is None:
            return None
        uses[variant.name] = use
    last = list(uses.values())[-1]
    rows = []
    for name, use in uses.items():
        added = (use.peak - use.before) / _MIB
        share = (last.peak - last.before) / max(1, use.peak - use.before)
        also = {"MiB in all": use.peak / _MIB}
        rows.append(Row(name, added, added, added, ratio=share, also=also))
    title = f"memory of an update, {fixed_shape(plan.sizes).title}"
    return Section(title, "MiB above the model at rest", tuple(rows), timed=False)


def use_of_update(plan: Plan, variant: Variant, threads: int) -> Use | None:
    """Memory of two updates of the plan's shape, after a small one that fills the optimiser."""
    torch.set_num_threads(threads)
    small = plan.sizes.model_copy(update={"batch": 1, "src": 2, "tgt": 2})
    material = fixed_shape(plan.sizes).to(plan.device)
    learner = Learner(plan, variant, material)
    learner.update(fixed_shape(small).to(plan.device).batches)
    before = _use_from_now(plan.device)
    for _ in range(2):
        learner.update(material.batches)
    after = MemoryUse.of(plan.device)
    return None if before is None or after is None else Use(before.now, max(before.now, after.peak))


def _use_from_now(device: torch.device) -> MemoryUse | None:
    """The memory in use, after a reset of its peak; None where the peak cannot be reset."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # see proc(5)
        except OSError:
            return None
    return MemoryUse.of(device)
