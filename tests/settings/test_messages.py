"""Faults of keys as lines, and how pydantic names their places."""

import time
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError, model_validator

from nmt.settings.base import Config, conflict_error
from nmt.settings.messages import Place, fault_lines


class Step(Config):  # its name is also a key of its section
    kind: Literal["step"] = "step"
    step: int = 1
    gamma: float = 0.5

    @model_validator(mode="after")
    def _agree(self) -> "Step":
        if self.gamma > self.step:
            raise conflict_error([("gamma", f"got {self.gamma}, more than step")])
        return self


class Flat(Config):
    kind: Literal["flat"] = "flat"


class Root(Config):
    file: Path | tuple[Path, ...] | None = None
    shape: Annotated[Step | Flat, Field(discriminator="kind")] = Flat()
    short: str = Field(default="abc", min_length=2)
    many: list[int] = Field(default=[], max_length=2)

    @model_validator(mode="after")
    def _agree(self) -> "Root":
        if self.short == "clash":
            raise conflict_error([("short", "is short"), ("shape.kind", "is odd")])
        if self.short == "plain":
            raise ValueError("the whole is odd")
        return self


def lines(tree: dict[str, object]) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        Root.model_validate(tree)
    places = {(): Place("f", 0), ("shape",): Place("f:2", 2), ("short",): Place("f:3", 3)}
    return fault_lines(caught.value.errors(), tree, places, Root)


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        ({"file": 3}, "f: file: got 3, allowed: a path or a list"),
        ({"shape": {"kind": "step", "gamma": 2}}, "f:2: shape.gamma: got 2.0, more than step"),
        (
            {"shape": {"gamma": 1}},
            "f:2: shape.kind: missing: the kind defines which keys the section has",
        ),
        ({"short": "x" * 80, "zzz": 1}, "f: zzz: unknown key, allowed here: file, shape, short"),
        ({"many": [1, 2, 3]}, "f: many: got [1, 2, 3]: list should have at most 2 items after"),
        ({"shape": 3}, "f:2: shape: got 3, allowed: a section of keys (kind, step, gamma)"),
        ({"short": "plain"}, "f: the whole is odd"),
    ],
)
def test_a_line_names_the_key_as_the_file_has_it(tree: dict[str, object], line: str) -> None:
    [shown] = lines(tree)
    assert shown.startswith(line)


def test_conflicts_are_lines_at_their_keys() -> None:
    assert lines({"short": "clash"}) == ["f:2: shape.kind: is odd", "f:3: short: is short"]


def test_of_many_faults_the_first_are_told_and_the_rest_counted() -> None:
    tree: dict[str, object] = {f"odd{n}": 1 for n in range(20_000)}
    start = time.process_time()
    shown = lines({**tree, "short": "clash"})
    assert time.process_time() - start < 10  # a tenth of a second; each told, it is half a minute
    assert len(shown) == 21
    assert shown[0].startswith("f: odd0: unknown key")
    assert shown[-1] == "f: 19,980 more faults"
