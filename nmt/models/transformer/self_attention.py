"""Self-attention, its masks, and the effect of the distance between positions on scores."""

from dataclasses import dataclass, replace

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nmt.models.shapes import HeadScores
from nmt.models.transformer.layer_config import LayerConfig
from nmt.models.transformer.multi_head import HeadVectors, KeyValues, MultiHead, attention_weights
from nmt.models.transformer.positions import RelativeConfig, rotate, sinusoids
from nmt.ops.masks import causal_keep, offsets, window_keep


@dataclass(frozen=True)
class SelfAttentionInputs:
    """The mask and positional data of one pass, computed once for all layers of a stack.

    `keep` is True where a key may be attended; None means everywhere. `distances` are row indices
    for RelativePositions, or None. `waves` are the `sinusoids` for `rotate`, or None.
    """

    keep: Bool[Tensor, "#B 1 #Q S"] | None
    distances: Int[Tensor, "Q S"] | None = None
    waves: Float[Tensor, "Q P"] | None = None


def encoder_attention_inputs(
    config: LayerConfig, x: Float[Tensor, "B S D"], keep: Bool[Tensor, "B S"]
) -> SelfAttentionInputs:
    """Return the padding mask and the positional data of an encoder's source.

    With `self_attention_window`, the mask also excludes the positions outside the window.
    """
    size, window = x.shape[1], config.self_attention_window
    mask = keep[:, None, None]
    if window is not None:
        mask = mask & window_keep(size, window, x.device)
    return _inputs(config, x, 0, 0, mask)


def decoder_attention_inputs(
    config: LayerConfig, x: Float[Tensor, "R T D"], first: int, past: int
) -> SelfAttentionInputs:
    """Return the causal mask and the positional data for T new target positions.

    `first` is the first of these positions. `past` is the number of earlier positions whose keys
    are cached, which is less than `first` if a window limits them.
    """
    # The last position may see all others, so a single new position needs no mask.
    mask = None
    if x.shape[1] > 1:
        mask = causal_keep(past, x.shape[1], x.device, config.self_attention_window)[None, None]
    return _inputs(config, x, first, past, mask, causal=True)


def _inputs(
    config: LayerConfig,
    x: Float[Tensor, "B Q D"],
    first: int,
    past: int,
    keep: Bool[Tensor, "#B 1 #Q S"] | None,
    causal: bool = False,
) -> SelfAttentionInputs:
    positions, n_queries = config.positions, x.shape[1]
    if isinstance(positions, RelativeConfig):
        distances = offsets(past, n_queries, x.device)
        limit = positions.max_distance
        return SelfAttentionInputs(keep, distances.clamp(-limit, 0 if causal else limit) + limit)
    if positions.kind == "rotary":
        waves = sinusoids(n_queries, config.head_size, first, x.device)
        return SelfAttentionInputs(keep, waves=waves.to(x))
    return SelfAttentionInputs(keep)


class RelativePositions(nn.Module):
    """Vectors a^K and a^V for the distance j - i of a key from its query (arXiv 1803.02155).

        e_ij = scale q_i^T (k_j + a^K_(j-i));  z_i = sum_j alpha_ij (v_j + a^V_(j-i))   (eq. 3, 4)

    Distances are clipped to `max_distance` (section 3.2), and to at most 0 in causal attention. The
    heads of a layer share the vectors. Products with q and sums of alpha are computed once per
    distance, so that no tensor of size Q S P is stored (section 3.3).
    """

    def __init__(self, config: RelativeConfig, head_size: int, causal: bool) -> None:
        super().__init__()
        n_distances = config.max_distance * (1 if causal else 2) + 1
        self.keys = nn.Embedding(n_distances, head_size)
        self.values = nn.Embedding(n_distances, head_size)

    def scores(self, query: HeadVectors, distances: Int[Tensor, "Q S"]) -> HeadScores:
        """Return q_i^T a^K_(j-i); `distances` are the row indices of a^K."""
        by_distance = query @ self.keys.weight.T
        return by_distance.gather(-1, distances.expand(*query.shape[:2], -1, -1))

    def mix(self, weights: HeadScores, distances: Int[Tensor, "Q S"]) -> HeadVectors:
        """Return sum_j alpha_ij a^V_(j-i)."""
        table = self.values.weight
        sums = weights.new_zeros(*weights.shape[:3], len(table))
        sums = sums.scatter_add(-1, distances.expand_as(weights), weights)
        return sums.to(table.dtype) @ table


class SelfAttention(nn.Module):
    """Attention of a sequence to itself: queries, keys and values come from one input."""

    def __init__(self, config: LayerConfig, causal: bool) -> None:
        super().__init__()
        self.multi_head = MultiHead(config.size, config.heads, dropout=config.attention_dropout)
        self.relative = None
        if isinstance(config.positions, RelativeConfig):
            self.relative = RelativePositions(config.positions, config.head_size, causal)

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        inputs: SelfAttentionInputs,
        past: KeyValues | None = None,
        with_weights: bool = False,
    ) -> tuple[Float[Tensor, "B Q D"], KeyValues, HeadScores | None]:
        """Return the result, the keys and values so far, and the weights if `with_weights`."""
        query, new = self.multi_head.split(self.multi_head.W_q(x)), self.multi_head.project(x)
        if inputs.waves is not None:
            query = rotate(query, inputs.waves)
            new = replace(new, keys=rotate(new.keys, inputs.waves))
        memory = new if past is None else past.concatenate(new)
        if self.relative is None:
            sums, weights = self.multi_head.attend(query, memory, inputs.keep, with_weights)
        else:
            sums, weights = self._attend_by_distance(query, memory, inputs)
        return self.multi_head.join(sums), memory, weights if with_weights else None

    def _attend_by_distance(
        self, query: HeadVectors, memory: KeyValues, inputs: SelfAttentionInputs
    ) -> tuple[HeadVectors, HeadScores]:
        assert self.relative is not None
        assert inputs.distances is not None
        bias = self.relative.scores(query, inputs.distances)
        weights = attention_weights(query, memory.keys, inputs.keep, self.multi_head.scale, bias)
        shares = self.multi_head.drop(weights)
        sums = shares.to(memory.values.dtype) @ memory.values
        return sums + self.relative.mix(shares, inputs.distances).to(sums.dtype), weights
