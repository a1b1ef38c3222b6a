"""The report of a benchmark as lines of text."""

from collections.abc import Sequence

from nmt.bench.load import describe_load
from nmt.bench.speed_report import Profile, Report, Row, Section


def as_text(report: Report) -> list[str]:
    """The lines of a report: the machine, the sections, the profile."""
    card = report.machine
    lines = [
        "{cpu}, {device}, torch {torch}, nmt {nmt}, {date}".format_map(card),
        f"backend: {card['backend']}",
        ", ".join(f"{key} {value}" for key, value in report.settings.items()),
    ]
    for section in report.sections:
        lines += ["", *_section(section)]
    if report.profile is not None:
        lines += ["", *_profile(report.profile)]
    return lines


def _section(section: Section) -> list[str]:
    title = f"{section.title}, {section.unit}"
    rows = [_row(row, section.clean) for row in section.rows]
    title += f"  ({describe_load(section.others)})" if section.timed else ""
    return [title, *_columns(rows), *(f"  {note}" for note in section.notes)]


def _row(row: Row, clean: bool) -> list[str]:
    also = ", ".join(f"{_number(value)} {unit}" for unit, value in row.also.items())
    return [
        row.what,
        _number(row.value),
        f"{_number(row.low)} to {_number(row.high)}" if row.low != row.high else "",
        "" if row.ratio is None else f"{row.ratio:.2f} x",
        "" if row.ceiling is None else f"{100 * row.ceiling:.0f} % of the ceiling",
        also,
        "" if clean else "not clean",
    ]


def _profile(profile: Profile) -> list[str]:
    rows = [["operation", "ms", "share", "calls"]]
    for row in profile.rows:
        figures = f"{row.milliseconds:.2f}", f"{100 * row.share:.1f} %", f"{row.calls:,.0f}"
        rows.append([row.operation, *figures])
    return [f"profile, {profile.title}  ({describe_load(profile.others)})", *_columns(rows)]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns: names to the left, numbers to the right; empty columns are left out."""
    used = [i for i in range(len(rows[0])) if any(row[i] for row in rows)]
    widths = {i: max(len(row[i]) for row in rows) for i in used}

    def cell(row: Sequence[str], i: int) -> str:
        return row[i].rjust(widths[i]) if 0 < i < 4 else row[i].ljust(widths[i])

    return [("  " + "  ".join(cell(row, i) for i in used)).rstrip() for row in rows]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
