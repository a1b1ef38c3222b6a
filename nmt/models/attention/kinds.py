"""Every kind of attention by its config; to add one: its class, and its name in this union."""

from typing import Annotated

from pydantic import Field

from nmt.models.attention.fixed import FixedConfig
from nmt.models.attention.multi_head import MultiHeadConfig
from nmt.models.attention.scores import (
    AdditiveConfig,
    ConcatConfig,
    DotConfig,
    GaussianConfig,
    GeneralConfig,
    ScaledDotConfig,
)

AttentionConfig = Annotated[
    AdditiveConfig
    | DotConfig
    | ScaledDotConfig
    | GeneralConfig
    | ConcatConfig
    | GaussianConfig
    | MultiHeadConfig
    | FixedConfig,
    Field(discriminator="kind"),
]
