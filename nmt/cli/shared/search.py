"""Options of search and sampling, and the search config that they change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from nmt.cli.shared.flags import overrides_of
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.runs.trained_run import TrainedRun
    from nmt.settings.config_file import Override

NBest = Annotated[
    int | None,
    Option(min=1, help="Translations per sentence.", show_default="the run's; for data the beam"),
]


@dataclass(frozen=True)
class SearchOptions:
    """Options of search and sampling; None keeps the setting of the run."""

    beam: Annotated[
        int | None,
        Option("--beam", "-b", min=1, help="Beam size; 1 is greedy.", show_default="the run's"),
    ] = None
    length_penalty: Annotated[
        float | None,
        Option(
            min=0,
            help="Exponent of the length penalty: 0 is none, higher favours long translations.",
            show_default="the run's",
        ),
    ] = None
    mbr: Annotated[
        int | None,
        Option(
            min=1,
            help="Sample N translations and choose one by minimum Bayes risk (search.mbr).",
            show_default="the run's",
        ),
    ] = None
    temperature: Annotated[
        float | None,
        Option(help="Sample translations, with logits divided by this: above 0, at most 100."),
    ] = None
    top_k: Annotated[int | None, Option(min=1, help="Sample from the K likeliest pieces.")] = None
    top_p: Annotated[
        float | None,
        Option(help="Sample from the likeliest pieces up to this probability: above 0, at most 1."),
    ] = None
    seed: Annotated[
        int | None, Option(min=0, help="Seed of sampling.", show_default="the run's, or 1")
    ] = None
    must: Annotated[
        list[str] | None, Option(help="Word that every translation must contain; may be repeated.")
    ] = None
    must_not: Annotated[
        list[str] | None, Option(help="Word that no translation may contain; may be repeated.")
    ] = None

    def keys(self) -> dict[str, object]:
        """Return the keys of SearchConfig that the flags set, with their values."""
        sections = {"mbr": "mbr.samples"}
        sections |= {name: f"sampling.{name}" for name in ("temperature", "top_k", "top_p", "seed")}
        flags = {sections.get(name, name): value for name, value in vars(self).items()}
        return {key: value for key, value in flags.items() if value not in (None, [])}


def with_search(
    run: "TrainedRun", keys: Mapping[str, object], overrides: Sequence["Override"]
) -> "TrainedRun":
    """Return the run with its search config changed by overrides, then by the flags in `keys`.

    A None in `keys` changes nothing. If `beam` is set below the run's `n_best`, `n_best` becomes
    the beam. Raises ConfigError for an invalid value, or a key outside `search`.
    """
    for override in overrides:
        if not override.key.startswith("search."):
            raise ConfigError(f"{override.origin}: only keys of search.* can be set here")
    changes: dict[str, Any] = {key: value for key, value in keys.items() if value is not None}
    beam = changes.get("beam")
    if beam is not None and "n_best" not in changes and run.config.search.n_best > beam:
        changes["n_best"] = beam
    run = run.with_config([*overrides, *overrides_of("search", changes)])
    if beam is not None and run.config.search.draws:
        raise ConfigError(
            f"--beam: got {beam}, but translations are sampled; leave it out, or set no sampling "
            "(search.mbr=null, search.sampling=null)"
        )
    return run
