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
    first = members[0]
    for member in members:
        for section in (name for name in RunConfig.model_fields if name not in ("name", "model")):
            if getattr(member.config, section) != getattr(first.config, section):
                raise ConfigError(
                    f"{member.path}: {section} differs from {first.path}; recipes that are "
                    "compared may differ in name and model only"
                )
        if member.config.train.steps is None:
            raise ConfigError(f"{member.path}: train.steps: missing; the budget is in updates")
    return members


def run_path(runs: Path, name: str, seed: int) -> Path:
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
    is_finished = member.config.train.steps in run.checkpoint_folder.steps()
    return "finished" if is_finished else "unfinished"


def train_missing(members: Sequence[Member], seeds: Sequence[int], runs: Path) -> None:
    """Train every run that is not finished, seed by seed; a run that was begun is continued."""
    for seed in seeds:
        for member in members:
            if state_of(member, seed, runs) != "finished":
                train(member.with_seed(seed), run_path(runs, member.name, seed), sys.argv)
