# The public API as type checkers see it. Imports under TYPE_CHECKING in __init__.py would do too,
# but there they would let every module that reads nmt.__version__ depend on all of the package.
from nmt.config import RunConfig, config_of, load_config
from nmt.documents.translate import translate_text
from nmt.evaluation.evaluate import evaluate
from nmt.registry import register
from nmt.training.loop import train
from nmt.translation.parallel import divide_threads
from nmt.translation.record import attention
from nmt.translation.translator import Translator

__all__ = [
    "RunConfig",
    "Translator",
    "attention",
    "config_of",
    "divide_threads",
    "evaluate",
    "load_config",
    "register",
    "train",
    "translate_text",
]

__version__: str
