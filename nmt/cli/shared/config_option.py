"""The options by which commands take a config, and keys to set in it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.settings.config_file import Override

ConfigArgument = Annotated[
    Path | None, Argument(metavar="CONFIG", help="The same as --config.", show_default=False)
]
ConfigOption = Annotated[
    Path | None,
    Option(
        "--config",
        "-c",
        help="YAML file that describes the run, or the name of a recipe (nmt config list).",
    ),
]


def set_option(what: str, example: str) -> Any:
    """The option --set, described alike in every command; its values are of type Override."""
    return Option(
        "--set",
        metavar="KEY=VALUE",
        help=f"Set {what}, as in {example}; may be repeated.",
        show_default=False,
        parser=_override,
    )


def _override(text: str) -> "Override":
    from nmt.settings.config_file import Override  # pydantic takes a while to import

    return Override.parse(text, f"--set {text}")


SetKeys = Annotated[list[Any] | None, set_option("a key of the config", "search.beam=5")]
"""A command that trains nothing takes keys of `search` only (search_flags.check_search_keys)."""


def one_config(argument: Path | None, option: Path | None) -> Path:
    """The config that is given, with or without `--config`. Raises ConfigError for none, or two."""
    chosen = option or argument
    if chosen is None:
        from nmt.settings.recipes import recipes

        raise ConfigError(
            "--config is missing: give a YAML file, or the name of a recipe that comes with nmt: "
            + ", ".join(recipes())
        )
    if argument is not None and argument != chosen:
        raise ConfigError(f"--config: got {option} and also {argument}, allowed: one of them")
    return chosen
