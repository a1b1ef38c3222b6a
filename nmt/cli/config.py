"""`nmt config`: what a config may say, what one says, and whether it is right."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.config_option import ConfigArgument, ConfigOption, SetKeys, one_config
from nmt.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="List, check, show and document configs.")


@app.command()
def show(
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    overrides: SetKeys = None,
) -> None:
    """Print the config with every default filled in, as a run would save it."""
    from nmt.config import dump_config, load_config

    loaded = load_config(one_config(config_argument, config), overrides or ())
    typer.echo(dump_config(loaded), nl=False)


@app.command("list")
def list_recipes() -> None:
    """List the recipes that come with nmt, by the names that --config takes."""
    from nmt.config import recipes

    typer.echo("\n".join(recipes()))


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Configs, YAML files.", show_default=False)],
) -> None:
    """Say of each config whether it is right; exit code 2 if one is not."""
    from nmt.config import load_config

    faults = []
    for file in files:
        try:
            load_config(file)
        except ConfigError as error:
            faults.append(str(error))
        else:
            typer.echo(f"{file}: right")
    if faults:
        raise ConfigError("\n".join(faults))


@app.command()
def schema() -> None:
    """Print the JSON Schema of a config, for editors that check YAML."""
    from nmt.config_docs import json_schema

    typer.echo(json_schema(), nl=False)


@app.command()
def docs() -> None:
    """Print the reference of all keys in Markdown (docs/configuration.md)."""
    from nmt.config_docs import reference

    typer.echo(reference(), nl=False)
