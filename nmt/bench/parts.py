"""The parts of a benchmark, by name."""

from nmt.errors import ConfigError

PARTS = {
    "training": "updates: tokens a second, beside the textbook's loop and the ceiling",
    "decoding": "greedy and beam search: sentences a second",
    "latency": "one sentence, the model being loaded",
    "memory": "the most memory that an update takes",
    "growth": "updates on longer and longer sentences, at the same number of tokens",
    "run": "a trained run: its test set, and one sentence from the shell",
}

_ALWAYS = ("training", "decoding", "latency", "memory")


def chosen_parts(given: list[str], with_run: bool) -> list[str]:
    """The parts to measure, in order; the main ones by default. Raises ConfigError."""
    for name in given:
        if name not in PARTS:
            raise ConfigError(f"part: got '{name}', allowed: {', '.join(PARTS)}")
    if "run" in given and not with_run:
        raise ConfigError("part 'run': give the run directory with `run`")
    wanted = set(given or _ALWAYS) | ({"run"} if with_run else set())
    return [name for name in PARTS if name in wanted]
