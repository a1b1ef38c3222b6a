"""All model architectures. To add one, write its module and add its config to the union below."""

from collections.abc import Callable
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nmt.models.base import Seq2Seq
from nmt.models.initialisation import initialise
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.transformer.transformer import TransformerConfig

ModelConfig = Annotated[RNNConfig | TransformerConfig, Field(discriminator="kind")]


def build_model(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
    """Build a model with random initial weights; the sizes do not include padding of tables.

    Initial weights come from torch's global generator: seed it first.
    """
    model = config.build(src_vocab, tgt_vocab)
    initialise(model)
    return model


def meta_model(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
    """Build the model on the meta device: shapes and tied weights, without memory."""
    with torch.device("meta"), _SkipInit():
        return config.build(src_vocab, tgt_vocab)


def uninitialised_model(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
    """Build the model on the CPU without drawing initial weights, to load others faster."""
    model = meta_model(config, src_vocab, tgt_vocab)
    # Module.to_empty would untie tied weights; empty_like of a meta tensor would import SymPy.
    on_cpu: dict[Tensor, nn.Parameter] = {}
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if weight not in on_cpu:
                on_cpu[weight] = nn.Parameter(torch.empty(weight.shape, dtype=weight.dtype))
            setattr(module, name, on_cpu[weight])
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, torch.empty(buffer.shape, dtype=buffer.dtype))
    return model


class _SkipInit(TorchFunctionMode):
    """Skips torch.nn.init, which on the meta device would import torch._dynamo."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Return the result of `func`; None for torch.nn.init, whose results no module reads."""
        if getattr(func, "__module__", "") == "torch.nn.init":
            return None
        return func(*args, **(kwargs or {}))
