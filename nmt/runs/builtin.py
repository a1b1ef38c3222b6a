"""The models that come with nmt: packed runs in nmt/builtin, which commands accept by name."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "builtin"

DEFAULT = "everyday-en-fr"
"""The model that translates if no run is named and none has been trained."""


def builtin_runs() -> dict[str, Path]:
    """Return the packed runs that come with nmt, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.zip"))}


def resolve(run: Path) -> Path:
    """Return the packed run of a built-in model, or `run` if it exists or names no such model."""
    return run if run.exists() else builtin_runs().get(str(run), run)
