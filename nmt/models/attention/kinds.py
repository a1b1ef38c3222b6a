"""The union of all attention configs. To add a type, write its class and name it in the union.

A new score goes into the union of `scores.py`, so that it also works within multi-head attention.
"""

from typing import Annotated

from pydantic import Field

from nmt.models.attention.multi_head import MultiHeadConfig
from nmt.models.attention.no_attention import NoAttentionConfig
from nmt.models.attention.scores import ScoreKind

AttentionConfig = Annotated[
    ScoreKind | MultiHeadConfig | NoAttentionConfig, Field(discriminator="kind")
]
