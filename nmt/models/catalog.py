"""All models and their initial weights. To add a model, add its config to the union below."""

from collections.abc import Callable
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nmt.models.base import Seq2Seq
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.transformer.transformer import TransformerConfig

ModelConfig = Annotated[RNNConfig | TransformerConfig, Field(discriminator="kind")]


def build_model(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
    """Build a model with random initial weights for vocabularies of these sizes.

    The sizes exclude the padding rows of tables. torch's global generator draws the weights, so
    seed it first.
    """
    model = config.build(src_vocab, tgt_vocab)
    initialise(model)
    return model


def meta_model(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
    """Build the model on the meta device, with shapes and tied weights but without memory."""
    with torch.device("meta"), _SkipInit():
        return config.build(src_vocab, tgt_vocab)


def uninitialised_model(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
    """Build the model on the CPU without drawing its weights, which the caller then loads."""
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
        """Call `func`, except functions of torch.nn.init, whose return values no module reads."""
        if getattr(func, "__module__", "") == "torch.nn.init":
            return None
        return func(*args, **(kwargs or {}))


def initialise(module: nn.Module) -> None:
    """Draw the initial weights of `module` and all its submodules, in place.

    Linear layers and convolutions: Xavier-uniform (Glorot & Bengio 2010), biases 0. Embeddings:
    N(0, 1/D). Any other module runs its own `reset_parameters`, if it has one. It does so after its
    submodules and may draw their weights again, as a recurrent cell does gate by gate.
    """
    module.apply(_reset)


def _reset(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv1d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
    elif callable(reset := getattr(module, "reset_parameters", None)):
        reset()
