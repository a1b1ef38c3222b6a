"""Base class of every section of a configuration."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

Conflict = tuple[str, str]
"""A key whose value contradicts other settings, and the description of the problem.

The key is relative to the validated section, such as `attention.kind`.
"""


class Config(BaseModel):
    """Base class of every configuration class: frozen, and unknown keys are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        if conflicts := list(self._conflicts()):
            raise conflict_error(conflicts)
        return self

    def _conflicts(self) -> Iterable[Conflict]:
        """Yield the conflicts between keys that are valid one by one."""
        return ()


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # no home, or no such user
        raise ValueError(f"got '{path}', no such home directory") from None


UserPath = Annotated[Path, AfterValidator(_expanded)]
"""A path from the user, in which `~` is expanded to the home folder."""


def conflict_error(conflicts: Sequence[Conflict]) -> PydanticCustomError:
    """Build the error that a model validator raises for `conflicts`, each shown at its key."""
    text = "; ".join(f"{key}: {problem}" for key, problem in conflicts)
    return PydanticCustomError("conflict", "{text}", {"text": text, "conflicts": list(conflicts)})
