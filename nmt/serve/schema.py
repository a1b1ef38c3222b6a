"""Classes of requests and answers, from which /openapi.json is made."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

MAX_ITEMS = 100_000
"""Items that a list may have. The limits of a server are lower; this one bounds the validation."""

MAX_ROWS = 2000
"""Entries that an object may have."""

Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MAX_ITEMS, fail_fast=True)]
TextOrTexts = Annotated[
    Annotated[Text, Tag("text")] | Annotated[Texts, Tag("texts")],
    Discriminator(lambda value: "texts" if isinstance(value, list) else "text"),
]
"""A fault is one of the branch that the value belongs to."""


class Answer(BaseModel):
    """Base of every answer; one that lacks a field or has another is an error of this server."""

    model_config = ConfigDict(extra="forbid")


class TextRequest(BaseModel):
    """Base of the requests that have texts."""

    q: TextOrTexts


class TranslateRequest(TextRequest):
    """LibreTranslate's POST /translate, in JSON or as a form. Other fields are ignored."""

    q: TextOrTexts = Field(description="a text, or several in a list; a line is a sentence")
    source: Text = Field(description="language code of the text, or auto")
    target: Text = Field(description="language code of the translation")
    format: Literal["text", "html"] = Field("text", description="html: tags are kept")
    alternatives: int = Field(0, ge=0, description="how many further translations to give")
    api_key: str | None = Field(None, description="where the server asks for keys")


class DetectRequest(TextRequest):
    """LibreTranslate's POST /detect. Other fields are ignored."""

    q: Text
    api_key: str | None = None


class DetectedLanguage(Answer):
    """A language of a text; the confidence, in percent, is 0: nothing was measured."""

    confidence: float
    language: str


class TranslateAnswer(Answer):
    """LibreTranslate's answer; lists where `q` was one, left out what was not asked for."""

    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815


class Language(Answer):
    """A source language and the targets it is translated into."""

    code: str
    name: str
    targets: list[str]


class Health(Answer):
    """The server answers."""

    status: Literal["ok"] = "ok"


class ErrorAnswer(Answer):
    """An error, in one line."""

    error: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": reason, "model": ErrorAnswer}
    for status, reason in {
        400: "the request is wrong",
        403: "an API key is required, or the host or origin is not allowed",
        408: "the request did not arrive in time",
        413: "the body is too large",
        415: "the body is neither JSON nor a form",
        429: "too many sentences wait; try again after Retry-After seconds",
        500: "the server has a fault",
        503: "the server is shutting down, or a model cannot compute",
        504: "no translation in time",
    }.items()
}
"""The errors of a route that translates."""


class TranslationsRequest(TextRequest):
    """POST /v1/translate: texts of one sentence each."""

    model_config = ConfigDict(extra="forbid")

    q: TextOrTexts = Field(description="a sentence, or several in a list")
    model: str | None = Field(None, description="a name of /v1/models; else by the languages")
    source: str | None = Field(None, description="language code")
    target: str | None = Field(None, description="language code")
    n_best: int = Field(1, ge=1, description="hypotheses for each text; at most the beam")
    attention: Literal["none", "word", "piece"] = Field(
        "none", description="whether, and at which level, to give attention weights"
    )
    prefix: str | None = Field(None, description="how the translation of one text begins")
    prefix_ids: Annotated[list[int], Field(max_length=MAX_ITEMS, fail_fast=True)] | None = Field(
        None, description="the same as ids of pieces"
    )
    attention_rows: dict[
        int, Annotated[list[float], Field(max_length=MAX_ITEMS, fail_fast=True)]
    ] = Field(
        default_factory=dict,
        max_length=MAX_ROWS,
        description="for a piece of the prefix, or the one behind it, by its number from 0: the "
        "weights over the pieces of the source, its end included, to use in place of the "
        "model's own; they are divided by their sum",
    )
    api_key: str | None = Field(None, description="where the server asks for keys")


class AttentionAnswer(Answer):
    """Weights with the labels of their rows and columns; a row sums to 1."""

    level: Literal["word", "piece"]
    rows: list[str]
    columns: list[str]
    weights: list[list[float]]


class HypothesisAnswer(Answer):
    """One translation of a text.

    `log_probs[t]` is the natural-log probability of `ids[t]` given all before it; `score` is their
    sum divided by the length penalty. `ids` ends with the end of sentence where `finished`, for
    which `pieces` has no entry. Word w ends before piece `word_ends[w]`.
    """

    text: str
    score: float
    finished: bool
    pieces: list[str]
    words: list[str]
    word_ends: list[int]
    ids: list[int]
    log_probs: list[float]
    attention: AttentionAnswer | None = None


class TextAnswer(Answer):
    """A text with its hypotheses, the best first; none where it has no piece."""

    text: str
    pieces: list[str]
    words: list[str]
    word_ends: list[int]
    hypotheses: list[HypothesisAnswer]


class TranslationsAnswer(Answer):
    """The answer of /v1/translate."""

    model: str
    source: str
    target: str
    translations: list[TextAnswer]


class ModelAnswer(Answer):
    """A run that is served."""

    name: str
    source: str
    target: str
    beam: int
    heads: list[str]


class ModelsAnswer(Answer):
    """The answer of /v1/models. `needs_key`: whether translating asks for an API key."""

    models: list[ModelAnswer]
    needs_key: bool
