"""Same data, same budget: train every recipe of a folder, measure, and write table and pictures.

    OMP_NUM_THREADS=1 python scripts/compare_family.py --seeds 1 2 3 --out docs/family

Finished runs are not trained again, and measurements of a run are stored in it. Speed is measured
once, into OUT/speed.json. To measure it again, delete that file, with nothing else running.
"""

import argparse
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from comparison.measures import Measured, forced, measure, test_set
from comparison.members import Member, read_members, run_path, state_of, train_missing
from comparison.pictures import draw_bleu, draw_maps
from comparison.results import Result, kept_results, results_of
from comparison.speed import Speed, measure_speed
from comparison.table import markdown
from measuring import material_of
from pydantic import TypeAdapter

from nmt.errors import ConfigError, DataError, NMTError
from nmt.explain.by_length import draw_by_length
from nmt.explain.heatmap import write_map
from nmt.lab.figure import figure_style, write_png
from nmt.storage.atomic import write_json, write_text
from nmt.translation.translator import Translator
from nmt.types import Translation

MAPPED_SENTENCE = 370  # two black dogs, a black puppy and a white dog: order, and four of a kind
N_BATCHES = 2
NAMED = ("additive", "none", "transformer", "multi-head", "hard")


def main() -> int:
    """Parse, train, measure, write; return 2 if the user's input was wrong."""
    options = _parser().parse_args()
    try:
        if options.kept:
            _show(kept_results(options.out), _kept_speeds(options.out), options.out)
            return 0
        members = read_members(options.configs, options.only)
        names = [member.name for member in members]
        if options.baseline not in names:
            raise ConfigError(f"--baseline: got '{options.baseline}', allowed: {', '.join(names)}")
        options.out.mkdir(parents=True, exist_ok=True)
        _compare(members, options)
    except NMTError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--configs", type=Path, default=Path("configs/family"), help="the recipes to compare")
    add("--runs", type=Path, default=Path("runs/family"), help="where NAME-SEED are")
    add("--out", type=Path, default=Path("runs/family/comparison"), help="folder of the results")
    add("--seeds", type=int, nargs="+", default=[1])
    add("--only", nargs="+", default=[], metavar="NAME", help="these recipes alone")
    add("--kept", action="store_true", help="measure nothing; show the results in OUT")
    add("--baseline", default="additive", metavar="NAME", help="to compare the others with")
    add("--sentence", type=int, default=MAPPED_SENTENCE, help="test sentence of the maps, from 1")
    add("--rounds", type=int, default=5, help="rounds of the speed measurement")
    add("--measure-only", action="store_true", help="train nothing; leave out unfinished runs")
    return parser


def _compare(members: Sequence[Member], options: argparse.Namespace) -> None:
    if not options.measure_only:
        train_missing(members, options.seeds, options.runs)
    measured = _measure(members, options)
    if options.baseline not in measured:
        raise ConfigError(f"--baseline: '{options.baseline}' has no finished run in {options.runs}")
    examples = test_set(run_path(options.runs, options.baseline, min(measured[options.baseline])))
    if not 1 <= options.sentence <= len(examples):
        raise ConfigError(f"--sentence: got {options.sentence}, allowed: 1 to {len(examples)}")
    tgt_lang = members[0].config.data.tgt_lang
    results = results_of(measured, examples, options.baseline, tgt_lang)
    speeds = _kept_speeds(options.out)
    if not speeds and not options.measure_only:
        speeds = _measure_speeds(members, options)
    steps = members[0].config.train.steps
    family: dict[str, object] = {
        "steps": steps,
        "sentences": len(examples),
        "signature": results[0].signature,
        "kinds": {result.name: result.as_json() for result in results},
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


def _show(results: Sequence[Result], speeds: Mapping[str, Speed], out: Path) -> None:
    """The table and the pictures that need no run."""
    table = markdown(results, speeds)
    write_text(out / "table.md", table)
    with figure_style():
        write_png(draw_bleu(results), out / "bleu.png", force=True)
        by_length = {result.name: result.by_length for result in results}
        write_png(draw_by_length(by_length, NAMED), out / "bleu-by-length.png", force=True)
    print(table, end="")


def _measure(
    members: Sequence[Member], options: argparse.Namespace
) -> dict[str, dict[int, Measured]]:
    """Return the measures of every finished run by kind and seed; name the others on stderr."""
    measured: dict[str, dict[int, Measured]] = {}
    for member in members:
        for seed in options.seeds:
            run = run_path(options.runs, member.name, seed)
            state = state_of(member, seed, options.runs)
            print(f"{run}: {state}", file=sys.stderr)
            if state == "finished":
                measured.setdefault(member.name, {})[seed] = measure(run)
    return measured


def _map(name: str, seed: int, options: argparse.Namespace) -> Translation:
    """Return a run's attention on the chosen sentence and its reference."""
    run = run_path(options.runs, name, seed)
    translator = Translator.load(run, device="cpu", checkpoint="last")
    return forced(translator, [test_set(run)[options.sentence - 1]])[0]


def _measure_speeds(members: Sequence[Member], options: argparse.Namespace) -> dict[str, Speed]:
    material = material_of(members[0].config, N_BATCHES, "the family's corpus")
    speeds, others = measure_speed(members, options.baseline, material, options.rounds)
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
