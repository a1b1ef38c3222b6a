"""nmt: train, run, measure and explain attention-based machine translation.

The names in `__all__` are the public API. Each name is imported when it is first used, because
importing torch takes seconds. __init__.pyi has the types.
"""

from importlib import import_module as _import_module

__version__ = "0.1.0"

_MODULES = {
    "RunConfig": "nmt.config",
    "Translator": "nmt.translation.translator",
    "attention": "nmt.translation.record",
    "config_of": "nmt.config",
    "divide_threads": "nmt.translation.parallel",
    "evaluate": "nmt.evaluation.evaluate",
    "load_config": "nmt.config",
    "register": "nmt.registry",
    "train": "nmt.training.loop",
    "translate_text": "nmt.documents.translate",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    """Import a name of the public API (PEP 562). Raises AttributeError for any other name."""
    if name not in _MODULES:
        raise AttributeError(f"module 'nmt' has no attribute '{name}'")
    value: object = getattr(_import_module(_MODULES[name]), name)
    globals()[name] = value  # the next lookup does not call this function
    return value


def __dir__() -> list[str]:
    """Return the module's names, with the public names that have not been imported yet."""
    return sorted({*globals(), *__all__})
