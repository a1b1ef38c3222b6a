"""The union of all attention configs. To add a type, write its config and add it to the union.

Add a new score to the union in `scores.py` instead, so that it also works in multi-head attention.
"""

from typing import Annotated

from pydantic import Field

from nmt.models.attention.multi_head import MultiHeadConfig
from nmt.models.attention.no_attention import NoAttentionConfig
from nmt.models.attention.scores import ScoreKind

AttentionConfig = Annotated[
    ScoreKind | MultiHeadConfig | NoAttentionConfig, Field(discriminator="kind")
]
