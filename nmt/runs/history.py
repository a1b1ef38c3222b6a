"""The trainings of a run, kept in run.json: each command, from which step, and how it ended."""

import datetime
from collections.abc import Mapping, Sequence

from pydantic import Field, ValidationError

from nmt.errors import CheckpointError
from nmt.runs.card import CARD
from nmt.runs.directory import RunDirectory
from nmt.settings.base import Config
from nmt.settings.messages import first_fault
from nmt.storage.atomic import write_json

TRAININGS = "trainings"
"""The key of run.json."""


class Training(Config):
    """One call that trained a run, from its first update to its last. Times are ISO 8601, UTC.

    `ended`, `step` and `how` are unset while it runs, and for ever if it was killed.
    """

    command: tuple[str, ...] = ()
    started: str
    from_step: int = Field(ge=0)
    ended: str | None = None
    step: int | None = Field(default=None, ge=0)
    how: str | None = None


def read_card(run: RunDirectory) -> dict[str, object]:
    """The content of run.json. Raises CheckpointError if it is missing or damaged."""
    card = run.read_json(CARD)
    if not isinstance(card, dict):
        raise CheckpointError(f"{run.path / CARD}: damaged: not a JSON object")
    return card


def trainings(card: Mapping[str, object], run: RunDirectory) -> list[Training]:
    """The trainings in the card of `run`, oldest first. Raises CheckpointError if damaged."""
    where = run.path / CARD
    entries = card.get(TRAININGS, [])
    if not isinstance(entries, list):
        raise CheckpointError(f"{where}: damaged: {TRAININGS}: not a list")
    try:
        return [Training.model_validate(entry) for entry in entries]
    except ValidationError as error:
        raise CheckpointError(f"{where}: damaged: {TRAININGS}: {first_fault(error)}") from None


def begin_training(run: RunDirectory, command: Sequence[str], from_step: int) -> None:
    """Note that a training begins now, after `from_step` updates. The caller holds the lock."""
    card = read_card(run)
    new = Training(command=tuple(command), started=_now(), from_step=from_step)
    _write(run, card, [*trainings(card, run), new])


def end_training(run: RunDirectory, step: int, how: str) -> None:
    """Note that the training begun last ends now, after `step` updates; `how` is a phrase."""
    card = read_card(run)
    *earlier, last = trainings(card, run)
    ended = last.model_copy(update={"ended": _now(), "step": step, "how": how})
    _write(run, card, [*earlier, ended])


def _write(run: RunDirectory, card: Mapping[str, object], entries: Sequence[Training]) -> None:
    content = {**card, TRAININGS: [entry.model_dump(mode="json") for entry in entries]}
    write_json(run.path / CARD, content)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
