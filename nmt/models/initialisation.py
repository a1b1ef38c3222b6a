"""First weights for translation."""

from torch import nn


def initialise(module: nn.Module) -> None:
    """Draw the first weights of `module` and of all modules inside it, in place.

    Linear layers and convolutions: Xavier-uniform (Glorot & Bengio 2010), biases 0; embeddings:
    N(0, 1/D). Any other module by its own `reset_parameters`, where it has one. It runs after
    those of the modules inside, whose weights it may therefore draw anew: a recurrent cell does
    so gate by gate.
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
