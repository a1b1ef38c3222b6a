"""Same data, same budget: train every recipe of a folder, measure, and write table and pictures.

    OMP_NUM_THREADS=1 python scripts/compare_family.py --seeds 1 2 3 --out docs/family

Finished runs are not trained again, and measurements of a run are stored in it. Speed is measured
once, into OUT/speed.json. To measure it again, delete that file, with nothing else running.
"""

import argparse
import json
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from comparison.display import draw_bleu, draw_maps, markdown
from comparison.measures import (
    Measured,
    Result,
    forced,
    kept_results,
    measure,
    results_of,
    test_set,
)
from comparison.speed import Speed, measure_speed
from measuring import material_of
from pydantic import TypeAdapter

from nmt.config import RunConfig, load_config
from nmt.errors import CheckpointError, ConfigError, DataError, NMTError
from nmt.explain.by_length import draw_by_length
from nmt.explain.heatmap import write_map
from nmt.lab.figure import figure_style, write_png
from nmt.runs.directory import RunDirectory
from nmt.storage.atomic import write_json, write_text
from nmt.training.loop import train
from nmt.translation.translator import Translator
from nmt.types import Translation

BASELINE = "additive"
"""The recipe that the others are compared with."""
MAPPED_SENTENCE = 370  # two black dogs, a black puppy and a white dog: order, and four of a kind
N_BATCHES = 2
NAMED = (BASELINE, "none", "transformer", "multi-head", "hard")


def main() -> int:
    """Parse, train, measure, write; return 2 if the user's input was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--configs", type=Path, default=Path("configs/family"), help="the recipes to compare")
    add("--runs", type=Path, default=Path("runs/family"), help="where NAME-SEED are")
    add("--out", type=Path, default=Path("runs/family/comparison"), help="folder of the results")
    add("--seeds", type=int, nargs="+", default=[1])
    add("--kept", action="store_true", help="measure nothing; show the results in OUT")
    add("--sentence", type=int, default=MAPPED_SENTENCE, help="test sentence of the maps, from 1")
    add("--rounds", type=int, default=5, help="rounds of the speed measurement")
    add("--measure-only", action="store_true", help="train nothing; leave out unfinished runs")
    options = parser.parse_args()
    try:
        if options.kept:
            _show(kept_results(options.out), _kept_speeds(options.out), options.out)
        else:
            options.out.mkdir(parents=True, exist_ok=True)
            _compare(read_configs(options.configs), options)
    except NMTError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def read_configs(folder: Path) -> dict[str, RunConfig]:
    """The recipes in `folder` by name.

    Raises ConfigError where the baseline is missing, or two of them differ in anything but name
    and model: a comparison of those would compare more than the models.
    """
    configs = {path.stem: load_config(path) for path in sorted(folder.glob("*.yaml"))}
    if BASELINE not in configs:
        raise ConfigError(f"{folder / BASELINE}.yaml: missing; the others are compared with it")
    base = configs[BASELINE]
    if base.train.steps is None:
        raise ConfigError(f"{folder / BASELINE}.yaml: train.steps: missing; it is the budget")
    for name, config in configs.items():
        for section in RunConfig.model_fields.keys() - {"name", "model"}:
            if getattr(config, section) != getattr(base, section):
                raise ConfigError(
                    f"{folder / name}.yaml: {section} differs from {BASELINE}.yaml; recipes that "
                    "are compared may differ in name and model only"
                )
    return configs


def run_path(runs: Path, name: str, seed: int) -> Path:
    return runs / f"{name}-{seed}"


def is_finished(path: Path, config: RunConfig) -> bool:
    """Whether the run has its last update. Raises CheckpointError if it has another config."""
    run = RunDirectory(path)
    if run.exists and run.load_config() != config:
        raise CheckpointError(
            f"{path}: was trained with another config; move it away, or name another folder "
            "with --runs"
        )
    return run.exists and config.train.steps in run.checkpoint_folder.steps()


def _compare(configs: Mapping[str, RunConfig], options: argparse.Namespace) -> None:
    measured: dict[str, dict[int, Measured]] = {}
    for seed in options.seeds:
        for name, recipe in configs.items():
            path = run_path(options.runs, name, seed)
            config = recipe.model_copy(update={"seed": seed})
            if not options.measure_only and not is_finished(path, config):
                train(config, path, sys.argv)  # a run that was begun is continued
            if is_finished(path, config):
                measured.setdefault(name, {})[seed] = measure(path)
            else:
                print(f"{path}: not finished", file=sys.stderr)
    if BASELINE not in measured:
        raise ConfigError(f"'{BASELINE}' has no finished run in {options.runs}")
    examples = test_set(run_path(options.runs, BASELINE, min(measured[BASELINE])))
    if not 1 <= options.sentence <= len(examples):
        raise ConfigError(f"--sentence: got {options.sentence}, allowed: 1 to {len(examples)}")
    base = configs[BASELINE]
    results = results_of(measured, examples, BASELINE, base.data.tgt_lang)
    speeds = _kept_speeds(options.out)
    if not speeds and not options.measure_only:
        speeds = _measure_speeds(configs, options)
    family: dict[str, object] = {
        "steps": base.train.steps,
        "sentences": len(examples),
        "signature": results[0].signature,
        "kinds": {result.name: _as_json(result) for result in results},
        "speed": {name: asdict(speed) for name, speed in speeds.items()},
    }
    write_json(options.out / "family.json", family)
    maps = {result.name: _map(result.name, min(result.bleus), options) for result in results}
    pieces = {(one.source.pieces, one.hypotheses[0].target.pieces) for one in maps.values()}
    if len(pieces) > 1:
        raise DataError(f"{options.runs}: the runs cut the sentence of the maps into other pieces")
    with figure_style():
        write_map(draw_maps(maps), options.out / "maps.png", force=True)
    _show(results, speeds, options.out)


def _as_json(result: Result) -> dict[str, object]:
    means = {"bleu": result.bleu, "spread": result.spread, "perplexity": math.exp(result.loss)}
    return asdict(result) | means


def _show(results: Sequence[Result], speeds: Mapping[str, Speed], out: Path) -> None:
    """The table and the pictures that need no run."""
    table = markdown(results, speeds)
    write_text(out / "table.md", table)
    with figure_style():
        write_png(draw_bleu(results), out / "bleu.png", force=True)
        by_length = {result.name: result.by_length for result in results}
        write_png(draw_by_length(by_length, NAMED), out / "bleu-by-length.png", force=True)
    print(table, end="")


def _map(name: str, seed: int, options: argparse.Namespace) -> Translation:
    """Return a run's attention on the chosen sentence and its reference."""
    run = run_path(options.runs, name, seed)
    translator = Translator.load(run, device="cpu", checkpoint="last")
    return forced(translator, [test_set(run)[options.sentence - 1]])[0]


def _measure_speeds(
    configs: Mapping[str, RunConfig], options: argparse.Namespace
) -> dict[str, Speed]:
    material = material_of(configs[BASELINE], N_BATCHES, "the family's corpus")
    speeds, others = measure_speed(configs, BASELINE, material, options.rounds)
    about = {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "processor": platform.processor() or platform.machine(),
        "load_of_others": others,
        "rounds": options.rounds,
        "kinds": {name: asdict(speed) for name, speed in speeds.items()},
    }
    write_json(options.out / "speed.json", about)
    return speeds


def _kept_speeds(out: Path) -> dict[str, Speed]:
    path = out / "speed.json"
    if not path.is_file():
        return {}
    kinds = json.loads(path.read_text(encoding="utf-8"))["kinds"]
    return TypeAdapter(dict[str, Speed]).validate_python(kinds)


if __name__ == "__main__":
    sys.exit(main())
