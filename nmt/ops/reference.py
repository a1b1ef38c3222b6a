"""The definition of every operation, in plain torch with autograd's gradients.

Tests compare the values and gradients of all other implementations with these. Shapes: B sentences,
S source positions, T target steps, H hidden units, G = 3 H gates in the order [r; z; n], K key
size, M annotation size, V vocabulary, R rows of a search, N rows of a matrix. All operations except
top_k_log_probs, quantize_rows and dequantize are differentiable in all floating-point arguments.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Int8, Int32
from torch import Tensor, nn

from nmt.ops.masks import softmax_over_kept
from nmt.ops.precision import accumulate_dtype, compute_dtype


class AdditiveMemory(NamedTuple):
    """The inputs of additive attention: projected keys, values, source mask, and the vector v."""

    keys: Float[Tensor, "B S K"]
    values: Float[Tensor, "B S M"]
    keep: Bool[Tensor, "B S"]
    v: Float[Tensor, " K"]


class DecoderWeights(NamedTuple):
    """The weights of `attentional_gru`.

    W_t and b_t are None if there is no transition, W_fc and W_fs if there is no input feeding. With
    input feeding W_c has the shape (G, H).
    """

    W_c: Float[Tensor, "G M"]
    W_h: Float[Tensor, "G H"]
    b_h: Float[Tensor, " G"]
    W_q: Float[Tensor, "K H"]
    W_t: Float[Tensor, "G H"] | None = None
    b_t: Float[Tensor, " G"] | None = None
    W_fc: Float[Tensor, "H M"] | None = None
    W_fs: Float[Tensor, "H H"] | None = None


class Operations:
    """The operations of one backend, for one device type and one dtype.

    This class is the reference backend. Subclasses override methods, with the same signatures.
    """

    has_gru_layer = False
    """Whether a model should call `gru_layer` instead of torch.nn.GRU."""

    has_attentional_gru = False
    """Whether a model should call `attentional_gru` instead of running its decoder step by step."""

    has_additive_attention_step = False
    """Whether attention should call `additive_attention_step` instead of score, softmax and sum."""

    def linear(
        self,
        x: Float[Tensor, "*L I"],
        weight: Float[Tensor, "O I"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "*L O"]:
        """Return W x + b."""
        return nn.functional.linear(x, weight, bias)

    def gru_layer(
        self,
        x: Float[Tensor, "B S I"],
        lengths: Int[Tensor, " B"],
        weights: Sequence[tuple[Tensor, ...]],
    ) -> tuple[Float[Tensor, "B S O"], Float[Tensor, "B O"]]:
        """Run a layer of torch.nn.GRU over padded sequences, from a state of 0.

        `weights` are weight_ih, weight_hh, bias_ih and bias_hh of each of 1 or 2 directions.
        Returns the states at every position, 0 at padding, and each direction's state after its
        last word. Directions are concatenated, forward first. Under autocast, both have its dtype.
        """
        return read_directions(x, lengths, [partial(_read_gru, direction) for direction in weights])

    def attentional_gru(
        self,
        gates: Float[Tensor, "T B G"],
        hidden: Float[Tensor, "B H"],
        memory: AdditiveMemory,
        weights: DecoderWeights,
    ) -> tuple[Float[Tensor, "T B H"], Float[Tensor, "T B M"], Float[Tensor, "T B S"]]:
        """Run all steps of a GRU decoder with additive attention (arXiv 1409.0473, A.1.2, A.2.2).

            context = additive attention of the query W_q h
            h' = GRU(gates_t + W_c context, W_h h + b_h)

        With a transition, the conditional GRU (arXiv 1703.04357, section 2):

            s = GRU(gates_t, W_t h + b_t)
            context = additive attention of the query W_q s
            h' = GRU(W_c context, W_h s + b_h)

        With input feeding (arXiv 1508.04025, equation 5 and section 3.3):

            context = additive attention of the query W_q h
            f = tanh(W_fc context + W_fs h)
            h' = GRU(gates_t + W_c f, W_h h + b_h)

        `gates` are the embeddings' gate pre-activations. Returns the states after each step, or f
        with input feeding, the contexts and the attention weights. Under autocast the states and f
        have its dtype.
        """
        linear, has_transition = nn.functional.linear, weights.W_t is not None
        sentences = torch.arange(len(hidden), device=hidden.device)
        steps: list[tuple[Tensor, Tensor, Tensor]] = []
        for x in gates.to(compute_dtype(gates)):
            if weights.W_t is not None:
                hidden = gru_cell(x, linear(hidden, weights.W_t, weights.b_t), hidden)
            query = linear(hidden, weights.W_q)
            context, shares = self.additive_attention_step(query, sentences, memory)
            feed = None
            if weights.W_fc is not None and weights.W_fs is not None:
                feed = _tanh(linear(context, weights.W_fc) + linear(hidden, weights.W_fs))
            read = linear(context if feed is None else feed, weights.W_c)
            x = read if has_transition else x + read
            hidden = gru_cell(x, linear(hidden, weights.W_h, weights.b_h), hidden)
            steps.append((hidden if feed is None else feed, context, shares))
        states, contexts, all_shares = (torch.stack(parts) for parts in zip(*steps, strict=True))
        return states, contexts.to(memory.values.dtype), all_shares.to(memory.keys.dtype)

    def additive_attention_step(
        self, query: Float[Tensor, "R K"], sentences: Int[Tensor, " R"], memory: AdditiveMemory
    ) -> tuple[Float[Tensor, "R M"], Float[Tensor, "R S"]]:
        """Return contexts and attention weights; `query[r]` attends to sentence `sentences[r]`.

            weights = softmax over the kept s of v . tanh(query + keys_s)
            context = sum_s weights_s values_s

        A row that may attend to no position has weights and a context of 0.
        """
        keys, values, keep, v = memory
        scores = additive_scores(query.unsqueeze(1), keys[sentences], v)
        weights = softmax_over_kept(scores.squeeze(1), keep[sentences])
        return torch.bmm(weights.unsqueeze(1), values[sentences]).squeeze(1), weights

    def linear_cross_entropy(
        self,
        x: Float[Tensor, "*L D"],
        table: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"],
        targets: Int[Tensor, "*L"],
        keep: Bool[Tensor, "*L"],
        n_real: int,
        smoothing: float,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "*L"]]:
        """Return the training loss, summed over rows, and -log p(target) of each row, in nats.

        -log p(target) is detached. Rows where `keep` is False count as 0. The logits are table x +
        bias. Smoothing e makes the target distribution (1 - e) one-hot + e uniform over the first
        `n_real` rows of the table (arXiv 1512.00567, section 7). Under autocast the logits have its
        dtype, and sums are in fp32.
        """
        logits = nn.functional.linear(x, table, bias)
        log_probs = logits.to(accumulate_dtype(logits.dtype)).log_softmax(dim=-1)
        nlls = -log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1) * keep
        loss = nlls.sum()
        if smoothing:
            uniform = -(log_probs[..., :n_real].mean(dim=-1) * keep).sum()
            loss = (1 - smoothing) * loss + smoothing * uniform
        return loss, nlls.detach()

    def top_k_log_probs(
        self, logits: Float[Tensor, "R V"], k: int, banned_ids: Int[Tensor, " N"], n_real: int
    ) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
        """Return the k largest log-probabilities of each row and their ids, largest first.

        Equal log-probabilities are ordered by id. Ids in `banned_ids` and ids >= `n_real` are
        excluded. If fewer than k ids remain (k <= V), the last values are -infinity. `logits` may
        be overwritten. A row's result does not depend on the other rows.
        """
        log_probs = allowed_log_probs(logits, banned_ids, n_real)
        best = log_probs.sort(dim=1, descending=True, stable=True)
        return best.values[:, :k], best.indices[:, :k]

    def quantize_rows(
        self, x: Float[Tensor, "N I"]
    ) -> tuple[Int8[Tensor, "N I"], Float[Tensor, "N 1"]]:
        """Return integers from -127 to 127 and a scale per row; integers * scale approximates x.

        The scale is the row's largest magnitude / 127.
        """
        scales = x.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny) / 127
        return (x / scales).round().to(torch.int8), scales

    def dequantize(
        self,
        products: Int32[Tensor, "N O"],
        row_scales: Float[Tensor, "N 1"],
        column_scales: Float[Tensor, " O"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "N O"]:
        """Return products * row_scales * column_scales + bias; `products` may be overwritten."""
        y = products.float().mul_(column_scales)
        return y.mul_(row_scales) if bias is None else torch.addcmul(bias, y, row_scales, out=y)


def gru_cell(
    x: Float[Tensor, "B G"], h: Float[Tensor, "B G"], hidden: Float[Tensor, "B H"]
) -> Float[Tensor, "B H"]:
    """Return a GRU's next state from the pre-activations [r; z; n] of the input (x) and state (h).

        r = sigmoid(x_r + h_r);  z = sigmoid(x_z + h_z);  n = tanh(x_n + r * h_n)
        h' = (1 - z) n + z h

    See arXiv 1406.1078. As in torch.nn.GRUCell, the reset gate is applied after the matrix product.
    """
    size = hidden.shape[-1]
    r, z = torch.sigmoid(x[:, : 2 * size] + h[:, : 2 * size]).chunk(2, dim=-1)
    n = _tanh(torch.addcmul(x[:, 2 * size :], r, h[:, 2 * size :]))
    return torch.lerp(n, hidden.to(n.dtype), z)  # under autocast their dtypes differ


def _tanh(a: Tensor) -> Tensor:
    """Return tanh(a), as 2 sigmoid(2 a) - 1 because torch's tanh takes six times as long on a CPU.

    The absolute error is about the dtype's epsilon, too much in 16 bits, where torch.tanh is used.
    """
    return torch.tanh(a) if _is_half(a) else 2 * torch.sigmoid(2 * a) - 1


def _is_half(x: Tensor) -> bool:
    return torch.finfo(x.dtype).bits < 32


def additive_scores(
    query: Float[Tensor, "B Q K"], keys: Float[Tensor, "B S K"], v: Float[Tensor, " K"]
) -> Float[Tensor, "B Q S"]:
    """Return v . tanh(query + key) for every projected query and every key.

    arXiv 1409.0473, A.1.2. The sum is computed as 2 v . sigmoid(2 (query + key)) - sum v, which
    saves the last two passes of `_tanh`.
    """
    if _is_half(query):
        tanh = torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1))
        return nn.functional.linear(tanh, v.unsqueeze(0)).squeeze(-1)
    sigmoid = torch.sigmoid((2 * query).unsqueeze(2) + (2 * keys).unsqueeze(1))
    return nn.functional.linear(sigmoid, 2 * v.unsqueeze(0)).squeeze(-1) - v.sum()


def allowed_log_probs(
    logits: Float[Tensor, "R V"], banned_ids: Int[Tensor, " N"], n_real: int
) -> Float[Tensor, "R V"]:
    """Return log_softmax over V in fp32, with -infinity at `banned_ids` and at ids >= `n_real`."""
    log_probs = logits.float().log_softmax(dim=1)
    log_probs.index_fill_(1, banned_ids, -torch.inf)
    log_probs[:, n_real:] = -torch.inf
    return log_probs


def _read_gru(
    weights: tuple[Tensor, ...], n_steps: int, x: Float[Tensor, "N I"]
) -> Float[Tensor, "N H"]:
    """Return all states of a direction from a state of 0; row t B + b is step t of sentence b."""
    w_ih, w_hh, b_ih, b_hh = weights
    gates = nn.functional.linear(x, w_ih, b_ih).unflatten(0, (n_steps, -1))
    states = [gates.new_zeros(gates.shape[1], w_hh.shape[1])]
    for x_gates in gates:
        h_gates = nn.functional.linear(states[-1], w_hh, b_hh)
        states.append(gru_cell(x_gates, h_gates, states[-1]))
    return torch.cat(states[1:])


Reader = Callable[[int, Float[Tensor, "N I"]], Float[Tensor, "N H"]]
"""Maps (S, inputs) to all states from a state of 0. Row t B + b is step t of sentence b."""


def read_directions(
    x: Float[Tensor, "B S I"], lengths: Int[Tensor, " B"], readers: Sequence[Reader]
) -> tuple[Float[Tensor, "B S O"], Float[Tensor, "B O"]]:
    """Return the states at every position, 0 at padding, and each direction's final state.

    There are 1 or 2 readers. The second reads each sentence backwards from its last word. The
    states of both are concatenated, forward first. Padding is read after all words, so that it
    affects no returned state and gets no gradient.
    """
    n_rows, n_steps = x.shape[:2]
    rows = torch.arange(n_rows, device=x.device)
    positions = torch.arange(n_steps, device=x.device).unsqueeze(1)
    inside = positions < lengths
    mirror = torch.where(inside, lengths - 1 - positions, positions) * n_rows + rows
    order = mirror.flatten()  # row t B + b of the other direction; its own inverse
    steps = x.transpose(0, 1).reshape(n_steps * n_rows, -1)
    last = (lengths - 1) * n_rows + rows
    outputs: list[Tensor] = []
    finals: list[Tensor] = []
    for direction, read in enumerate(readers):
        states = read(n_steps, steps.index_select(0, order) if direction else steps)
        finals.append(states[last])
        outputs.append(states[order] if direction else states)
    annotations = torch.cat(outputs, dim=1) * inside.flatten().unsqueeze(1)
    return annotations.view(n_steps, n_rows, -1).transpose(0, 1), torch.cat(finals, dim=1)
