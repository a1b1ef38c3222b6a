"""nmt's own API: scores, pieces, n-best lists and attention."""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter, HTTPException, Request, Response

from nmt.serve.models import Decoding, ServedModel
from nmt.serve.requests import Bearer, describe, read_request, results
from nmt.serve.schema import (
    AttentionAnswer,
    HypothesisAnswer,
    ModelAnswer,
    ModelsAnswer,
    TextAnswer,
    TranslationsAnswer,
    TranslationsRequest,
)
from nmt.serve.service import Service, json_answer
from nmt.translation.words import attention_table
from nmt.types import Encoded, Translation

_MAX_WEIGHTS = 1_000_000
"""Attention weights that an answer may have, of all its hypotheses; about 20 MB of JSON."""


def router(service: Service) -> APIRouter:
    """Return the routes under /v1."""
    api = APIRouter(prefix="/v1")

    @api.post(
        "/translate",
        response_model=TranslationsAnswer,
        **describe(TranslationsRequest),
    )
    async def translate(request: Request, bearer: Bearer) -> Response:
        """Translate sentences, each with scores, pieces and, on request, attention."""
        asked, texts = await read_request(service, request, bearer, TranslationsRequest)
        model = _model(service, asked)
        options = _decoding(service, asked, model, texts)
        translations = await results(request, model.worker, texts, options, service.limits.seconds)
        _check_weights(translations, asked.attention)

        def answer() -> Response:
            answers = [text_answer(translation, asked.attention) for translation in translations]
            return json_answer(
                TranslationsAnswer(
                    model=model.name, source=model.source, target=model.target, translations=answers
                )
            )

        return await asyncio.to_thread(answer)

    @api.get("/models")
    async def models() -> ModelsAnswer:
        """List the runs that are served."""
        answers = [
            ModelAnswer(
                name=model.name,
                source=model.source,
                target=model.target,
                beam=model.beam,
                heads=list(model.translator.model.head_names),
            )
            for model in service.models.values()
        ]
        return ModelsAnswer(models=answers, needs_key=bool(service.keys))

    return api


def _model(service: Service, asked: TranslationsRequest) -> ServedModel:
    if asked.model is not None:
        return service.model_named(asked.model)
    if asked.source is None and asked.target is None and len(service.models) == 1:
        return next(iter(service.models.values()))
    if asked.source is None or asked.target is None:
        raise HTTPException(400, "which model? give model, or source and target")
    return service.model_of(asked.source, asked.target)


def _decoding(
    service: Service, asked: TranslationsRequest, model: ServedModel, texts: list[str]
) -> Decoding:
    """Return how to decode. Raises HTTPException for what does not go together."""
    if asked.n_best > model.beam:
        raise HTTPException(
            400, f"n_best: got {asked.n_best}, allowed: 1 to {model.beam}, the beam"
        )
    if any("\n" in text for text in texts):
        raise HTTPException(400, "q: got a line break, allowed: one sentence; send a list")
    if asked.prefix is not None and asked.prefix_ids is not None:
        raise HTTPException(400, "prefix, prefix_ids: got both, allowed: one of them")
    prefix = tuple(asked.prefix_ids or ()) if asked.prefix is None else asked.prefix
    rows = {step: tuple(row) for step, row in asked.attention_rows.items()}
    if (prefix or rows) and len(texts) > 1:
        raise HTTPException(400, "prefix, attention_rows: got several texts, allowed: one")
    n_characters = sum(map(len, texts)) + len(prefix)
    if n_characters > service.limits.characters:
        got = f"got {n_characters:,} characters and pieces"
        raise HTTPException(400, f"q, prefix: {got}, allowed: {service.limits.characters:,}")
    longest = model.translator.search.max_length
    if len(prefix) > longest:
        raise HTTPException(400, f"prefix: got {len(prefix):,} pieces, allowed: {longest:,}")
    return Decoding(asked.n_best, prefix, tuple(sorted(rows.items())))


def _check_weights(
    translations: Sequence[Translation], attention: Literal["none", "word", "piece"]
) -> None:
    """Raise HTTPException 400 for more weights than an answer may have."""
    n_weights = sum(
        candidate.hypothesis.attention.size
        for translation in translations
        for candidate in translation.hypotheses
    )
    if attention != "none" and n_weights > _MAX_WEIGHTS:
        got = f"got {n_weights:,} weights to give"
        raise HTTPException(400, f"attention: {got}, allowed: {_MAX_WEIGHTS:,}; send less")


def text_answer(
    translation: Translation, attention: Literal["none", "word", "piece"]
) -> TextAnswer:
    """Return the answer for one text; the labels of pieces are as the tokenizer has them."""
    hypotheses = []
    for rank, candidate in enumerate(translation.hypotheses):
        weights = None
        if attention != "none":
            table = attention_table(translation, rank, attention)
            weights = AttentionAnswer(
                level=attention,
                rows=list(table.rows),
                columns=list(table.columns),
                weights=table.weights.tolist(),
            )
        hypothesis = candidate.hypothesis
        hypotheses.append(
            HypothesisAnswer(
                text=candidate.text,
                score=hypothesis.score,
                finished=hypothesis.finished,
                **_pieces(candidate.target),
                ids=list(hypothesis.ids),
                log_probs=list(hypothesis.log_probs),
                attention=weights,
            )
        )
    return TextAnswer(
        text=translation.src_text, **_pieces(translation.source), hypotheses=hypotheses
    )


def _pieces(encoded: Encoded) -> dict[str, Any]:
    return {
        "pieces": list(encoded.pieces),
        "words": list(encoded.words),
        "word_ends": [end for _, end in encoded.word_spans],
    }
