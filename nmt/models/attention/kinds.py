"""Every kind of attention by its config; to add one: its class, and its name in the union.

A score goes into the union of `scores.py`, so that it works within heads too.
"""

from typing import Annotated

from pydantic import Field

from nmt.models.attention.multi_head import MultiHeadConfig
from nmt.models.attention.no_attention import NoAttentionConfig
from nmt.models.attention.scores import ScoreKind

AttentionConfig = Annotated[
    ScoreKind | MultiHeadConfig | NoAttentionConfig, Field(discriminator="kind")
]
