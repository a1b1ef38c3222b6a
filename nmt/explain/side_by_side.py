"""A picture of the maps of one sentence by several models."""

from collections.abc import Mapping
from dataclasses import replace

from matplotlib.figure import Figure

from nmt.explain.heatmap import draw_grids
from nmt.explain.map_style import PLAIN, MapStyle, NamedMap, map_grid
from nmt.translation.words import Level, attention_table, scale_end
from nmt.types import Translation


def draw_side_by_side(
    translations: Mapping[str, Translation], level: Level = "word", style: MapStyle = PLAIN
) -> Figure:
    """Draw the maps of one sentence by several models, each above its name, on one scale.

    Maps with the same labels are side by side. Others are one below the other.
    """
    tables = {name: attention_table(output, level=level) for name, output in translations.items()}
    if style.scale is None:
        greatest = max(float(table.weights.max(initial=0.0)) for table in tables.values())
        style = replace(style, scale=scale_end(greatest))
    groups: dict[tuple[tuple[str, ...], ...], list[NamedMap]] = {}
    for name, table in tables.items():
        groups.setdefault((table.rows, table.columns), []).append((table, name))
    grids = [
        map_grid(maps, translations[maps[0][1]].hypotheses[0].text, across=len(maps))
        for maps in groups.values()
    ]
    return draw_grids(grids, next(iter(translations.values())).src_text, style)
