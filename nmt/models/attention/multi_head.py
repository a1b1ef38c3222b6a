"""Several attentions side by side, each in a subspace of its own."""

from collections.abc import Iterator
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from nmt.models.attention.base import Attention
from nmt.models.attention.options import AttentionOptions
from nmt.models.attention.scores import ScaledDotConfig, ScoreKind
from nmt.ops.backend import BackendName
from nmt.settings.base import Conflict, conflict_error


class MultiHeadConfig(AttentionOptions):
    """Multi-head attention (Vaswani et al. 2017): h attentions over projections of size d / h."""

    kind: Literal["multi_head"] = "multi_head"
    heads: int = Field(default=8, gt=0, description="h: how many attentions there are")
    size: int | None = Field(
        default=None,
        gt=0,
        description="d: units of all heads together, a multiple of `heads`; unset: as many as "
        "the query has",
    )
    over: Annotated[ScoreKind, Field(discriminator="kind")] = Field(
        default=ScaledDotConfig(), description="the score within a head; its options stand here"
    )

    @model_validator(mode="after")
    def _options_stand_outside(self) -> "MultiHeadConfig":
        conflicts = [
            (f"over.{name}", f"belongs to the heads together: give it as {name}, beside over")
            for name, field in AttentionOptions.model_fields.items()
            if name != "kind" and getattr(self.over, name) != field.default
        ]
        if self.size is not None:
            conflicts += self._division(self.size, "size")
        if conflicts:
            raise conflict_error(conflicts)
        return self

    def _division(self, size: int, key: str) -> Iterator[Conflict]:
        if size % self.heads:
            yield (
                key,
                f"{self.heads} heads do not divide {size} units: give a size that is a multiple "
                "of heads",
            )

    def module(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        """See AttentionOptions."""
        return MultiHeadAttention(self, query_size, memory_size, backend)

    def conflicts(self, query_size: int, memory_size: int) -> Iterator[Conflict]:
        """The heads must divide the query's size where no size is given."""
        if self.size is None:
            yield from self._division(query_size, "heads")


class MultiHeadAttention(Attention):
    """context = W_o [head_1; ...; head_h], head_i = attention(W_q_i q, W_k_i k, W_v_i k).

    arXiv 1706.03762, section 3.2.2. The heads share one score, whose own weights, if any, are
    the same in every head; they are computed together, as so many more sentences. W_o gives
    back an annotation's size, so that a decoder need not know how many heads there are.
    """

    sums_annotations = False

    def __init__(
        self,
        config: MultiHeadConfig,
        query_size: int,
        memory_size: int,
        backend: BackendName = "auto",
    ) -> None:
        size = config.size or query_size
        assert size % config.heads == 0
        inner = config.over.module(size // config.heads, size // config.heads, backend)
        super().__init__(key_size=config.heads * inner.key_size, backend=backend)
        self.n_heads = config.heads
        self.inner = inner
        self.W_q = nn.Linear(query_size, size, bias=False)
        self.W_k = nn.Linear(memory_size, size, bias=False)
        self.W_v = nn.Linear(memory_size, size, bias=False)
        self.W_o = nn.Linear(size, memory_size, bias=False)

    @property
    def head_names(self) -> tuple[str, ...]:
        """head 1 to head h."""
        return tuple(f"head {i + 1}" for i in range(self.n_heads))

    def project(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S K"]:
        """The keys of every head, one beside the other."""
        keys = self.inner.project(split_heads(self.W_k(values), self.n_heads))
        return join_heads(keys, self.n_heads)

    def carry(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S C"]:
        """W_v k for every annotation, the heads side by side."""
        carried: Tensor = self.W_v(values)
        return carried

    def score(
        self, query: Float[Tensor, "B Q H"], keys: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B N Q S"]:
        """The scores of every head."""
        scores = self.inner.score(
            split_heads(self.W_q(query), self.n_heads), split_heads(keys, self.n_heads)
        )
        return scores.view(-1, self.n_heads, *scores.shape[1:])

    def mix(
        self, heads: Float[Tensor, "B N Q S"], values: Float[Tensor, "B S C"]
    ) -> Float[Tensor, "B Q M"]:
        """W_o over the heads' sums."""
        sums = torch.bmm(heads.flatten(0, 1), split_heads(values, self.n_heads))
        context: Tensor = self.W_o(join_heads(sums, self.n_heads))
        return context


def split_heads(x: Float[Tensor, "B S C"], n_heads: int) -> Float[Tensor, "R S P"]:
    """Each head's share of the last dimension as a sentence of its own, R = B N, P = C / N."""
    return x.view(*x.shape[:2], n_heads, -1).transpose(1, 2).flatten(0, 1)


def join_heads(x: Float[Tensor, "R S P"], n_heads: int) -> Float[Tensor, "B S C"]:
    """The inverse of split_heads."""
    return x.view(-1, n_heads, *x.shape[1:]).transpose(1, 2).flatten(2)
