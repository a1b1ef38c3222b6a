"""Base class of every section of a configuration."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


class Config(BaseModel):
    """Base of every configuration class: frozen, and unknown keys are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # no home, or no such user
        raise ValueError(f"got '{path}', no such home directory") from None


UserPath = Annotated[Path, AfterValidator(_expanded)]
"""A path as a user writes it: `~` is a home folder."""

Conflict = tuple[str, str]
"""A key at which settings contradict each other, and the problem in words.

The key is relative to the section that is validated, such as `attention.kind`.
"""


def conflict_error(conflicts: Sequence[Conflict]) -> PydanticCustomError:
    """The error for a model validator to raise; each conflict is shown at the line of its key."""
    text = "; ".join(f"{key}: {problem}" for key, problem in conflicts)
    return PydanticCustomError("conflict", "{text}", {"text": text, "conflicts": list(conflicts)})
