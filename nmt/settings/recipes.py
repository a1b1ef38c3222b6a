"""Recipes: configs that come with nmt, and are loaded by a name such as `family/dot`."""

from pathlib import Path

from nmt.errors import ConfigError, did_you_mean


def recipes() -> dict[str, Path]:
    """Return the files of the recipes by name, from the wheel or from a checkout's configs/."""
    package = Path(__file__).parents[1]
    wheel_folder = package / "recipes"
    folder = wheel_folder if wheel_folder.is_dir() else package.parent / "configs"
    recipes = {f.relative_to(folder).with_suffix("").as_posix(): f for f in folder.rglob("*.yaml")}
    return dict(sorted(recipes.items(), key=lambda named: ("/" in named[0], named[0])))


def config_path(path: Path) -> Path:
    """Return the file of the recipe called `path`, or `path` itself if it is not a recipe's name.

    The file may be missing. Raises ConfigError for a folder, or for an unknown name of a recipe.
    """
    files = recipes()
    if path.suffix and not path.exists():
        name = path.with_suffix("").as_posix().removeprefix("configs/")
        if name in files:
            raise ConfigError(f"{path}: no such file; the recipe that comes with nmt is '{name}'")
    if path.is_file() or (path.suffix and not path.is_dir()):
        return path
    if path.as_posix() in files:
        return files[path.as_posix()]
    inside = path / "config.yaml"
    if path.is_dir() and (path.suffix or not path.name or inside.is_file()):
        hint = f"; did you mean '{inside}'?" if inside.is_file() else ""
        raise ConfigError(f"{path}: got a folder, allowed: a YAML file{hint}")
    names_below = [name for name in files if path in Path(name).parents and path != Path()]
    names = names_below or [name for name in files if Path(name).parent == path.parent]
    if not names:
        return path
    problem = "a folder" if path.is_dir() else "no such file"
    hint = "" if names_below else did_you_mean(path.as_posix().lower(), names)
    raise ConfigError(
        f"{path}: {problem}, and not a recipe that comes with nmt: {', '.join(names)}{hint}"
    )
