"""One benchmark, from its request to its report."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nmt.bench.bench_plan import Plan
from nmt.bench.decoding import measure_decoding, measure_latency
from nmt.bench.material import Material, fixed_shape, real_lengths
from nmt.bench.memory import measure_memory
from nmt.bench.profile import profile_update
from nmt.bench.sizes import sizes_of
from nmt.bench.speed_report import Report, Section, machine_card
from nmt.bench.trained import measure_start, measure_test_set
from nmt.bench.training import measure_growth, measure_training
from nmt.device import Precision, resolve_device
from nmt.settings.config_file import Overrides

_BEAMS = (1, 5)
_LENGTHS = (16, 32, 64, 128, 256)
_BATCH_SIZES = (16, 64, 256)
_QUICK_LENGTHS = (4, 8)
_QUICK_ROUNDS = 2


@dataclass(frozen=True)
class Request:
    """The settings of a benchmark. `parts` are names of parts.PARTS."""

    parts: Sequence[str]
    sizes: str
    overrides: Overrides
    rounds: int | None
    precision: Precision
    device: str
    data: Path
    run: Path | None
    quick: bool
    profile: bool

    def plan(self) -> Plan:
        """The plan with its defaults. Raises ConfigError for an unknown size, key or device."""
        sizes = sizes_of("tiny" if self.quick else self.sizes, self.overrides)
        plan = Plan(sizes, resolve_device(self.device), self.precision, data=self.data)
        if plan.device.type == "cuda":
            plan = replace(plan, ceiling_sizes=(4096, 8192))  # smaller ones do not fill a GPU
        if self.quick:
            plan = replace(plan, rounds=_QUICK_ROUNDS, n_batches=1, ceiling_sizes=(64,))
        return replace(plan, rounds=self.rounds) if self.rounds else plan


def perform(request: Request, say: Callable[[str], None]) -> Report:
    """Measure every part; `say` gets the name of each before it begins.

    Raises ConfigError for settings that cannot be measured, before the first measurement.
    """
    plan = request.plan()
    card = machine_card(plan.device, plan.precision)
    sections = tuple(_sections(request, plan, say))
    profile = None
    if request.profile:
        say("profile")
        profile = profile_update(plan, fixed_shape(plan.sizes))
    settings = {**plan.sizes.model_dump(), "precision": plan.precision, "rounds": plan.rounds}
    return Report(card, settings, sections, profile)


def _sections(request: Request, plan: Plan, say: Callable[[str], None]) -> Iterator[Section]:
    materials = _materials(request, plan)
    for part in request.parts:
        say(part)
        if part == "training":
            yield from (measure_training(plan, material) for material in materials)
        elif part == "decoding":
            for material in materials:
                yield from (measure_decoding(plan, material, beam) for beam in _BEAMS)
        elif part == "latency":
            yield measure_latency(plan, _BEAMS)
        elif part == "memory":
            if (measured := measure_memory(plan)) is not None:
                yield measured
        elif part == "growth":
            yield measure_growth(plan, _QUICK_LENGTHS if request.quick else _LENGTHS)
        elif request.run is not None:
            yield measure_test_set(request.run, plan.device, _BATCH_SIZES, max(_BEAMS), plan.rounds)
            yield measure_start(request.run, plan.rounds)


def _materials(request: Request, plan: Plan) -> list[Material]:
    """Batches of a fixed shape, and of real lengths if the sizes are standard and not quick."""
    if not {"training", "decoding"} & set(request.parts):
        return []
    fixed = fixed_shape(plan.sizes)
    if request.quick or request.sizes != "standard":
        return [fixed]
    return [fixed, real_lengths(plan.sizes, plan.data, plan.n_batches)]
