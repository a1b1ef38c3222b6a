"""Pydantic models of requests and answers, from which FastAPI builds /openapi.json."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[str], Field(min_length=1, fail_fast=True)]  # with "" for an empty text
AttentionLevel = Literal["none", "word", "piece"]


class TextRequest(BaseModel):
    """LibreTranslate's POST /detect: one or more texts and a key. Other fields are ignored."""

    q: Annotated[
        Annotated[Text, Tag("text")] | Annotated[Texts, Tag("texts")],
        Discriminator(lambda value: "texts" if isinstance(value, list) else "text"),
        Field(description="a text, or several in a list"),
    ]
    api_key: str | None = Field(None, description="if the server requires keys")

    @property
    def texts(self) -> list[str]:
        """Return the texts as a list, even if `q` is a single text."""
        return [self.q] if isinstance(self.q, str) else self.q


class TranslateRequest(TextRequest):
    """LibreTranslate's POST /translate, in JSON or as a form; other fields are ignored.

    A text is split into sentences. A line break, or in HTML also a tag, ends a sentence.
    """

    source: Text = Field(description="language code of the text, or auto")
    target: Text = Field(description="language code of the translation")
    format: Literal["text", "html"] = Field("text", description="html: tags are kept")
    alternatives: int = Field(
        0, ge=0, description="number of further translations, at most beam - 1"
    )


class DetectedLanguage(BaseModel):
    """The language of a text. Its confidence is 0 percent, because the text is not examined."""

    confidence: float
    language: str


class TranslateAnswer(BaseModel):
    """LibreTranslate's answer, with lists if `q` is a list; optional fields only if requested."""

    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815


class Language(BaseModel):
    """A source language and the languages it can be translated into."""

    code: str
    name: str
    targets: list[str]


class ErrorAnswer(BaseModel):
    """An error, in one line."""

    error: str


class DocumentRequest(TextRequest):
    """POST /v1/document: texts of any number of sentences, and the model that translates them."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(
        None, description="name of a model from /v1/models; by default chosen by the languages"
    )
    source: str | None = Field(None, description="language code")
    target: str | None = Field(None, description="language code")


class TranslationsRequest(DocumentRequest):
    """POST /v1/translate: texts of one sentence each."""

    n_best: int = Field(1, ge=1, description="hypotheses per text, at most the beam size")
    attention: AttentionLevel = Field(
        "none", description="level of the attention weights in the answer, if any"
    )
    prefix: str | None = Field(None, description="required beginning of the translation of a text")
    prefix_ids: Annotated[list[int], Field(fail_fast=True)] | None = Field(
        None, description="the prefix as piece ids, instead of `prefix`"
    )
    attention_rows: dict[int, Annotated[list[float], Field(fail_fast=True)]] = Field(
        default_factory=dict,
        description="attention weights to use instead of the model's own. A key is the position, "
        "from 0, of a piece of the prefix or of the piece after the prefix. A value is a list of "
        "weights, one per source piece and one for the end of sentence, divided by their sum",
    )


class AttentionAnswer(BaseModel):
    """Attention weights with labels of the rows and columns; each row sums to 1."""

    level: Literal["word", "piece"]
    rows: list[str]
    columns: list[str]
    weights: list[list[float]]


class Pieces(BaseModel):
    """A text, as pieces and words that the model reads; word w ends before piece `word_ends[w]`."""

    text: str
    pieces: list[str]
    words: list[str]
    word_ends: list[int]


class HypothesisAnswer(Pieces):
    """One translation of a text.

    `log_probs[t]` is the natural-log probability of `ids[t]` given the earlier ids. `score` is the
    sum of `log_probs` divided by the length penalty. If `finished`, `ids` ends with the end of
    sentence, which has no entry in `pieces`. `confidence` is the probability of `nmt calibrate`.
    """

    score: float
    confidence: float | None = None
    finished: bool
    ids: list[int]
    log_probs: list[float]
    attention: AttentionAnswer | None = None


class TextAnswer(Pieces):
    """A text with its hypotheses, best first. A text without pieces has no hypotheses."""

    hypotheses: list[HypothesisAnswer]


class TranslationsAnswer(BaseModel):
    """The answer of POST /v1/translate; `source` and `target` are the languages of `model`."""

    model: str
    source: str
    target: str
    translations: list[TextAnswer]


class PartAnswer(BaseModel):
    """A part of a text: a `sentence` without markup, or the text between sentences."""

    text: str
    translation: str
    sentence: str | None = None


class ModelAnswer(BaseModel):
    """A served run. If it is not `steerable`, it accepts no prefix and no `attention_rows`."""

    name: str
    source: str
    target: str
    beam: int
    steerable: bool


class ModelsAnswer(BaseModel):
    """The answer of /v1/models. `needs_key` is true if a translation needs an API key."""

    models: list[ModelAnswer]
    needs_key: bool
