"""Laws of the command line: options that are read alike everywhere, and are everywhere."""

import re
from collections import defaultdict
from typing import Any

import typer
from cli.helpers import COMMAND, members, nmt

from nmt.cli.shared.flags import flags_of

OF_THEIR_OWN = {
    *(("--format", f"nmt {name}") for name in ("translate", "attention", "export")),
    *(("--out", f"nmt {name}") for name in ("init", "augment", "lab")),  # a config, or folders
    ("--seed", "nmt lab"),
}
"""Options that take other values than the options of the same name in other commands."""

COMMANDS = {name: member for name, member in members() if not hasattr(member, "commands")}


def _options(of_command: Any) -> dict[str, Any]:
    return {
        max(parameter.opts, key=len): parameter
        for parameter in of_command.params
        if parameter.param_type_name == "option"
    }


def test_options_of_one_name_read_alike() -> None:
    """Values of one kind, and one name of the parameter, by which errors find the option."""
    forms: dict[Any, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    flags: dict[str, set[str]] = defaultdict(set)
    for name, member in COMMANDS.items():
        for parameter, flag in flags_of(member).items():
            flags[parameter].add(flag)
        for flag, option in _options(member).items():
            if (flag, name) not in OF_THEIR_OWN:
                form = option.get_help_record(typer.Context(COMMAND))[0]
                forms[flag, option.multiple][form].append(name)
    assert {flag: dict(uses) for flag, uses in forms.items() if len(uses) > 1} == {}
    assert [names for names in flags.values() if len(names) > 1] == []


def test_commands_have_the_shared_options() -> None:
    """And take a run or a config in one way: as an argument or by the option."""
    for name, member in COMMANDS.items():
        options = _options(member)
        assert "--quiet" in options, name
        if {"--device", "--checkpoint"} <= options.keys():
            assert {"--run", "--batch-size", "--threads", "--int8", "--set"} <= options.keys(), name
        arguments = {p.metavar: p for p in member.params if p.param_type_name == "argument"}
        for metavar, flag in (("RUN", "--run"), ("CONFIG", "--config")):
            if metavar in arguments:
                assert flag in options
                assert not arguments[metavar].required
        assert ("--config" in options) == ("CONFIG" in arguments)
    drawn = {"--temperature", "--top-k", "--top-p", "--seed", "--must", "--must-not", "--precision"}
    for name in ("translate", "attention", "augment"):
        assert drawn <= _options(COMMANDS[f"nmt {name}"]).keys()


def test_help_of_all_is_complete() -> None:
    """It cuts no summary in the list of commands, and names no file that a wheel lacks."""
    for name, _ in members():
        result = nmt(*name.split()[1:], "--help")
        assert not re.search(r"docs/|configs/|[a-z]\.\.\.\n", result.stdout), name
