"""The attribution methods by name, and Attributor, which applies one to translations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from nmt.errors import ConfigError
from nmt.explain.attribution import inputs, layers
from nmt.explain.attribution.pair import Pair, Scores
from nmt.models.base import Seq2Seq
from nmt.models.recurrent.rnn import RNNSeq2Seq
from nmt.models.transformer.transformer import TransformerSeq2Seq
from nmt.names import AttributionMethod
from nmt.search.forced import alignment_weights
from nmt.text.vocabulary import BOS_ID, EOS_ID, UNK_ID
from nmt.translation.batched import Padded
from nmt.translation.drawn import DrawnTranslation
from nmt.translation.translator import Translator
from nmt.translation.words import row_shares
from nmt.types import Attribution


def attention(model: Seq2Seq, pair: Pair, by_norm: bool = False) -> Scores:
    """Return the attention weights w_ts.

    `by_norm` returns the norms ||w_ts f(v_s)|| as shares of a row instead (arXiv 2004.10102).
    """
    src_ids, ids = pair.src_ids[None], [pair.tgt_out.tolist()]
    lengths = src_ids.new_tensor([len(pair.src_ids)])
    [weights] = alignment_weights(model, src_ids, lengths, ids, by_norm=by_norm)
    source = torch.from_numpy(weights)
    return Scores(source, source[:, :0])


_OF_INPUTS: dict[AttributionMethod, Callable[[Any, Pair], Scores]] = {
    "input-x-gradient": inputs.input_x_gradient,
    "integrated-gradients": inputs.integrated_gradients,
    "erasure": inputs.erasure,
}
"""The methods that apply to every model, and the only ones that accept a contrast."""

METHODS: dict[AttributionMethod, Callable[[Any, Pair], Scores]] = {
    "norms": partial(attention, by_norm=True),
    **_OF_INPUTS,
    "value-zeroing": layers.value_zeroing,
    "rollout": layers.rollout,
    "alti": layers.alti,
}
"""All methods except `attention`, which reads the attention weights of the forward pass."""


def applicable_methods(model: Seq2Seq) -> tuple[str, Iterable[AttributionMethod]]:
    """Return the name of the model's kind for error messages, and the methods that apply to it."""
    if isinstance(model, TransformerSeq2Seq):
        return "a Transformer", METHODS
    if isinstance(model, RNNSeq2Seq):
        return "a recurrent model", ("norms", *_OF_INPUTS, "value-zeroing")
    return "an ensemble", _OF_INPUTS


@dataclass(frozen=True)
class Attributor:
    """Attribution of translations to their sources and prefixes by a method of METHODS.

    With a word `contrast`, log p(y) - log p(y') is explained instead of log p(y), where y' is the
    piece of this word that the model writes first (arXiv 2202.10419). Sentence pairs are computed
    one by one, so results do not depend on the batch. Raises ConfigError if the method does not
    apply to the model or accepts no contrast, or if the vocabulary cannot write the contrast.
    """

    translator: Translator
    method: AttributionMethod
    contrast: str | None = None

    def __post_init__(self) -> None:
        kind, methods = applicable_methods(self.translator.model)
        if self.translator.int8:
            kind, methods = "int8", ("norms",)
        if self.method not in methods:
            allowed = ", ".join(("attention", *methods))
            raise ConfigError(f"`method`: got {self.method}, allowed for {kind}: {allowed}")
        if self.contrast is not None and self.method not in _OF_INPUTS:
            allowed = ", ".join(_OF_INPUTS)
            raise ConfigError(f"`contrast`: got method {self.method}, allowed: {allowed}")
        if self.contrast is not None and self._contrast_id is None:
            allowed = f"a word that the {self.translator.languages[1]} vocabulary can write"
            raise ConfigError(f"`contrast`: got '{self.contrast}', allowed: {allowed}")

    @cached_property
    def _contrast_id(self) -> int | None:
        tokenizers = self.translator.tokenizers
        order = -1 if tokenizers.reverse_target else 1
        ids = tokenizers.tgt.encode(self.contrast or "").ids[::order]
        return ids[0] if ids and UNK_ID not in ids else None

    def attribute(self, translations: Iterable[DrawnTranslation]) -> list[DrawnTranslation]:
        """Return the translations with an attribution of each hypothesis.

        The `attention` of a hypothesis is replaced by the absolute scores of the source, each row
        divided by its sum. Maps and dumps read `attention`, so they display the scores.
        """

        def read(padded: Padded, ids: Sequence[Sequence[int]]) -> list[dict[str, object]]:
            results = self.read(padded, ids)
            return [{"attention": row_shares(r.scores), "attribution": r} for r in results]

        batch_size = self.translator.search.batch_size
        return self.translator.with_fields(list(translations), batch_size, read)

    def read(self, padded: Padded, tgt_ids: Sequence[Sequence[int]]) -> list[Attribution]:
        """Return the attribution of each sentence pair. Ids of finished targets end with eos."""
        results = []
        for row, length, ids in zip(*padded, tgt_ids, strict=True):
            tgt_in = row.new_tensor([BOS_ID, *ids][: len(ids)])
            pair = Pair(row[: int(length)], tgt_in, row.new_tensor(ids), self._contrast_id)
            parts = METHODS[self.method](self.translator.model, pair)
            scores, prefix = (part.float().cpu().numpy() for part in parts)
            if prefix.shape[1] and ids[-1] != EOS_ID:  # the decoder never reads the last piece
                prefix = np.pad(prefix, ((0, 0), (0, 1)))
            results.append(Attribution(self.method, scores, prefix, self.contrast))
        return results
