"""Scores of a query and a key: additive, multiplicative, by distance or by position."""

import abc
from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from nmt.models.attention.base import AdditiveScore, Attention
from nmt.models.attention.options import AttentionOptions
from nmt.models.linear import Linear
from nmt.models.shapes import Annotations, Keys, Queries, Scores
from nmt.ops.backend import BackendName
from nmt.ops.reference import additive_scores
from nmt.settings.base import Conflict

_SIZE = "size of the hidden layer that compares query and key; unset: the size of the query"


class AdditiveConfig(AttentionOptions):
    """Additive attention (Bahdanau et al. 2015): w_v^T tanh(W_q q + W_k k)."""

    kind: Literal["additive"] = "additive"
    size: int | None = Field(default=None, gt=0, description=_SIZE)

    def build_core(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        return AdditiveAttention(query_size, memory_size, self.size or query_size, backend)


class _Additive(Attention):
    """Base class of attention with the score v^T tanh(W_q q + key)."""

    @abc.abstractmethod
    def additive_score(self) -> AdditiveScore: ...

    def score(self, query: Queries, keys: Keys) -> Scores:
        parts = self.additive_score()
        return additive_scores(parts.project_query(query), keys, parts.v)


class AdditiveAttention(_Additive):
    """score(q, k) = w_v^T tanh(W_q q + W_k k), without bias (arXiv 1409.0473, appendix A.1.2)."""

    def __init__(
        self, query_size: int, memory_size: int, size: int, backend: BackendName = "auto"
    ) -> None:
        super().__init__(key_size=size, backend=backend)
        self.W_q = Linear(query_size, size, bias=False, backend=backend)
        self.W_k = Linear(memory_size, size, bias=False, backend=backend)
        self.w_v = nn.Linear(size, 1, bias=False)

    def project(self, values: Annotations) -> Keys:
        return self.W_k(values)

    def additive_score(self) -> AdditiveScore:
        return AdditiveScore(self.W_q, self.W_q.weight, self.w_v.weight.squeeze(0))


class ConcatConfig(AttentionOptions):
    """Concat attention (Luong et al. 2015): v^T tanh(W [q; k]), additive with W = [W_q W_k]."""

    kind: Literal["concat"] = "concat"
    size: int | None = Field(default=None, gt=0, description=_SIZE)

    def build_core(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        return ConcatAttention(query_size, memory_size, self.size or query_size, backend)


class ConcatAttention(_Additive):
    """score(q, k) = v_a^T tanh(W_a [q; k]) (arXiv 1508.04025, section 3.1).

    W_a [q; k] is computed as W_q q + W_k k, and W_k k only once per sentence. Only the initial
    weights differ from additive attention: a wider matrix has a smaller initial variance.
    """

    def __init__(
        self, query_size: int, memory_size: int, size: int, backend: BackendName = "auto"
    ) -> None:
        super().__init__(key_size=size, backend=backend)
        self.query_size = query_size
        self.W_a = nn.Linear(query_size + memory_size, size, bias=False)
        self.v_a = nn.Linear(size, 1, bias=False)

    def project(self, values: Annotations) -> Keys:
        return nn.functional.linear(values, self.W_a.weight[:, self.query_size :])

    def additive_score(self) -> AdditiveScore:
        W_q, v = self.W_a.weight[:, : self.query_size], self.v_a.weight.squeeze(0)
        return AdditiveScore(lambda query: nn.functional.linear(query, W_q), W_q, v)


class _Product(Attention):
    """Base class of attention whose score is the dot product of query and key."""

    def score(self, query: Queries, keys: Keys) -> Scores:
        return torch.bmm(query, keys.transpose(1, 2))


class GeneralConfig(AttentionOptions):
    """Bilinear attention (Luong et al. 2015): q^T W k, for queries and keys of any size."""

    kind: Literal["general"] = "general"

    def build_core(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        return GeneralAttention(query_size, memory_size)


class GeneralAttention(_Product):
    """score(q, k) = q^T W_a k (arXiv 1508.04025, section 3.1)."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(key_size=query_size)
        self.W_a = nn.Linear(memory_size, query_size, bias=False)

    def project(self, values: Annotations) -> Keys:
        return self.W_a(values)


class _SameSizes(AttentionOptions):
    """Base class of configs whose score needs queries and annotations of the same size."""

    def conflicts(self, query_size: int, memory_size: int) -> Iterator[Conflict]:
        if query_size != memory_size:
            yield (
                "kind",
                f"'{self.kind}' needs queries and annotations of the same size: got {query_size} "
                f"(the decoder's hidden) and {memory_size} (the encoder's, summed over "
                "directions); set encoder.hidden, or use 'general', which allows different sizes",
            )


class DotConfig(_SameSizes):
    """Dot-product attention (Luong et al. 2015): q^T k, for equal sizes."""

    kind: Literal["dot"] = "dot"

    def build_core(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        return DotAttention(memory_size, scale=1.0)


class ScaledDotConfig(_SameSizes):
    """Scaled dot-product attention (Vaswani et al. 2017): q^T k / sqrt(d), for equal sizes."""

    kind: Literal["scaled_dot"] = "scaled_dot"

    def build_core(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        return DotAttention(memory_size, scale=memory_size**-0.5)


class DotAttention(_Product):
    """score(q, k) = scale q^T k.

    scale = 1 gives the dot score of arXiv 1508.04025. scale = 1 / sqrt(d) gives the score of arXiv
    1706.03762, equation 1, which has variance 1 if the components of q and k have variance 1.
    """

    def __init__(self, size: int, scale: float) -> None:
        super().__init__(key_size=size)
        self.scale = scale

    def project(self, values: Annotations) -> Keys:
        return values if self.scale == 1 else values * self.scale


class GaussianConfig(_SameSizes):
    """A Gaussian kernel with a learned width: Nadaraya-Watson regression as attention."""

    kind: Literal["gaussian"] = "gaussian"
    width: float | None = Field(
        default=None,
        gt=0,
        description="initial value of w, an inverse distance; unset: (2 size)^(-1/4), which gives "
        "scores of variance 1 if the components of query and key have variance 1",
    )

    def build_core(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        return GaussianAttention(memory_size, self.width or (2 * memory_size) ** -0.25)


class GaussianAttention(Attention):
    """score(q, k) = -(||q - k|| w)^2 / 2 (Nadaraya 1964, Watson 1964; d2l.ai, section 11.2).

    w = width exp(theta) is always positive; the parameter theta is initially 0.
    """

    def __init__(self, size: int, width: float) -> None:
        super().__init__(key_size=size)
        self.initial_width = width
        self.theta = nn.Parameter(torch.zeros(1))

    @property
    def width(self) -> Float[Tensor, " 1"]:
        return self.initial_width * self.theta.exp()

    def score(self, query: Queries, keys: Keys) -> Scores:
        """Return the scores, from ||q - k||^2 = ||q||^2 - 2 q^T k + ||k||^2."""
        squares = query.square().sum(-1).unsqueeze(2) + keys.square().sum(-1).unsqueeze(1)
        distances = squares - 2 * torch.bmm(query, keys.transpose(1, 2))
        return -distances.clamp(min=0) * self.width.square() / 2  # rounding may give less than 0


class CosineConfig(_SameSizes):
    """Cosine similarity times a learned scale (Graves et al. 2014), for equal sizes."""

    kind: Literal["cosine"] = "cosine"

    def build_core(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        return CosineAttention(memory_size)


class CosineAttention(Attention):
    """score(q, k) = beta q^T k / (|q| |k|) (arXiv 1410.5401, equations 5 and 6).

    A cosine lies in [-1, 1]. Without beta, no weight over S positions could exceed 1 / (1 + (S - 1)
    / e^2), which is 0.35 for S = 15. In the paper the controller emits a beta for each query. Here
    beta = sqrt(size) exp(theta) is one positive number for all queries. theta is initially 0, so
    that components of variance 1 give scores of variance 1.
    """

    def __init__(self, size: int) -> None:
        super().__init__(key_size=size)
        self.theta = nn.Parameter(torch.zeros(1))

    @property
    def scale(self) -> Float[Tensor, " 1"]:
        return self.key_size**0.5 * self.theta.exp()

    def project(self, values: Annotations) -> Keys:
        return _unit(values)

    def score(self, query: Queries, keys: Keys) -> Scores:
        return torch.bmm(_unit(query) * self.scale, keys.transpose(1, 2))


def _unit(x: Float[Tensor, "*L K"]) -> Float[Tensor, "*L K"]:
    """Return x / |x|. Norms below 1e-3 count as 1e-3, so that no gradient exceeds 1,000."""
    return nn.functional.normalize(x, dim=-1, eps=1e-3)


class LocationConfig(AttentionOptions):
    """Location attention (Luong et al. 2015), softmax(W q): scores do not read the annotations."""

    kind: Literal["location"] = "location"
    max_length: int = Field(
        default=101,
        gt=0,
        description="number of positions with a score, </s> included; later positions get no "
        "weight. Training uses only the first data.max_pieces + 1 positions",
    )

    def build_core(self, query_size: int, memory_size: int, backend: BackendName) -> Attention:
        return LocationAttention(query_size, self.max_length)


class LocationAttention(Attention):
    """score(q, s) = (W_a q)_s, where s is the position (arXiv 1508.04025, equation 8).

    As in the paper's footnote 6, a short sentence uses only the first rows of W_a, and positions
    after the last row get no weight. A key consists of the position's row of W_a and a number that
    is added to the score. The number is 0, or _NO_WEIGHT for positions after the last row.
    """

    def __init__(self, query_size: int, max_length: int) -> None:
        super().__init__(key_size=query_size + 1)
        self.max_length = max_length
        self.W_a = nn.Linear(query_size, max_length, bias=False)

    def project(self, values: Annotations) -> Keys:
        length = values.shape[1]
        rows = self.W_a.weight[:length]
        rows = nn.functional.pad(rows, (0, 0, 0, length - len(rows)))
        has_no_row = torch.arange(length, device=values.device) >= self.max_length
        summand = has_no_row.to(rows.dtype).unsqueeze(1) * _NO_WEIGHT
        return torch.cat([rows, summand], dim=1).expand(len(values), -1, -1)

    def score(self, query: Queries, keys: Keys) -> Scores:
        return torch.bmm(query, keys[..., :-1].transpose(1, 2)) + keys[..., -1].unsqueeze(1)


_NO_WEIGHT = -1e4  # finite in every dtype; its softmax weight is 0 next to any other score


ScoreKind = (
    AdditiveConfig
    | DotConfig
    | ScaledDotConfig
    | GeneralConfig
    | ConcatConfig
    | GaussianConfig
    | CosineConfig
    | LocationConfig
)
"""The configs of all scores. Every score that reads keys also works in multi-head attention."""
