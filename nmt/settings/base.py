"""Base class of every section of a configuration."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


class Absent(Exception):  # noqa: N818 - no fault, and no AttributeError, which getattr would hide
    """A key was read that a config lacks: one put together of what is right in a faulty one."""


class Config(BaseModel):
    """Base of every configuration class: frozen, and unknown keys are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Asked for what is not there: raises Absent for a key (see settings/conflicts.py)."""
            if name in type(self).model_fields:
                raise Absent(name)
            return super().__getattr__(name)


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # no home, or no such user
        raise ValueError(f"got '{path}', no such home directory") from None


UserPath = Annotated[Path, AfterValidator(_expanded)]
"""A path as a user writes it: `~` is a home folder."""

Conflict = tuple[str, str]
"""The key (`attention.kind`, counted from the section that looks) where two settings disagree,
and what is wrong there."""


def conflict_error(conflicts: Sequence[Conflict]) -> PydanticCustomError:
    """For a config's validator to raise; each conflict is shown at the line of its key."""
    text = "; ".join(f"{key}: {problem}" for key, problem in conflicts)
    return PydanticCustomError("conflict", "{text}", {"text": text, "conflicts": list(conflicts)})
