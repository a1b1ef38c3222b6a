"""Convert flags to config keys, and names in the library's messages to flags.

Messages from below cli/ name no flags. They put a parameter, or a key with a value, between
backquotes: `run`, `device=cpu`, `train.lr=3e-4`. The command line prints these as `--run`,
`--device cpu` and `--set train.lr=3e-4`.
"""

import re
from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.settings.config_file import Override

_QUOTED = re.compile(r"`([a-z_][a-z0-9_.]*)(?:=([^`]+))?`")


def overrides_of(section: str, flags: Mapping[str, object]) -> "list[Override]":
    """Return an override in `section` ("" is the top level) for each flag that is not None."""
    from nmt.settings.config_file import Override

    prefix = f"{section}." if section else ""
    return [Override(f"{prefix}{k}", v, _typed(k, v)) for k, v in flags.items() if v is not None]


def _typed(name: str, value: object) -> str:
    """Return a flag as the user typed it: --mbr 8 for mbr.samples, --top-k 5 for sampling.top_k."""
    flag = f"--{name.removeprefix('sampling.').partition('.')[0].replace('_', '-')}"
    values = value if isinstance(value, list) else [value]
    return flag if value is True else " ".join(f"{flag} {quote(str(item))}" for item in values)


def flags_of(command: Any) -> dict[str, str]:
    """Return the flags of a click command and its subcommands, by parameter name."""
    options = [option for option in command.params if option.param_type_name == "option"]
    flags = {option.name: max(option.opts, key=len) for option in options}
    for subcommand in getattr(command, "commands", {}).values():
        flags |= flags_of(subcommand)
    return flags


def with_flags(message: str, flags: Mapping[str, str]) -> str:
    """Replace the names of parameters and keys in backquotes in `message` by flags, if known."""

    def flag(quoted: re.Match[str]) -> str:
        name, value = quoted.groups()
        if "." in name and value is not None:
            return f"--set {name}={value}"
        if name not in flags:
            return quoted[0]
        return flags[name] if value is None else f"{flags[name]} {value}"

    return _QUOTED.sub(flag, message)
