"""The models to compare, and their existing runs."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nmt.config import RunConfig, load_config
from nmt.errors import CheckpointError, ConfigError, did_you_mean
from nmt.runs.directory import RunDirectory
from nmt.training.loop import train

State = Literal["missing", "unfinished", "finished"]


@dataclass(frozen=True)
class Member:
    """One recipe of the folder; its name is the file's."""

    name: str
    path: Path
    config: RunConfig

    def with_seed(self, seed: int) -> RunConfig:
        """The config of its run with this seed."""
        return self.config.model_copy(update={"seed": seed})


def read_members(folder: Path, only: Sequence[str]) -> list[Member]:
    """The recipes in `folder`, or those named in `only`.

    Raises ConfigError where there are none, a name is unknown, or two of them differ in anything
    but name and model: a comparison of those would compare more than the models.
    """
    paths = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if not paths:
        raise ConfigError(f"{folder}: no recipes (*.yaml) in this folder")
    for name in only:
        if name not in paths:
            hint = did_you_mean(name, paths)
            raise ConfigError(f"--only: got '{name}', allowed: {', '.join(paths)}{hint}")
    members = [
        Member(name, path, load_config(path))
        for name, path in paths.items()
        if not only or name in only
    ]
    for member in members:
        _check_same_experiment(members[0], member)
    return members


def _check_same_experiment(first: Member, other: Member) -> None:
    wanted, got = first.config, other.config
    for section in RunConfig.model_fields:
        if section not in ("name", "model") and getattr(wanted, section) != getattr(got, section):
            raise ConfigError(
                f"{other.path}: {section} differs from that of {first.path}; recipes that are "
                "compared may differ in name and model only"
            )
    if got.train.steps is None:
        raise ConfigError(f"{other.path}: train.steps: missing; the budget is counted in updates")


def run_path(runs: Path, name: str, seed: int) -> Path:
    """The folder of the run of a member with a seed."""
    return runs / f"{name}-{seed}"


def state_of(member: Member, seed: int, runs: Path) -> State:
    """The state of the run. Raises CheckpointError where another config was trained there."""
    run = RunDirectory(run_path(runs, member.name, seed))
    if not run.exists:
        return "missing"
    if run.load_config() != member.with_seed(seed):
        raise CheckpointError(
            f"{run.path}: was trained with another config than {member.path} with seed {seed}; "
            "move it away, or name another folder with --runs"
        )
    steps = run.checkpoint_folder.steps()
    wanted = member.config.train.steps
    return "finished" if wanted in steps else "unfinished"


def train_missing(members: Sequence[Member], seeds: Sequence[int], runs: Path) -> None:
    """Train every run that is not finished, seed by seed; a run that was begun is continued."""
    for seed in seeds:
        for member in members:
            if state_of(member, seed, runs) != "finished":
                train(member.with_seed(seed), run_path(runs, member.name, seed), sys.argv)
