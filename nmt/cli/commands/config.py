"""`nmt config`: list recipes, check configs, and show a config with its defaults."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from nmt.cli.shared.flags import with_flags
from nmt.cli.shared.options import ConfigOptions
from nmt.errors import ConfigError
from nmt.settings.recipes import recipes


def show(*, config: ConfigOptions) -> None:
    """Print a config with every default filled in."""
    run_config = config.load()
    from nmt.config import dump_config

    typer.echo(dump_config(run_config), nl=False)


def list_() -> None:
    """List the recipes that come with nmt. --config accepts their names."""
    typer.echo("\n".join(recipes()))


def check(files: Annotated[list[Path], Argument(help="Config files, in YAML.")]) -> None:
    """Check configs; exit with code 2 if one is invalid.

    Reports the errors that would stop `nmt train` at its start. The text files must exist,
    and splits from files of up to 50 MB are read. Named corpora need not be on disk.
    """
    from nmt.config import load_config
    from nmt.corpora.corpora import check_corpora
    from nmt.evaluation.metrics import check_scoring

    faults = []
    for file in files:
        try:
            config = load_config(file)
        except ConfigError as error:
            faults.append(str(error))
            continue
        try:
            notes = check_corpora(config.data)
            check_scoring(config)
        except ConfigError as error:
            faults.extend(f"{file}: {line}" for line in str(error).split("\n"))
        else:
            message = f"{file}: valid" + "".join(f", but {line}" for line in notes)
            typer.echo(with_flags(message, {"from_path": "--from"}))
    if faults:
        raise ConfigError("\n".join(faults))
