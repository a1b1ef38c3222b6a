"""The options of a search, and the config that they change."""

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
    Option(min=1, help="Translations per sentence.", show_default="the run's; of data the beam"),
]


@dataclass(frozen=True)
class SearchOptions:
    """How translations are searched for or drawn; None is the run's own."""

    beam: Annotated[
        int | None,
        Option("--beam", "-b", min=1, help="Beam size; 1 is greedy.", show_default="the run's"),
    ] = None
    length_penalty: Annotated[
        float | None,
        Option(min=0, help="0 is none; more favours long translations.", show_default="the run's"),
    ] = None
    mbr: Annotated[
        int | None,
        Option(
            min=1,
            help="Draw N translations and take the one most like all of them (search.mbr).",
            show_default="the run's",
        ),
    ] = None
    temperature: Annotated[
        float | None,
        Option(
            help="Draw translations, the logits divided by it: above 0, at most 100.",
        ),
    ] = None
    top_k: Annotated[int | None, Option(min=1, help="Draw among the K best pieces.")] = None
    top_p: Annotated[
        float | None,
        Option(help="Draw among the best of this share: above 0, at most 1."),
    ] = None
    seed: Annotated[
        int | None, Option(min=0, help="Draw with this seed.", show_default="the run's, or 1")
    ] = None
    must: Annotated[
        list[str] | None,
        Option(help="A word that translations have; may be repeated."),
    ] = None
    must_not: Annotated[
        list[str] | None,
        Option(help="A word that none has; may be repeated."),
    ] = None

    def keys(self) -> dict[str, object]:
        """Return the keys of SearchConfig that the flags set."""
        sections = {"mbr": "mbr.samples"}
        sections |= {name: f"sampling.{name}" for name in ("temperature", "top_k", "top_p", "seed")}
        flags = {sections.get(name, name): value for name, value in vars(self).items()}
        return {key: value for key, value in flags.items() if value not in (None, [])}


def with_search(
    run: "TrainedRun", keys: Mapping[str, object], overrides: Sequence["Override"]
) -> "TrainedRun":
    """Return the run with its search changed by overrides, and then by flags, the `keys`.

    A beam below the run's own `n_best` lowers that to the beam. Raises ConfigError for a value
    that the config does not allow, and for a key outside `search`.
    """
    for override in overrides:
        if not override.key.startswith("search."):
            raise ConfigError(f"{override.origin}: got another key, allowed here: search.*")
    changes: dict[str, Any] = {key: value for key, value in keys.items() if value is not None}
    default = run.config.search
    beam, n_best = changes.get("beam", default.beam), changes.get("n_best")
    if "beam" in changes and n_best is None and default.n_best > beam:
        changes["n_best"] = beam
    run = run.with_config([*overrides, *overrides_of("search", changes)])
    if "beam" in changes and run.config.search.draws:
        raise ConfigError(
            f"--beam: got {beam} for translations that are drawn; leave it out, or draw none "
            "(search.mbr=null, search.sampling=null)"
        )
    return run
