"""Training of the captioner: new pictures for every update, of the training arrangements."""

import random
from collections.abc import Iterator, Sequence

from nmt.lab.captioner import CaptionBatch, Captioner, train
from nmt.lab.captioning.options import CaptionsOptions
from nmt.lab.captioning.scenes import Arrangement, paint, place, with_noise
from nmt.lab.captioning.words import LANGUAGES, Lexicon


def learn(
    model: Captioner, seen: Sequence[Arrangement], options: CaptionsOptions, lexicon: Lexicon
) -> list[float]:
    """Train in place; the mean loss of each update, in nats a word."""
    batches = _batches(seen, options, lexicon)
    return list(train(model, batches, options.updates, options.lr))


def _batches(
    seen: Sequence[Arrangement], options: CaptionsOptions, lexicon: Lexicon
) -> Iterator[CaptionBatch]:
    """New pictures with their captions in every language, without end.

    A relation is drawn first, then an arrangement with it: those of one thing are few.
    """
    rng = random.Random(f"lessons {options.seed}")
    by_relation: dict[str, list[Arrangement]] = {}
    for arrangement in seen:
        by_relation.setdefault(arrangement.relation, []).append(arrangement)
    groups = list(by_relation.values())
    rows = list(range(options.pictures)) * len(LANGUAGES)
    while True:
        chosen = [rng.choice(rng.choice(groups)) for _ in range(options.pictures)]
        pictures = paint([place(arrangement, rng) for arrangement in chosen], rng)
        captions = [lexicon.ids(arrangement, lang) for lang in LANGUAGES for arrangement in chosen]
        yield CaptionBatch.of(with_noise(pictures, options.noise, rng), rows, captions)
