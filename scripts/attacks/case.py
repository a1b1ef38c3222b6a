"""One attack: a change to a folder, and the command to run on it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

TRAIN = ("train", "--config", "attack.yaml", "--run", "run", "--steps", "6")
TRANSLATE = ("translate", "--run", "run", "--checkpoint", "last", "--file", "some.txt")
EVAL = ("eval", "--run", "run", "--no-bootstrap")
ATTENTION = ("attention", "--run", "run", "--file", "some.txt", "--format", "text")
COMMANDS = (TRAIN, TRANSLATE, EVAL, ATTENTION)
"""In a scratch folder, whose run has made 4 updates."""

CHECKPOINT = Path("run/checkpoints/step-000004")


class Expected(Enum):
    """The required outcome of a case, besides that nothing breaks."""

    NOTHING = "nothing more"
    REFUSED = "an error, or a word about the file"
    SAME = "the result of a clean run, an error, or a word about the file"
    KEPT = "every file that was there as it was, those of the run too; new ones are allowed"
    ESCAPED = "`evil`, on a terminal, without what would steer it"


@dataclass(frozen=True)
class Case:
    """`prepare` is called in the scratch folder; a warning would contain one of `about`."""

    what: str
    command: tuple[str, ...]
    prepare: Callable[[], object]
    expected: Expected = Expected.NOTHING
    about: tuple[str, ...] = ()
    kind: str = "word"
    stdin: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)
