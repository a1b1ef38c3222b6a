"""Export of a trained Transformer to CTranslate2, with tokenizers and a manifest."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from nmt.config import RunConfig
from nmt.errors import ConfigError
from nmt.export.folder import MANIFEST, check_packages, export_folder
from nmt.models.transformer.layers import DecoderLayer, EncoderLayer
from nmt.models.transformer.multi_head import MultiHead
from nmt.models.transformer.positions import LearnedPositions
from nmt.models.transformer.transformer import InputEmbedding, TransformerConfig, TransformerSeq2Seq
from nmt.runs.trained_run import TrainedRun
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import BOS_ID, EOS_ID, RESERVED, UNK_ID

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

_POSITIONS = ("sinusoidal", "learned", "none", "rotary")


def export_ctranslate2(run: TrainedRun, checkpoint: str, out: Path) -> Path:
    """Export a checkpoint for CTranslate2 to a new folder `out`. Return the manifest's path.

    CTranslate2 reads positional encodings from a table. A table of sinusoids covers the larger of
    `search.max_length` and `data.max_pieces`. Raises ConfigError if CTranslate2 does not support a
    model option (the message names its key) or is not installed, and the errors of `export_folder`.
    """
    check_packages("ctranslate2", "ctranslate2")
    check_exportable(run.config)
    with export_folder(run, checkpoint, out) as (folder, loaded, manifest):
        config, model = loaded.config, loaded.model
        assert isinstance(config.model, TransformerConfig)
        assert isinstance(model, TransformerSeq2Seq)
        n_positions = max(config.search.max_length, config.data.max_pieces) + 1
        spec = _spec(config.model, model, loaded.tokenizers, n_positions)
        spec.validate()
        spec.optimize()
        spec.save(str(folder))
        if config.model.positions.kind in ("sinusoidal", "none"):
            manifest["max_positions"] = n_positions
    return out / MANIFEST


def check_exportable(config: RunConfig) -> None:
    """Raise ConfigError, which names the key, if CTranslate2 does not support a model option."""
    model = config.model
    reason = ""
    if not isinstance(model, TransformerConfig):
        reason = f"kind: got '{model.kind}', allowed: 'transformer'"
    elif model.positions.kind not in _POSITIONS:
        reason = f"positions.kind: got '{model.positions.kind}', allowed: {', '.join(_POSITIONS)}"
    elif model.self_attention_window is not None:
        reason = f"self_attention_window: got {model.self_attention_window}, allowed: null"
    if reason:
        raise ConfigError(f"cannot export model.{reason} (format ctranslate2)")


@torch.no_grad()
def _spec(
    config: TransformerConfig, model: TransformerSeq2Seq, tokenizers: Tokenizers, n_positions: int
) -> "TransformerSpec":
    from ctranslate2 import specs

    options = {
        "pre_norm": config.norm == "pre",
        "activation": specs.common_spec.Activation[config.activation.upper()],
        "rotary_dim": config.head_size if config.positions.kind == "rotary" else None,
    }
    encoder = specs.TransformerEncoderSpec(config.layers, config.heads, **options)
    decoder = specs.TransformerDecoderSpec(config.decoder_depth, config.heads, **options)
    spec = specs.TransformerSpec(encoder, decoder)
    src, tgt = tokenizers.src.vocab.pieces, tokenizers.tgt.vocab.pieces
    _set_pieces(encoder, encoder.embeddings[0], model.encoder.pieces, len(src), n_positions)
    _set_pieces(decoder, decoder.embeddings, model.decoder.pieces, len(tgt), n_positions)
    for stack, module in ((encoder, model.encoder), (decoder, model.decoder)):
        if config.norm == "pre":
            _set_norm(stack.layer_norm, module.norm)
        for layer_spec, layer in zip(stack.layer, module.layers, strict=True):
            _set_layer(layer_spec, layer)
    decoder.projection.weight = _numbers(model.decoder.output.weight[: len(tgt)])
    decoder.projection.bias = _numbers(model.decoder.output.bias[: len(tgt)])
    spec.register_source_vocabulary(list(src))
    spec.register_target_vocabulary(list(tgt))
    spec.config.unk_token = RESERVED[UNK_ID]
    spec.config.bos_token = spec.config.decoder_start_token = RESERVED[BOS_ID]
    spec.config.eos_token = RESERVED[EOS_ID]
    spec.config.add_source_eos = True
    return spec


def _set_pieces(stack: Any, table: Any, pieces: InputEmbedding, n_pieces: int, length: int) -> None:
    """Set the embeddings, without the table's padding rows, and the positional encodings."""
    table.weight = _numbers(pieces.embedding.weight[:n_pieces])
    size = table.weight.shape[1]
    if not hasattr(stack, "position_encodings"):
        return
    encoding = pieces.positions
    if isinstance(encoding, LearnedPositions):
        length = encoding.embedding.num_embeddings
    zeros = torch.zeros(1, length, size)
    encodings = zeros if encoding is None else encoding(zeros)
    stack.position_encodings.encodings = _numbers(encodings[0])


def _set_layer(spec: Any, layer: nn.Module) -> None:
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    attention = layer.self_attention.multi_head
    _set_norm(spec.self_attention.layer_norm, layer.around_self_attention.norm)
    _set_linear(spec.self_attention.linear[0], attention.W_q, attention.W_k, attention.W_v)
    _set_linear(spec.self_attention.linear[1], attention.W_o)
    if isinstance(layer, DecoderLayer):
        source: MultiHead = layer.source
        _set_norm(spec.attention.layer_norm, layer.around_source.norm)
        _set_linear(spec.attention.linear[0], source.W_q)
        _set_linear(spec.attention.linear[1], source.W_k, source.W_v)
        _set_linear(spec.attention.linear[2], source.W_o)
    _set_norm(spec.ffn.layer_norm, layer.around_feed_forward.norm)
    _set_linear(spec.ffn.linear_0, layer.feed_forward.inner)
    _set_linear(spec.ffn.linear_1, layer.feed_forward.outer)


def _set_norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = _numbers(norm.weight), _numbers(norm.bias)


def _set_linear(spec: Any, *linears: nn.Linear) -> None:
    """Set a layer to several linear maps of the same input, with their outputs concatenated."""
    spec.weight = _numbers(torch.cat([linear.weight for linear in linears]))
    spec.bias = _numbers(torch.cat([_bias(linear) for linear in linears]))


def _bias(linear: nn.Linear) -> Tensor:
    bias: Tensor | None = linear.bias
    return torch.zeros(len(linear.weight)) if bias is None else bias


def _numbers(tensor: Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = tensor.detach().float().contiguous().numpy().copy()
    return array
