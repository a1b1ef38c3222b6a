"""Same data, same budget: train every recipe of a folder, measure, and write table and pictures.

    OMP_NUM_THREADS=1 python scripts/compare_family.py --seeds 1 2 3 --out docs/family

Finished runs are not trained again, and measurements of a run are stored in it. Speed is measured
once, into OUT/speed.json. To measure it again, delete that file or give --speed, with nothing else
running. With --join the means go over the seeds in OUT's results too, whose runs need not be there;
the test against the baseline is that of the new seeds, and the maps stay. With --update OUT keeps
the results of other kinds and the maps: for one changed recipe, if the runs of the others are gone.
It is compared with the baseline if that is updated too.
"""

import argparse
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from comparison.measures import Measured, forced, measure, test_set
from comparison.members import Member, read_members, run_path, state_of, train_missing
from comparison.pictures import draw_bleu, draw_by_length, draw_maps
from comparison.results import Result, in_order, joined, kept_results, results_of
from comparison.speed import Speed, load_of_others, material_of, measure_speed
from comparison.table import as_json, markdown
from pydantic import TypeAdapter

from nmt.attention_maps.heatmap import write_map
from nmt.errors import ConfigError, DataError, NMTError
from nmt.inference.translator import Translator
from nmt.lab.figure import house_style, write_png
from nmt.storage.atomic import write_json, write_text
from nmt.types import Translation

MAPPED_SENTENCE = 370  # two black dogs, a black puppy and a white dog: order, and four of a kind
NAMED = ("additive", "none", "transformer", "multi-head", "hard")


class Options(argparse.Namespace):
    """The options of the command line."""

    configs: Path
    runs: Path
    out: Path
    seeds: list[int]
    only: list[str]
    update: list[str]
    join: bool
    kept: bool
    baseline: str
    sentence: int
    rounds: int
    measure_only: bool
    speed: bool
    anew: bool


def main() -> int:
    """Parse, train, measure, write; return 2 if the user's input was wrong."""
    options = _parse()
    try:
        if options.kept:
            _show(kept_results(options.out), _kept_speeds(options.out), options.out)
            return 0
        members = read_members(options.configs, options.update or options.only)
        if not options.update and options.baseline not in {member.name for member in members}:
            raise ConfigError(
                f"--baseline: got '{options.baseline}', allowed: "
                f"{', '.join(member.name for member in members)}"
            )
        options.out.mkdir(parents=True, exist_ok=True)
        if options.speed:
            _speed_of(members, options, anew=True)
        else:
            _compare(members, options)
    except NMTError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parse() -> Options:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--configs", type=Path, default=Path("configs/family"), help="the recipes to compare")
    add("--runs", type=Path, default=Path("runs/family"), help="where NAME-SEED are")
    add("--out", type=Path, default=Path("runs/family/comparison"), help="folder of the results")
    add("--seeds", type=int, nargs="+", default=[1])
    add("--only", nargs="+", default=[], metavar="NAME", help="these recipes alone")
    add("--update", nargs="+", default=[], metavar="NAME", help="these again, OUT's others as kept")
    add("--join", action="store_true", help="with OUT's results of other seeds of the same kinds")
    add("--kept", action="store_true", help="measure nothing; show the results in OUT")
    add("--baseline", default="additive", metavar="NAME", help="to compare the others with")
    add("--sentence", type=int, default=MAPPED_SENTENCE, help="test sentence of the maps, from 1")
    add("--rounds", type=int, default=5, help="rounds of the speed measurement")
    add("--measure-only", action="store_true", help="train nothing; leave out unfinished runs")
    add("--speed", action="store_true", help="measure speed and memory, and nothing else")
    add("--anew", action="store_true", help="measure runs again that were measured before")
    return parser.parse_args(namespace=Options())


def _compare(members: Sequence[Member], options: Options) -> None:
    if not options.measure_only:
        train_missing(members, options.seeds, options.runs)
    measured = _measure(members, options)
    if options.baseline not in measured and not options.update:
        raise ConfigError(f"--baseline: '{options.baseline}' has no finished run in {options.runs}")
    if not measured:
        raise ConfigError(f"--update: none of these has a finished run in {options.runs}")
    first = next(iter(measured))
    examples = test_set(run_path(options.runs, first, min(measured[first])))
    if not 1 <= options.sentence <= len(examples):
        raise ConfigError(f"--sentence: got {options.sentence}, allowed: 1 to {len(examples)}")
    tgt_lang = members[0].config.data.tgt_lang
    results = results_of(measured, examples, options.baseline, tgt_lang)
    if options.update:
        results = _updated(results, options)
    elif options.join:
        results = _joined(results, options)
    speeds = {} if options.measure_only else _speed_of(members, options, anew=False)
    speeds = speeds or _kept_speeds(options.out)
    steps = members[0].config.train.steps
    about = {"steps": steps, "sentences": len(examples), "signature": results[0].signature}
    write_json(options.out / "family.json", as_json(results, speeds, about))
    if not options.update and not options.join:
        maps = _maps([result.name for result in results], measured, options)
        with house_style():
            write_map(draw_maps(maps), options.out / "maps.png", force=True)
    _show(results, speeds, options.out)


def _show(results: Sequence[Result], speeds: Mapping[str, Speed], out: Path) -> None:
    """The table and the pictures that need no run."""
    table = markdown(results, speeds)
    write_text(out / "table.md", table)
    with house_style():
        write_png(draw_bleu(results), out / "bleu.png", force=True)
        write_png(draw_by_length(results, NAMED), out / "bleu-by-length.png", force=True)
    print(table, end="")


def _updated(results: Sequence[Result], options: Options) -> list[Result]:
    """The new results of the kinds to update, with the stored results of the others.

    These lose their difference to the baseline if that is new.
    """
    new = [result for result in results if result.name in options.update]
    names = {result.name for result in new}
    kept = [result for result in kept_results(options.out) if result.name not in names]
    if options.baseline in names:
        kept = [replace(result, difference=None) for result in kept]
    return in_order([*kept, *new], options.baseline)


def _joined(results: Sequence[Result], options: Options) -> list[Result]:
    """Each result over its kept seeds too; kinds without new seeds as kept."""
    kept = {result.name: result for result in kept_results(options.out)}
    both = {
        result.name: joined(kept[result.name], result) if result.name in kept else result
        for result in results
    }
    return in_order(list((kept | both).values()), options.baseline)


def _measure(members: Sequence[Member], options: Options) -> dict[str, dict[int, Measured]]:
    """The measures of every finished run; the others are named on stderr."""
    measured: dict[str, dict[int, Measured]] = {}
    for member in members:
        for seed in options.seeds:
            run = run_path(options.runs, member.name, seed)
            state = state_of(member, seed, options.runs)
            print(f"{run}: {state}", file=sys.stderr)
            if state == "finished":
                measured.setdefault(member.name, {})[seed] = measure(run, options.anew)
    return measured


def _maps(
    names: Sequence[str], measured: Mapping[str, Mapping[int, Measured]], options: Options
) -> dict[str, Translation]:
    """Each kind's attention on the chosen sentence and its reference, by its first run."""
    maps = {}
    for name in names:
        run = run_path(options.runs, name, min(measured[name]))
        translator = Translator.load(run, device="cpu", checkpoint="last")
        maps[name] = forced(translator, [test_set(run)[options.sentence - 1]])[0]
    pieces = {(maps[name].source.pieces, maps[name].hypotheses[0].target.pieces) for name in names}
    if len(pieces) > 1:
        raise DataError(f"{options.runs}: the runs cut the sentence of the maps into other pieces")
    return maps


def _speed_of(members: Sequence[Member], options: Options, anew: bool) -> dict[str, Speed]:
    """The speeds: measured, or from speed.json."""
    if not anew and (kept := _kept_speeds(options.out)):
        return kept
    load = load_of_others()
    material = material_of(members[0].config)
    speeds = measure_speed(members, options.baseline, material, options.rounds)
    about = {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "processor": platform.processor() or platform.machine(),
        "load_before": load,
        "load_after": load_of_others(),
        "rounds": options.rounds,
    }
    kinds = {name: asdict(speed) for name, speed in speeds.items()}
    write_json(options.out / "speed.json", {**about, "kinds": kinds})
    print(json.dumps({**about, "kinds": kinds}, indent=1), file=sys.stderr)
    return speeds


def _kept_speeds(out: Path) -> dict[str, Speed]:
    path = out / "speed.json"
    if not path.is_file():
        return {}
    kinds = json.loads(path.read_text(encoding="utf-8"))["kinds"]
    return TypeAdapter(dict[str, Speed]).validate_python(kinds)


if __name__ == "__main__":
    sys.exit(main())
