# The public API as type checkers see it. Imports under TYPE_CHECKING in __init__.py would do too,
# but there they would let every module that reads nmt.__version__ depend on all of the package.
from nmt.attention_maps.record import attention
from nmt.config import RunConfig, load_config
from nmt.evaluation.evaluate import evaluate
from nmt.inference.parallel import divide_threads
from nmt.inference.translator import Translator
from nmt.training.loop import train

__all__ = [
    "RunConfig",
    "Translator",
    "attention",
    "divide_threads",
    "evaluate",
    "load_config",
    "train",
]

__version__: str
