"""The tokenised, lower-cased BLEU of the Multi30k papers.

The steps follow the data set's script (github.com/multi30k/dataset,
scripts/task1-tokenize.sh): lower-case, normalise the punctuation and tokenise. The last two use
sacremoses, a port of the Moses scripts. For the French validation and test_2016_flickr sets, the
preprocessed lines equal the published files (tests/evaluation/test_metrics.py).
"""

from collections.abc import Sequence
from importlib.metadata import version

from nmt.corpora.languages import language_code
from nmt.errors import ConfigError, DataError, pip_install
from nmt.evaluation.metric import Scoring
from nmt.evaluation.sacrebleu_metrics import SacreBleuMetric


class Multi30kBleu(SacreBleuMetric):
    """The BLEU of the Multi30k papers, on lines that `tokenise` has preprocessed.

    The sacreBLEU signature is extended by the preprocessing steps and the version of sacremoses.
    """

    def __init__(self) -> None:
        # force suppresses the warning that the text looks tokenised, as it must be.
        super().__init__("BLEU-lc-norm-tok", "BLEU", {"tokenize": "none", "force": True})

    def check(self, scoring: Scoring, where: str) -> None:
        if not scoring.tgt_lang:
            raise ConfigError("multi30k: the target language is unknown; give `lang`")

    def prepare(self, lines: Sequence[str], scoring: Scoring) -> Sequence[str]:
        return tokenise(lines, scoring.tgt_lang)

    def extend_signature(self, signature: str, scoring: Scoring) -> str:
        steps = f"prep:lc.norm.tok.{language_code(scoring.tgt_lang)}"
        return f"{signature}|{steps}|sacremoses:{version('sacremoses')}"


def tokenise(lines: Sequence[str], lang: str) -> list[str]:
    """Lower-case each line, normalise its punctuation, and put spaces between its Moses tokens.

    Raises DataError if sacremoses is not installed.
    """
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError:
        raise DataError("multi30k needs sacremoses; get it with: " + pip_install("moses")) from None
    code = language_code(lang)  # sacremoses has rules for fr, none for FR
    # perl_parity repeats an oddity of the script: a U+2019 that is not between two letters of
    # a-z becomes a quotation mark, so `d’œil` is three tokens in the published references.
    normaliser = MosesPunctNormalizer(lang=code, perl_parity=True)
    tokenizer = MosesTokenizer(lang=code)
    # Lines end in a newline, as in the scripts. One of the rules moves a full stop out of
    # quotation marks only if a character follows.
    normalised = (normaliser.normalize(line.lower() + "\n") for line in lines)
    return [tokenizer.tokenize(line, return_str=True) for line in normalised]
