"""Laws of the command line: options read alike everywhere, and what fits no command is one line."""

import re
from collections import defaultdict
from typing import Any

import typer
from cli.helpers import COMMAND, members, nmt

from nmt.cli.shared.flags import flags_of

OF_THEIR_OWN = {
    ("--set", "nmt lab"): "options of an experiment",
    ("--seed", "nmt lab"): "of an experiment, not of drawn translations",
    ("--name", "nmt init"): "of a run, not of a checkpoint",
    ("--metric", "nmt tune search"): "the one that the best setting is best in",
    ("--force", "nmt corpus fetch"): "fetches again, where others replace a file",
    ("--out", "nmt init"): "a config; its path is what stdout gets",
    ("--format", "nmt attention"): "formats of its own",
    ("--format", "nmt export"): "formats of its own",
    ("--format", "nmt translate"): "formats of texts",
    ("--file", "nmt translate"): "a document, too",
    ("--out", "nmt export"): "a folder, or a page's file",
    ("--heads", "nmt attention"): "shows self-attention too",
    ("--int8", "nmt runs pack"): "stores in 8 bits, where others multiply",
    ("--run", "nmt train"): "a folder to write, not a trained run",
}
"""Options whose object is another than that of the same name elsewhere, with the reason."""


EVERYTHING = dict(members())
COMMANDS = {name: member for name, member in EVERYTHING.items() if not hasattr(member, "commands")}


def _options(of_command: Any) -> dict[str, Any]:
    return {
        max(parameter.opts, key=len): parameter
        for parameter in of_command.params
        if parameter.param_type_name == "option"
    }


def test_options_of_one_name_read_alike() -> None:
    """Help, parameter, type; an option that is given several times may say so."""
    texts: dict[Any, dict[Any, list[str]]] = defaultdict(lambda: defaultdict(list))
    flags: dict[str, set[str]] = defaultdict(set)
    for name, member in COMMANDS.items():
        for parameter, flag in flags_of(member).items():
            flags[parameter].add(flag)
        for flag, option in _options(member).items():
            if (flag, name) not in OF_THEIR_OWN:
                folder = "folder" if option.help == "Folder to write." else ""
                reading = (option.help, option.get_help_record(typer.Context(COMMAND))[0])
                texts[f"{flag}{folder}", option.multiple][reading].append(name)
    assert {flag: dict(uses) for flag, uses in texts.items() if len(uses) > 1} == {}
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
                assert arguments[metavar].help == f"The same as {flag}."
                assert not arguments[metavar].required
        assert ("--config" in options) == ("CONFIG" in arguments)
    drawn = {"--temperature", "--top-k", "--top-p", "--seed", "--must", "--must-not", "--precision"}
    for name in ("translate", "eval", "attention", "augment"):
        assert drawn <= _options(COMMANDS[f"nmt {name}"]).keys()


def test_help_of_all_is_complete() -> None:
    """It cuts no summary in the list of commands, and names no file that a wheel lacks."""
    for name in EVERYTHING:
        result = nmt(*name.split()[1:], "--help")
        assert not re.search(r"docs/|configs/|[a-z]\.\.\.\n", result.stdout), name
