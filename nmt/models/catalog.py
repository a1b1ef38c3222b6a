"""Every architecture by its config; to add one: its file, and its name in the union below."""

from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field
from torch.overrides import TorchFunctionMode

from nmt.models.base import Seq2Seq
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.models.vocabulary import initialise

ModelConfig = Annotated[RNNConfig | TransformerConfig, Field(discriminator="kind")]


def build_model(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
    """A freshly initialised model; the sizes are real ones, tables are padded inside.

    Initial weights come from torch's global generator: seed it first.
    """
    model = config.build(src_vocab, tgt_vocab)
    initialise(model)
    return model


def bare_model(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
    """The same model with weights that are yet to be loaded: they are whatever the memory holds.

    To make initial values takes longer than to load better ones.
    """
    with _Uninitialised():
        return config.build(src_vocab, tgt_vocab)


class _Uninitialised(TorchFunctionMode):
    """Leaves tensors as they are where a module being built would fill them."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs.get("tensor", args[0] if args else None)
        return func(*args, **kwargs)
