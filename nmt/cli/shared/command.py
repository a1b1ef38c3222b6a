"""The class of all commands: each option at most once, help in plain words, errors with flags."""

import re
from collections import Counter
from typing import Any

from typer.core import TyperCommand

from nmt.cli.shared.flags import flags_of, with_flags
from nmt.cli.shared.messages import without_notes
from nmt.cli.shared.outputs import guarded_outputs
from nmt.cli.shared.process import raise_interrupts
from nmt.errors import NMTError

_TYPES = {
    **dict.fromkeys(("path", "list[Path]"), "PATH"),
    **dict.fromkeys(("str", "list[str]"), "TEXT"),
    **dict.fromkeys(("int", "int range"), "N"),
    **dict.fromkeys(("float", "float range"), "X"),
}
"""The placeholders in help for the types that Typer shows by their Python names."""


class Command(TyperCommand):
    """A command that refuses an option with one value if it is given twice."""

    # A context is click's class, or that of Typer's own copy of click, depending on its version.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments after the command's name."""
        _, _, parameters = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, times in Counter(parameters).items():
            takes_one = not (parameter.multiple or getattr(parameter, "is_flag", False))
            if times > 1 and takes_one and parameter.param_type_name == "option":
                name = max(parameter.opts, key=len)
                ctx.fail(f"{name}: given {times} times, allowed: once")
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def invoke(self, ctx: Any) -> object:
        """Run the command, without notes if it has --quiet.

        Its outputs replace none of its inputs, and other files only with --force. An error of the
        library comes out with flags for its parameters.
        """
        assert self.callback is not None
        raise_interrupts()
        try:
            with (
                without_notes(bool(ctx.params.get("quiet"))),
                guarded_outputs(self.callback, ctx.params),
            ):
                result: object = super().invoke(ctx)
        except NMTError as error:
            error.args = (with_flags(str(error), flags_of(ctx.find_root().command)),)
            raise
        return result

    def get_short_help_str(self, limit: int = 45) -> str:
        """The whole first sentence of the help; a list of commands wraps it."""
        return super().get_short_help_str(1000)  # characters: longer than any summary

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The options, then the arguments: NAME, or [NAME] where it may be left out."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece.strip("{}").replace("}", "").upper() for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the lines that describe arguments and options."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            parameters = [p for p in self.get_params(ctx) if p.param_type_name == kind]
            records = [record for p in parameters if (record := p.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl([_plain(*record, kind) for record in records])


def _plain(name: str, text: str, kind: str) -> tuple[str, str]:
    """A line of help without the Python names of types and without inequalities."""
    if kind == "argument":
        name = name.partition(" <")[0].upper()
    name = re.sub(r"<([^<>]*)>", lambda match: _TYPES.get(match[1], match[1]), name)
    text = re.sub(r"\[default: \((.*)\)(?=\]$|; )", r"[default: \1", text)
    text = re.sub(r"\b(\d+)<=x<=(\d+)\]$", r"\1 to \2]", text)
    return name, re.sub(r"\bx>=([\d.]+)\]$", r"at least \1]", text)
