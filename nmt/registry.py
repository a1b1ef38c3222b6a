"""Registration of attentions, losses, optimisers and metrics from outside the package."""

from typing import Any, Literal, TypeVar, Union, get_args

from nmt.config import RunConfig, TrainConfig, ValidConfig
from nmt.errors import ConfigError
from nmt.evaluation.metric import Metric
from nmt.evaluation.metrics import METRICS
from nmt.models.attention.multi_head import MultiHeadConfig
from nmt.models.attention.options import AttentionOptions
from nmt.models.recurrent.rnn import RNNConfig
from nmt.optim.losses import LossOptions
from nmt.optim.optimizers import OptimizerOptions
from nmt.optim.schedules import PlateauConfig
from nmt.settings.base import Config
from nmt.settings.keys import config_classes, kind_of
from nmt.types import LOWER_IS_BETTER

_Class = TypeVar("_Class", bound=type[AttentionOptions | LossOptions | OptimizerOptions | Metric])

_KEYS: dict[type, tuple[tuple[type[Config], str], ...]] = {
    AttentionOptions: ((MultiHeadConfig, "over"), (RNNConfig, "attention")),
    LossOptions: ((TrainConfig, "loss"),),
    OptimizerOptions: ((TrainConfig, "optimizer"),),
    Metric: ((PlateauConfig, "metric"), (ValidConfig, "metric")),
}
"""For each base class, the config sections and the keys that select one of its kinds."""

_SECTIONS = (MultiHeadConfig, RNNConfig, PlateauConfig, TrainConfig, ValidConfig, RunConfig)
"""The config classes that contain a key of _KEYS. A class stands after its sections."""

_BUILT_IN = {
    kind if isinstance(kind, str) else kind_of(kind)
    for keys in _KEYS.values()
    for section, key in keys
    for kind in get_args(section.model_fields[key].annotation)
}


def register(new: _Class) -> _Class:
    """Register a class under its kind, so that configs can select it. Use it as a decorator.

    The class is the config of an attention (AttentionOptions), a loss (LossOptions) or an optimiser
    (OptimizerOptions) with a field `kind: Literal["NAME"] = "NAME"`, or a Metric with a `kind`. A
    class registered earlier for the same kind is replaced. Raises ConfigError for any other class,
    for a built-in kind, or without a required method.
    """
    base = next((base for base in _KEYS if issubclass(new, base)), None)
    kind = getattr(new, "kind", None)
    if (literal := getattr(new, "model_fields", {}).get("kind")) is not None:
        kind = literal.default if get_args(literal.annotation) == (literal.default,) else None
    lacking = ", ".join(sorted(getattr(new, "__abstractmethods__", ())))
    if base is None or kind is None or kind in _BUILT_IN or lacking:
        raise ConfigError(
            f"register: got {new.__name__} of kind {kind!r}{lacking and f' without {lacking}'}, "
            "allowed: a config of an attention, loss or optimiser, or a metric, of a new kind"
        )
    if issubclass(new, Metric):
        METRICS[kind] = new()
        (LOWER_IS_BETTER.add if new.lower_is_better else LOWER_IS_BETTER.discard)(kind)
    for section, key in _KEYS[base]:
        field: Any = section.model_fields[key]
        if issubclass(new, Metric):
            field.annotation = Literal[(*get_args(field.annotation), kind)]
        else:
            others = (one for one in config_classes(field.annotation) if kind_of(one) != kind)
            field.annotation = Union[(*others, new)]
    for config_class in _SECTIONS:
        config_class.model_rebuild(force=True)
    return new
