"""Options of one name are read alike by all commands."""

from collections import defaultdict
from typing import Any

import typer
from cli.helpers import COMMAND, COMMANDS

from nmt.cli.shared.flags import flags_of

OF_THEIR_OWN = {
    *(("--format", f"nmt {name}") for name in ("translate", "attention", "export")),
    *(("--out", f"nmt {name}") for name in ("init", "augment", "lab")),  # a config, or folders
    ("--seed", "nmt lab"),
}
"""Options that take other values than the options of the same name in other commands."""


def test_options_of_one_name_read_alike() -> None:
    """Values of one kind, and one name of the parameter, by which errors find the option."""
    forms: dict[Any, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    flags: dict[str, set[str]] = defaultdict(set)
    for name, member in COMMANDS.items():
        for parameter, flag in flags_of(member).items():
            flags[parameter].add(flag)
        for option in member.params:
            flag = max(option.opts, key=len)
            if option.param_type_name == "option" and (flag, name) not in OF_THEIR_OWN:
                form = option.get_help_record(typer.Context(COMMAND))[0]
                forms[flag, option.multiple][form].append(name)
    assert {flag: dict(uses) for flag, uses in forms.items() if len(uses) > 1} == {}
    assert [names for names in flags.values() if len(names) > 1] == []
