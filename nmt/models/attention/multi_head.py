"""Multi-head attention of recurrent decoders; a head may use any score that reads keys."""

from collections.abc import Iterator
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from nmt.models.attention.base import Attention
from nmt.models.attention.heads import join_heads, projected_value_norms, split_heads
from nmt.models.attention.options import AttentionOptions
from nmt.models.attention.scores import ScaledDotConfig, ScoreKind
from nmt.models.shapes import Annotations, Contexts, HeadScores, Keys, Queries, Values
from nmt.ops.backend import BackendName
from nmt.settings.base import Conflict


class MultiHeadConfig(AttentionOptions):
    """Multi-head attention (Vaswani et al. 2017): h attentions over projections of size d / h."""

    kind: Literal["multi_head"] = "multi_head"
    heads: int = Field(default=8, gt=0, description="h: the number of heads")
    size: int | None = Field(
        default=None,
        gt=0,
        description="d: total size of all heads, a multiple of `heads`; unset: the query's size",
    )
    bias: bool = Field(
        default=False,
        description="add a bias to each projection except the keys', whose bias softmax would "
        "cancel",
    )
    over: Annotated[ScoreKind, Field(discriminator="kind")] = Field(
        default=ScaledDotConfig(), description="the score within each head, and its options"
    )

    def _conflicts(self) -> Iterator[Conflict]:
        yield from super()._conflicts()
        for name, field in AttentionOptions.model_fields.items():
            if name != "kind" and getattr(self.over, name) != field.default:
                problem = f"applies to all heads, so set {name} next to over, not inside it"
                yield f"over.{name}", problem
        if self.size is not None:
            yield from self._division(self.size, "size")
        if self.over.kind == "location":
            problem = "'location' does not read keys, allowed within heads: a score that does"
            yield "over.kind", problem

    def _division(self, size: int, key: str) -> Iterator[Conflict]:
        n = self.heads
        if size % n:
            yield key, f"{n} heads: got a total size of {size}, allowed: a multiple of {n}"

    def build_core(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        return MultiHeadAttention(self, query_size, memory_size, backend)

    def conflicts(self, query_size: int, memory_size: int) -> Iterator[Conflict]:
        """Yield a conflict if `size` is unset and `heads` does not divide the query's size."""
        if self.size is None:
            yield from self._division(query_size, "heads")


class MultiHeadAttention(Attention):
    """context = W_o [head_1; ...; head_h], head_i = f_i(W_q_i q, W_k_i k, W_v_i v).

    arXiv 1706.03762, section 3.2.2; d2l.ai, section 11.5. f_i is attention with the score
    `config.over`. If the score has parameters, each head has parameters of its own. Otherwise one
    module computes all heads, as rows of a larger batch. W_o maps to the size of an annotation.
    """

    sums_annotations = False

    def __init__(
        self, config: MultiHeadConfig, query_size: int, memory_size: int, backend: BackendName
    ) -> None:
        size, n_heads = config.size or query_size, config.heads
        assert size % n_heads == 0
        head_size = size // n_heads
        scores = [config.over.build_core(head_size, head_size, backend) for _ in range(n_heads)]
        if not list(scores[0].parameters()):
            scores = scores[:1]
        super().__init__(key_size=n_heads * scores[0].key_size, backend=backend)
        self.n_heads = n_heads
        self.scores = nn.ModuleList(scores)
        self.W_q = nn.Linear(query_size, size, config.bias)
        self.W_k = nn.Linear(memory_size, size, bias=False)
        self.W_v = nn.Linear(memory_size, size, config.bias)
        self.W_o = nn.Linear(size, memory_size, config.bias)

    @property
    def head_names(self) -> tuple[str, ...]:
        return tuple(f"head {i + 1}" for i in range(self.n_heads))

    def project(self, values: Annotations) -> Keys:
        n = self.n_heads // len(self.scores)
        keys = [
            _as_heads(score.project(_as_sentences(share, n)), n)
            for score, share in self._in_shares(self.W_k(values))
        ]
        return torch.cat(keys, dim=-1)

    def project_values(self, values: Annotations) -> Values:
        return self.W_v(values)

    def score(self, query: Queries, keys: Keys) -> HeadScores:
        n = self.n_heads // len(self.scores)
        pairs = zip(self._in_shares(self.W_q(query)), self._in_shares(keys), strict=True)
        parts = [f.score(_as_sentences(q, n), _as_sentences(k, n)) for (f, q), (_, k) in pairs]
        return torch.cat([part.view(-1, n, *part.shape[1:]) for part in parts], dim=1)

    def value_norms(self, values: Values) -> Float[Tensor, "B N S"]:
        """Return ||W_o_n W_v_n v|| for each head n."""
        return projected_value_norms(split_heads(values, self.n_heads), self.W_o.weight)

    def _in_shares(
        self, x: Float[Tensor, "B S C"]
    ) -> Iterator[tuple[Attention, Float[Tensor, "B S P"]]]:
        """Yield each score module with its part of the last dimension of `x`."""
        for score, share in zip(self.scores, x.chunk(len(self.scores), dim=-1), strict=True):
            assert isinstance(score, Attention)
            yield score, share

    def mix(self, heads: HeadScores, values: Values) -> Contexts:
        sums = torch.bmm(heads.flatten(0, 1), _as_sentences(values, self.n_heads))
        return self.W_o(_as_heads(sums, self.n_heads))


def _as_sentences(x: Float[Tensor, "B S C"], n_heads: int) -> Float[Tensor, "R S P"]:
    """Return each head of each sentence as a row, R = B N, of size P = C / N."""
    return split_heads(x, n_heads).flatten(0, 1)


def _as_heads(x: Float[Tensor, "R S P"], n_heads: int) -> Float[Tensor, "B S C"]:
    return join_heads(x.view(-1, n_heads, *x.shape[1:]))
