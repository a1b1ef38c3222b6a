"""A Translation with an attention map for notebooks and matplotlib."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt.types import Translation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nmt.explain.map_style import MapStyle
    from nmt.translation.heads import Head
    from nmt.translation.words import Level


class DrawnTranslation(Translation):
    """The result of a Translator: a Translation that can draw its attention."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the texts and the word-level heat map of the best hypothesis, for notebooks."""
        from nmt.explain.static import translation_html

        return translation_html(self)

    def plot(
        self,
        rank: int = 0,
        level: "Level" = "word",
        heads: "Sequence[Head]" = (),
        style: "MapStyle | None" = None,
    ) -> "Figure":
        """Draw the heat map of hypothesis `rank` as a matplotlib figure.

        `level` is `word` or `piece`. `heads`, which nmt.translation.heads.choose_heads selects by
        name, have one map each in a grid; without them, the figure shows the mean over the heads.
        `style` is an nmt.explain.map_style.MapStyle. Raises IndexError if there is no such
        hypothesis, as for an empty source.
        """
        from nmt.explain.heatmap import draw_translation
        from nmt.explain.map_style import PLAIN
        from nmt.translation.heads import MEAN

        return draw_translation(self, rank, level, heads or (MEAN,), style or PLAIN)
