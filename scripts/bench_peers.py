"""Other toolkits beside nmt: the same data, pieces and sizes, in turn on this machine.

    python scripts/bench_peers.py setup  --envs runs/peers/envs
    python scripts/bench_peers.py train  --envs runs/peers/envs --work runs/peers --rounds 5
    python scripts/bench_peers.py decode --envs runs/peers/envs --work runs/peers \\
        --models nmt=runs/peers/nmt/model opennmt=runs/peers/opennmt/model_step_5000.pt

`setup` makes a virtual environment for each, with the torch that constraints.txt pins. `train` runs
each for --steps updates, in turn, and reads the speed from the steady part of their logs. A
training of thousands of steps in one round leaves models for `decode`. Nothing else should run
meanwhile.
"""

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from measuring import machine_card
from peers.data import Exported, export
from peers.rounds import Place, decoding_table, train_in_turn, training_table, translate_in_turn
from peers.toolkit import Settings, Toolkit
from peers.toolkits import JoeyNMT, OpenNMT, Own

from nmt.errors import ConfigError, NMTError
from nmt.settings.config_file import load_overrides
from nmt.storage.atomic import write_json

_DEFAULT = ("nmt", "opennmt", "joeynmt")


def toolkits() -> dict[str, Toolkit]:
    ours = [Own("fp32"), Own("bf16"), Own("fp32", int8=True)]
    return {toolkit.name: toolkit for toolkit in (*ours, OpenNMT(), JoeyNMT())}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 2 if the input was wrong or a toolkit failed."""
    options = _parser().parse_args(arguments)
    try:
        {"setup": _setup, "train": _train, "decode": _decode}[options.task](options)
    except NMTError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("task", choices=["setup", "train", "decode"])
    add("--envs", type=Path, default=Path("runs/peers/envs"), help="folder of the environments")
    add("--work", type=Path, default=Path("runs/peers"), help="folder of data, models and results")
    add("--only", nargs="+", default=list(_DEFAULT), metavar="NAME", help="these toolkits")
    add("--rounds", type=int, default=5)
    add("--threads", type=int, default=torch.get_num_threads())
    add("--settings", nargs="+", default=[], metavar="KEY=VALUE", help="such as steps=50")
    add("--models", nargs="+", default=[], metavar="NAME=PATH", help="decode: trained models")
    add("--batch-sizes", nargs="+", type=int, default=[1, 16, 64, 128], help="decode: sentences")
    return parser


def _chosen(names: Sequence[str]) -> list[Toolkit]:
    known = toolkits()
    for name in names:
        if name not in known:
            raise ConfigError(f"toolkit: got '{name}', allowed: {', '.join(known)}")
    return [known[name] for name in names]


def _setup(options: argparse.Namespace) -> None:
    for toolkit in _chosen(options.only):
        if toolkit.environment is not None:
            print(toolkit.environment.set_up(options.envs))


def _prepared(options: argparse.Namespace) -> tuple[Place, Exported, Settings]:
    settings = load_overrides(options.settings, Settings)
    data = export(options.work / "data", settings.vocabulary, settings.seed)
    place = Place(options.envs.absolute(), options.work.absolute(), options.threads)
    return place, data, settings


def _train(options: argparse.Namespace) -> None:
    selected = _chosen(options.only)
    place, data, settings = _prepared(options)
    measured = train_in_turn(selected, place, data, settings, options.rounds)
    print(training_table(measured, data.both_by_target))
    _write(options, selected, settings, {name: asdict(of_one) for name, of_one in measured.items()})


def _decode(options: argparse.Namespace) -> None:
    pairs = [model.partition("=") for model in options.models]
    if not pairs or not all(path for _, _, path in pairs):
        raise ConfigError(f"--models: got {options.models}, allowed: NAME=PATH, one or more")
    selected = _chosen([name for name, _, _ in pairs])
    paths = [Path(path).absolute() for _, _, path in pairs]
    for path in paths:
        if not path.exists():
            raise ConfigError(f"--models: {path}: no such file")
    place, data, settings = _prepared(options)
    for toolkit in selected:
        toolkit.write(place.folder(toolkit), data, settings)
    models = dict(zip(selected, paths, strict=True))
    measured = translate_in_turn(models, place, data, settings, options.batch_sizes, options.rounds)
    print(decoding_table(measured))
    by_name = {f"{name} {size}": asdict(figures) for (name, size), figures in measured.items()}
    _write(options, selected, settings, by_name)


def _write(
    options: argparse.Namespace,
    toolkits: Sequence[Toolkit],
    settings: Settings,
    measured: Mapping[str, object],
) -> None:
    """The file of the figures; toolkits measured in turn share one."""
    names = [toolkit.name for toolkit in toolkits]
    path = options.work / f"{'-'.join([options.task, *names])}.json"
    card = {**machine_card(torch.device("cpu"), "bf16"), "threads": options.threads}
    write_json(path, {"machine": card, "settings": settings.model_dump(), "measured": measured})
    print(f"\n{path}", file=sys.stderr)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # stops the toolkit too
    sys.exit(main())
