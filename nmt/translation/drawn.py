"""A Translation that shows itself: in a notebook, or as a figure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt.types import Translation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nmt.explain.map_style import MapStyle
    from nmt.translation.heads import Head
    from nmt.translation.words import Level


class DrawnTranslation(Translation):
    """The result of a Translator: a Translation that can draw its attention.

    The values of `nmt.types` have no behaviour, and they lie below the maps.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The texts and the heat map of the best hypothesis by word, as notebooks show them."""
        from nmt.explain.static import translation_html

        return translation_html(self)

    def plot(
        self,
        rank: int = 0,
        level: "Level" = "word",
        heads: "Sequence[Head]" = (),
        style: "MapStyle | None" = None,
    ) -> "Figure":
        """The heat map of hypothesis `rank` as a matplotlib figure, by `word` or by `piece`.

        Without `heads` it is that of their mean; several make a grid (choose_heads in
        nmt.translation.heads). `style` has scale and numbers (nmt.explain.map_style.MapStyle).
        An empty source has no hypothesis: IndexError.
        """
        from nmt.explain.heatmap import draw_translation
        from nmt.explain.map_style import PLAIN
        from nmt.translation.heads import MEAN

        return draw_translation(self, rank, level, heads or (MEAN,), style or PLAIN)
