"""Classes of requests and answers, from which /openapi.json is made."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[Text], Field(min_length=1, fail_fast=True)]


class TextRequest(BaseModel):
    """A text or several, and a key. LibreTranslate's POST /detect; other fields are ignored."""

    q: Annotated[
        Annotated[Text, Tag("text")] | Annotated[Texts, Tag("texts")],
        Discriminator(lambda value: "texts" if isinstance(value, list) else "text"),
        Field(description="a text, or several in a list"),
    ]
    api_key: str | None = Field(None, description="where the server asks for keys")

    @property
    def texts(self) -> list[str]:
        """Return the texts, of which there is one where `q` is no list."""
        return [self.q] if isinstance(self.q, str) else self.q


class TranslateRequest(TextRequest):
    """LibreTranslate's POST /translate, in JSON or as a form. A line of a text is a sentence.

    Other fields are ignored.
    """

    source: Text = Field(description="language code of the text, or auto")
    target: Text = Field(description="language code of the translation")
    format: Literal["text", "html"] = Field("text", description="html: tags are kept")
    alternatives: int = Field(0, ge=0, description="how many further translations to give")


class DetectedLanguage(BaseModel):
    """A language of a text; the confidence, in percent, is 0: nothing was measured."""

    confidence: float
    language: str


class TranslateAnswer(BaseModel):
    """LibreTranslate's answer; lists where `q` was one, left out what was not asked for."""

    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815


class Language(BaseModel):
    """A source language and the targets it is translated into."""

    code: str
    name: str
    targets: list[str]


class ErrorAnswer(BaseModel):
    """An error, in one line."""

    error: str


class TranslationsRequest(TextRequest):
    """POST /v1/translate: texts of one sentence each."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="a name of /v1/models; else by the languages")
    source: str | None = Field(None, description="language code")
    target: str | None = Field(None, description="language code")
    n_best: int = Field(1, ge=1, description="hypotheses for each text; at most the beam")
    attention: Literal["none", "word", "piece"] = Field(
        "none", description="whether, and at which level, to give attention weights"
    )
    prefix: str | None = Field(None, description="how the translation of one text begins")
    prefix_ids: Annotated[list[int], Field(fail_fast=True)] | None = Field(
        None, description="the same as ids of pieces"
    )
    attention_rows: dict[int, Annotated[list[float], Field(fail_fast=True)]] = Field(
        default_factory=dict,
        description="for a piece of the prefix, or the one behind it, by its number from 0: the "
        "weights over the pieces of the source, its end included, to use in place of the "
        "model's own; they are divided by their sum",
    )


class AttentionAnswer(BaseModel):
    """Weights with the labels of their rows and columns; a row sums to 1."""

    level: Literal["word", "piece"]
    rows: list[str]
    columns: list[str]
    weights: list[list[float]]


class Pieces(BaseModel):
    """A text in pieces and in words, of which word w ends before piece `word_ends[w]`."""

    text: str
    pieces: list[str]
    words: list[str]
    word_ends: list[int]


class HypothesisAnswer(Pieces):
    """One translation of a text.

    `log_probs[t]` is the natural-log probability of `ids[t]` given all before it; `score` is their
    sum divided by the length penalty. `ids` ends with the end of sentence where `finished`, for
    which `pieces` has no entry.
    """

    score: float
    finished: bool
    ids: list[int]
    log_probs: list[float]
    attention: AttentionAnswer | None = None


class TextAnswer(Pieces):
    """A text with its hypotheses, the best first; none where it has no piece."""

    hypotheses: list[HypothesisAnswer]


class TranslationsAnswer(BaseModel):
    """The answer of /v1/translate."""

    model: str
    source: str
    target: str
    translations: list[TextAnswer]


class ModelAnswer(BaseModel):
    """A run that is served."""

    name: str
    source: str
    target: str
    beam: int


class ModelsAnswer(BaseModel):
    """The answer of /v1/models. `needs_key`: whether translating asks for an API key."""

    models: list[ModelAnswer]
    needs_key: bool
