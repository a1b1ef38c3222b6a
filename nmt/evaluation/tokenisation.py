"""The choice of sacreBLEU's tokenisation for BLEU; not all languages have spaces."""

from typing import get_args

from nmt.config import BleuTokenisation
from nmt.data.languages import language_code
from nmt.errors import ConfigError

TOKENISATIONS: tuple[str, ...] = get_args(BleuTokenisation)

DEFAULT_TOKENISATION = "13a"

_OF_LANGUAGE = {
    "zh": "zh",
    "ja": "ja-mecab",
    "ko": "ko-mecab",
}
"""As sacreBLEU's command chooses, by the ISO 639 code of the target language."""


def bleu_tokenisation(tgt_lang: str, tokenize: str | None = None) -> str:
    """`tokenize`, or else the tokenisation for a language, such as `zh`, `zh-CN` or `fr`."""
    return tokenize or _OF_LANGUAGE.get(language_code(tgt_lang), DEFAULT_TOKENISATION)


def check_tokenisation(name: str, where: str) -> None:
    """Raise ConfigError, which names `where`, if the tokenisation needs a missing package."""
    from sacrebleu.metrics.bleu import BLEU

    try:
        BLEU(tokenize=name)
    except (RuntimeError, ImportError):  # sacreBLEU raises RuntimeError for a missing extra
        extra = name.partition("-")[0]
        raise ConfigError(
            f"{where}: BLEU's tokenisation {name} needs an extra of sacreBLEU; get it with: "
            f"pip install 'sacrebleu[{extra}]', or choose another: {', '.join(TOKENISATIONS)}"
        ) from None
