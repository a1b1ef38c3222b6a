"""Interface of the operations: shapes and equations. The definition in code is `reference.py`.

Shapes: B sentences, S source positions, T target steps, H hidden units, G = 3 H gates in the order
[r; z; n], K key size, M annotation size, V vocabulary, R rows of a search, N rows of a matrix.
All operations but those of the search are differentiable in every floating-point argument.
"""

import abc
from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Bool, Float, Int, Int8, Int32
from torch import Tensor


class Transition(NamedTuple):
    """The weights of a GRU step before the attention, those of its input left out."""

    W_h: Float[Tensor, "G H"]
    b_h: Float[Tensor, " G"]


class Operations(abc.ABC):
    """The operations of one backend, for one device type and one dtype."""

    serves_gru_layer = False
    """Whether a model should call `gru_layer` rather than torch.nn.GRU."""

    serves_attentional_gru = False
    """Whether a model should call `attentional_gru` rather than its decoder step by step."""

    serves_additive_attention_step = False
    """Whether attention should call `additive_attention_step` rather than score, softmax, sum."""

    @abc.abstractmethod
    def linear(
        self,
        x: Float[Tensor, "*L I"],
        weight: Float[Tensor, "O I"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "*L O"]:
        """W x + b."""

    @abc.abstractmethod
    def gru_layer(
        self,
        x: Float[Tensor, "B S I"],
        lengths: Int[Tensor, " B"],
        weights: Sequence[tuple[Tensor, ...]],
    ) -> tuple[Float[Tensor, "B S O"], Float[Tensor, "B O"]]:
        """A layer of torch.nn.GRU over packed sequences, from a state of 0.

        `weights` are weight_ih, weight_hh, bias_ih and bias_hh of each of 1 or 2 directions.
        Returns the states at every position, 0 at padding, and each direction's state after its
        last word; directions lie side by side, forward first. Under autocast both are in its dtype.
        """

    @abc.abstractmethod
    def attentional_gru(
        self,
        gates: Float[Tensor, "T B G"],
        hidden: Float[Tensor, "B H"],
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        W_c: Float[Tensor, "G M"],
        W_h: Float[Tensor, "G H"],
        b_h: Float[Tensor, " G"],
        W_q: Float[Tensor, "K H"],
        v: Float[Tensor, " K"],
        transition: Transition | None = None,
    ) -> tuple[Float[Tensor, "T B H"], Float[Tensor, "T B M"], Float[Tensor, "T B S"]]:
        """A GRU decoder with additive attention over all its steps (arXiv 1409.0473, A.1.2, A.2.2).

            context = additive attention of the query W_q h
            h' = GRU(gates_t + W_c context, W_h h + b_h)

        With a transition, the conditional GRU (arXiv 1703.04357, section 2):

            s = GRU(gates_t, transition.W_h h + transition.b_h)
            context = additive attention of the query W_q s
            h' = GRU(W_c context, W_h s + b_h)

        `gates` are the embeddings' part of the input's gates. Returns the states after each step,
        the contexts and the attention weights. Under autocast the states are in its dtype.
        """

    @abc.abstractmethod
    def additive_attention_step(
        self,
        query: Float[Tensor, "R K"],
        sentences: Int[Tensor, " R"],
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        v: Float[Tensor, " K"],
    ) -> tuple[Float[Tensor, "R M"], Float[Tensor, "R S"]]:
        """Context and weights of one projected query per row; row r reads sentence `sentences[r]`.

            weights = softmax over the kept s of v . tanh(query + keys_s)
            context = sum_s weights_s values_s

        A row that may attend to no position has weights and a context of 0.
        """

    @abc.abstractmethod
    def linear_cross_entropy(
        self,
        x: Float[Tensor, "N D"],
        weight: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"],
        targets: Int[Tensor, " N"],
        n_real: int,
        smoothing: float = 0.0,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, " N"]]:
        """The training loss summed over rows, and each row's -log p(target), detached; in nats.

        The logits are weight x + bias. With smoothing e the loss is against (1 - e) one-hot +
        e uniform over the first `n_real` rows of the vocabulary (arXiv 1512.00567, section 7).
        Under autocast the logits are in its dtype, the sums in fp32.
        """

    @abc.abstractmethod
    def top_k_log_probs(
        self, logits: Float[Tensor, "R V"], k: int, banned_ids: Int[Tensor, " N"], n_real: int
    ) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
        """The k greatest log-probabilities of each row and their ids, greatest first.

        Equal log-probabilities come in the order of their ids. Ids in `banned_ids` and from
        `n_real` on are excluded; where fewer than k <= V remain, the last values are -infinity.
        `logits` may be overwritten. A row's result does not depend on the other rows.
        """

    @abc.abstractmethod
    def quantize_rows(
        self, x: Float[Tensor, "N I"]
    ) -> tuple[Int8[Tensor, "N I"], Float[Tensor, "N 1"]]:
        """Integers from -127 to 127 and one scale per row, so that x is about integers * scale."""

    @abc.abstractmethod
    def int8_matmul(
        self, left: Int8[Tensor, "N I"], right: Int8[Tensor, "I O"]
    ) -> Int32[Tensor, "N O"]:
        """The exact product of two integer matrices."""

    @abc.abstractmethod
    def dequantize(
        self,
        products: Int32[Tensor, "N O"],
        row_scales: Float[Tensor, "N 1"],
        column_scales: Float[Tensor, " O"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "N O"]:
        """products * row_scales * column_scales + bias; `products` may be overwritten."""
