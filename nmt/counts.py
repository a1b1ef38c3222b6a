"""Counts in words, for messages."""


def counted(number: int | float, noun: str) -> str:
    """`1 step`, `2 steps`, `1,500 steps`, `0.5 minutes`."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun if number == 1 else f'{noun}s'}"
