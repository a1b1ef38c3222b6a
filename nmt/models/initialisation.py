"""Initial weights of translation models."""

from torch import nn


def initialise(module: nn.Module) -> None:
    """Draw the initial weights of `module` and all its submodules, in place.

    Linear layers and convolutions: Xavier-uniform (Glorot & Bengio 2010), biases 0. Embeddings:
    N(0, 1/D). Any other module: its `reset_parameters`, if it has one. It runs after those of the
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
