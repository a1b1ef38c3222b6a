"""Options that many commands share, named once, and groups of them as dataclasses.

A command takes a group by one parameter whose type is the dataclass; `with_options` expands it.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from nmt.errors import ConfigError
from nmt.names import AttributionMethod
from nmt.settings.recipes import recipes

if TYPE_CHECKING:
    from nmt.config import RunConfig
    from nmt.settings.config_file import Override

Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only errors on stderr.")]
Force = Annotated[bool, Option("--force", help="Replace files that exist.")]


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return `function` with a flag for each field of each dataclass among its parameters.

    Each command also gets --quiet, and --force if it writes a file; the class Command implements
    both. Example: `def score(source: ..., *, models: ModelOptions)` has --run, --device and so on.
    A text is the help of an option: `per_piece: Annotated[bool, "Divide by the number of pieces."]`
    A second text is the default that the help shows, such as `the run's`.
    """
    groups: dict[str, Any] = {}
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            parameters.update(inspect.signature(groups[name]).parameters)
        else:
            parameters[name] = parameter
    parameters = {name: _as_option(parameter) for name, parameter in parameters.items()}
    keyword = inspect.Parameter.KEYWORD_ONLY
    infos = [getattr(p.annotation, "__metadata__", (None,))[0] for p in parameters.values()]
    is_writer = any(info and info.writable and info.file_okay for info in infos)
    flags = {"force": Force, "quiet": Quiet} if is_writer else {"quiet": Quiet}
    extra_flags = [name for name in flags if name not in parameters]
    for name in extra_flags:
        parameters[name] = inspect.Parameter(name, keyword, default=False, annotation=flags[name])

    @functools.wraps(function)
    def run(**values: Any) -> None:
        for name in extra_flags:
            del values[name]
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        function(**values)

    ordered = [parameter.replace(kind=keyword) for parameter in parameters.values()]
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    return run


def _as_option(parameter: inspect.Parameter) -> inspect.Parameter:
    """Turn the texts in an annotation into an Option. A bool gets no second flag --no-NAME."""
    kind = parameter.annotation
    help, *shown = getattr(kind, "__metadata__", (None,))
    if not isinstance(help, str):
        return parameter
    flag = f"--{parameter.name.replace('_', '-')}"
    option = Option(flag, help=help, show_default=shown[0] if shown else True)
    return parameter.replace(annotation=Annotated[kind.__origin__, option])


def out_option(show_default: bool | str = True) -> Any:
    """Build --out for a file. Command lets it replace an existing file only with --force."""
    help = "File to write; - is stdout."
    return Option("--out", "-o", writable=True, help=help, show_default=show_default)


def language_option(side: str, show_default: str) -> Any:
    """Build an option for the ISO 639 code of a language."""

    def code(value: str | None) -> str | None:
        if value is None:
            return None
        from nmt.corpora.languages import check_language

        try:
            return check_language(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return Option(help=f"{side} language.", show_default=show_default, callback=code)


Json = Annotated[bool, Option("--json", help="Print JSON instead of text.")]
Threads = Annotated[int | None, Option(min=1, help="Threads of torch.", show_default="torch's own")]
Device = Annotated[str | None, "auto, cpu, cuda[:N] or mps.", "auto"]
Checkpoint = Annotated[str | None, "best, last, step-NNNNNN or a name.", "best"]
Int8 = Annotated[bool, Option("--int8", help="Multiply in 8-bit integers: faster on a CPU.")]
OutFile = Annotated[Path | None, out_option("stdout")]
Picture = Annotated[Path, out_option()]
OutFolder = Annotated[
    Path, Option("--out", "-o", file_okay=False, writable=True, help="Folder to write.")
]
Data = Annotated[Path, Option(envvar="NMT_DATA", help="Folder of named corpora.")]
SourceFile = Annotated[Path | None, "Source text, one sentence a line; - is stdin."]
Split = Annotated[str | None, "Split of the run's data: test, valid, train or another."]
GlossaryFile = Annotated[
    Path | None,
    "Terms: lines of source, tab, target; | separates forms; no target: copy.",
]
Run = Annotated[
    Path | None, "Run directory, packed run or built-in model.", "the newest with a model"
]
Runs = Annotated[
    list[Path] | None,
    "Run directory, packed run or built-in model; may be repeated.",
    "the newest with a model",
]
MaxRatio = Annotated[
    float, Option(min=0, help="Maximum length ratio, with 10 characters of slack; 0: no limit.")
]
First = Annotated[int | None, Option(min=1, help="Only the first N.")]
NBest = Annotated[
    int | None, Option(min=1, help="Translations per sentence.", show_default="the run's")
]


def set_option(what: str, example: str) -> Any:
    """Build the option --set for the keys of `what`, with an example. It parses Overrides."""

    def override(text: str) -> "Override":
        from nmt.settings.config_file import Override  # pydantic takes a while to import

        return Override.parse(text, f"--set {text}")

    help = f"Set {what}, as in {example}; may be repeated."
    return Option("--set", metavar="KEY=VALUE", help=help, parser=override)


def numbers_option(help: str, show_default: str) -> Any:
    """Build an option for a list of numbers separated by commas."""

    def numbers(text: str) -> Sequence[float]:
        try:
            return [float(part) for part in text.split(",")]
        except ValueError:
            raise typer.BadParameter(f"got {text}, allowed: numbers between commas") from None

    return Option(help=help, show_default=show_default, metavar="X,X", parser=numbers)


Method = Annotated[
    AttributionMethod,
    "Method that scores how much each source piece explains each translated piece.",
]

SetKeys = Annotated[list[Any] | None, set_option("a key of the config", "search.beam=5")]
"""Commands that do not train accept only keys of `search` (ComputeOptions.with_search)."""


@dataclass(frozen=True)
class ConfigOptions:
    """A config, as an argument or by --config, and --set, which changes its keys."""

    config_argument: Annotated[
        Path | None, Argument(metavar="CONFIG", help="The same as --config.")
    ] = None
    config: Annotated[
        Path | None,
        Option(
            "--config",
            "-c",
            help="YAML file that describes the run, or the name of a recipe (nmt config list).",
        ),
    ] = None
    set_: SetKeys = None

    @property
    def path(self) -> Path:
        """The file or recipe. Raises ConfigError if none is given, or two different ones."""
        path = _one("--config", self.config_argument, self.config)
        if path is None:
            names = ", ".join(name for name in recipes() if "/" not in name)
            raise ConfigError(
                "--config is missing: give a YAML file, or the name of a recipe that comes with "
                f"nmt: {names} (nmt config list shows all)"
            )
        return path

    def load(self, *more: "Override") -> "RunConfig":
        """Load the config with --set and then `more` applied. Raises as `load_config` does."""
        from nmt.config import load_config

        return load_config(self.path, [*(self.set_ or ()), *more])


def _one(flag: str, argument: Path | None, option: Path | None) -> Path | None:
    if argument is not None and option is not None and argument != option:
        raise ConfigError(f"{flag}: got {option} and also {argument}, allowed: one of them")
    return option or argument


@dataclass(frozen=True)
class RunOption:
    """One run, as an argument or by --run."""

    run_argument: Annotated[Path | None, Argument(metavar="RUN", help="The same as --run.")] = None
    run: Run = None

    @property
    def path(self) -> Path | None:
        """The path of the run, or None for the newest. Raises ConfigError if two paths differ."""
        return _one("--run", self.run_argument, self.run)
