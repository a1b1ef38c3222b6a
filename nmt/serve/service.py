"""The state that the routes share: models, limits, keys and metrics."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.responses import Response

from nmt.errors import did_you_mean
from nmt.serve.keys import Keys
from nmt.serve.limits import Limits
from nmt.serve.metrics import Metrics
from nmt.serve.models import ServedModel
from nmt.serve.schema import Answer


@dataclass(frozen=True)
class Service:
    """A server's parts; its methods raise HTTPException.

    `parsing` is held while a large body is parsed.
    """

    models: Mapping[str, ServedModel]
    limits: Limits
    keys: Keys
    metrics: Metrics
    parsing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def check_key(self, key: object) -> None:
        """Raise 403 without a right key: in the body, or `Authorization: Bearer KEY`."""
        if not self.keys.allow(key if isinstance(key, str) else None):
            raise HTTPException(403, "this server needs a right API key, as api_key")

    def model_named(self, name: str) -> ServedModel:
        """Return the model of this name; raise 400 without one."""
        if name not in self.models:
            hint = did_you_mean(name[:80], self.models)
            allowed = ", ".join(self.models)
            raise HTTPException(400, f"model: got '{name[:80]}', allowed: {allowed}{hint}")
        return self.models[name]

    def model_of(self, source: str, target: str) -> ServedModel:
        """Return the first model of two languages; raise 400 without one."""
        for model in self.models.values():
            if (model.source, model.target) == (source, target):
                return model
        pairs = sorted({f"{model.source} to {model.target}" for model in self.models.values()})
        got = f"{source[:20]} to {target[:20]}"
        raise HTTPException(400, f"{got} is not supported; allowed: {', '.join(pairs)}")


def json_answer(answer: Answer) -> Response:
    """Return an answer without the fields that are None."""
    return Response(answer.model_dump_json(exclude_none=True), media_type="application/json")
