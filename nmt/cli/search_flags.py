"""How commands lay their search flags over what a run's config says."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nmt.cli.config_option import flag_override
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.config import RunConfig
    from nmt.settings.config_file import Override

_USUAL_BEAMS = "5 to 12"
_WIDE_BEAM = 100  # from here on a search may take minutes without a word


def check_search_keys(overrides: Sequence["Override"]) -> None:
    """Raise ConfigError for an override whose key is outside `search`."""
    for override in overrides:
        if not override.key.startswith("search."):
            raise ConfigError(f"{override.origin}: got another key, allowed here: search.*")


def config_of_run(
    run: Path, flags: Mapping[str, int | float | None], overrides: Sequence["Override"] = ()
) -> "RunConfig":
    """The run's config, where `--set` and then the flags that are given, by their keys, set its
    search.

    A beam that is too small for the run's own `n_best` lowers that. Raises ConfigError for a value
    that the config does not allow, and for a key outside `search`.
    """
    check_search_keys(overrides)

    from nmt.runs.directory import RunDirectory

    given = {key: value for key, value in flags.items() if value is not None}
    default = RunDirectory(run).load_config().search
    beam, n_best = given.get("beam", default.beam), given.get("n_best")
    if n_best is not None and n_best > beam and not overrides:
        raise ConfigError(
            f"--n-best: got {n_best}, allowed: 1 to {beam}, the beam; give --beam too"
        )
    if "beam" in given and n_best is None and default.n_best > beam:
        given["n_best"] = beam
    flagged = [flag_override(f"search.{key}", value) for key, value in given.items()]
    found = RunDirectory(run).load_config([*overrides, *flagged])
    if found.search.beam > _WIDE_BEAM:
        typer.echo(
            f"beam {found.search.beam:,}: time and memory grow with it; translation gains little "
            f"beyond {_USUAL_BEAMS}",
            err=True,
        )
    return found
