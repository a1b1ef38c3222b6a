"""A captioner of one's own images: trained on their features, measured on held-out ones."""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from nmt.errors import ConfigError, DataError
from nmt.evaluation.metric import MetricResult
from nmt.evaluation.metrics import corpus_bleu, score
from nmt.lab.captioner import CaptionBatch, caption_loss, train
from nmt.lab.captioning.caption_file import CaptionedImage, read_captions
from nmt.lab.captioning.cnn import load_cnn, read_picture
from nmt.lab.captioning.feature_cache import FeatureCache
from nmt.lab.captioning.kept import FEATURES, ImageCaptioner, prepare
from nmt.lab.captioning.light import CaptionedPicture, draw_pictures
from nmt.lab.captioning.options import CaptionsOptions
from nmt.lab.experiment import Result, seeded
from nmt.lab.numbers import columns
from nmt.text.normalisation import normalise
from nmt.text.vocabulary import BOS_ID, EOS_ID
from nmt.text.word_tokenizer import WordConfig, WordTokenizer
from nmt.training.step import StepSettings
from nmt.types import Hypothesis

_TOGETHER = 64  # images searched at a time
_SHOWN = 3  # test images in the picture


@dataclass(frozen=True)
class Validation:
    """After an update: the loss on held-out captions, in nats a word, and BLEU, 0 to 100."""

    update: int
    loss: float
    bleu: float


@dataclass(frozen=True)
class TrainedResult(Result):
    """The measures of a trained captioner, and its captions of the test images."""

    folder: Path
    n_images: tuple[int, int, int]
    n_words: int
    n_computed: int
    validations: tuple[Validation, ...]
    bleu: MetricResult
    tests: tuple[tuple[CaptionedImage, str], ...]
    shown: tuple[CaptionedPicture, ...]
    seconds: float

    def numbers(self) -> dict[str, object]:
        """See Result.numbers."""
        best = max(self.validations, key=_rank)
        return {
            "images": dict(zip(("training", "validation", "test"), self.n_images, strict=True)),
            "words": self.n_words,
            "features_computed": self.n_computed,
            "seconds_of_training": self.seconds,
            "validations": [
                {"update": each.update, "loss": each.loss, "bleu": each.bleu}
                for each in self.validations
            ],
            "best_update": best.update,
            "test_bleu": {"score": self.bleu.score, "low": self.bleu.low, "high": self.bleu.high},
            "signature": self.bleu.signature,
            "test": [
                {"image": image.path.name, "said": said, "captions": list(image.captions)}
                for image, said in self.tests
            ],
        }

    def summary(self) -> list[str]:
        """See Result.summary."""
        n_training, n_validation, n_test = self.n_images
        best = max(self.validations, key=_rank)
        rows = [("update", "validation loss", "BLEU")]
        rows += [(f"{v.update:,}", f"{v.loss:.3f}", f"{v.bleu:.1f}") for v in self.validations]
        interval = "" if self.bleu.low is None else f" [{self.bleu.low:.1f}, {self.bleu.high:.1f}]"
        examples = [f"  {image.path.name}: {said}" for image, said in self.tests[:5]]
        return [
            f"trained on {n_training:,} images in {self.seconds:.0f} s ({self.n_words:,} words; "
            f"features of {self.n_computed:,} images computed, the others read)",
            "",
            *columns(rows),
            "",
            f"BLEU {self.bleu.score:.1f}{interval} on {n_test:,} test images, with the weights of "
            f"update {best.update:,}, the best on {n_validation:,} validation images",
            *examples,
            "",
            f"kept in {self.folder}",
        ]


@dataclass(frozen=True)
class OwnImageResult(Result):
    """The caption of one image by a kept captioner."""

    image: Path
    caption: str
    shown: CaptionedPicture

    def numbers(self) -> dict[str, object]:
        """See Result.numbers."""
        return {
            "image": str(self.image),
            "caption": self.caption,
            "words": list(self.shown.words),
            "attention": self.shown.attention,
        }

    def summary(self) -> list[str]:
        """See Result.summary."""
        return [self.caption]


def _rank(validation: Validation) -> tuple[float, float]:
    return validation.bleu, -validation.loss


@dataclass(frozen=True)
class _Part:
    """Some of the images: their rows in the cache, and the ids of their captions."""

    images: Sequence[CaptionedImage]
    rows: Sequence[int]
    ids: Sequence[Sequence[Sequence[int]]]

    def refs(self) -> list[tuple[str, ...]]:
        """The captions as references, in lower case as the captioner writes."""
        return [tuple(text.lower() for text in image.captions) for image in self.images]


def train_on_images(options: CaptionsOptions) -> TrainedResult:
    """Compute features, train, validate, test, and keep the captioner in `options.model`."""
    assert options.images is not None
    assert options.captions is not None
    assert options.weights is not None
    images = read_captions(options.images, options.captions)
    parts = _split(images, options)
    prepare(options.model)
    cnn = load_cnn(options.cnn, options.side, options.weights, options.seed)
    cache = FeatureCache(options.model / FEATURES, cnn, [image.path for image in images])
    tokenizer = _tokenizer([images[row] for row in parts[0]], options)
    training, valid, test = (_part(images, rows, tokenizer) for rows in parts)
    started = time.perf_counter()
    with seeded(options.seed):
        captioner = ImageCaptioner.new(options, tokenizer, cnn)
        validations = _train(captioner, cache, training, valid)
    seconds = time.perf_counter() - started
    captioner.save(options.model)
    found = _found(captioner, cache, test)
    texts = [captioner.text_of(each) for each in found]
    pictures = [read_picture(image.path, options.side) for image in test.images[:_SHOWN]]
    return TrainedResult(
        folder=options.model,
        n_images=(len(training.rows), len(valid.rows), len(test.rows)),
        n_words=len(tokenizer.vocab),
        n_computed=cache.n_computed,
        validations=tuple(validations),
        bleu=score("bleu", [text.lower() for text in texts], test.refs(), options.language),
        tests=tuple(zip(test.images, texts, strict=True)),
        shown=tuple(captioner.shown(*each) for each in zip(pictures, found, strict=False)),
        seconds=seconds,
    )


def _split(images: Sequence[CaptionedImage], options: CaptionsOptions) -> list[list[int]]:
    """Rows for training, validation and test: an image is in one of them, with all its captions."""
    rows = list(range(len(images)))
    random.Random(f"split {options.seed}").shuffle(rows)
    n_held = max(1, round(options.held_out * len(rows)))
    if len(rows) <= 2 * n_held:
        raise DataError(
            f"{options.captions}: got {len(rows)} images with captions, allowed: at least "
            f"{2 * n_held + 1}, for training, validation and test"
        )
    return [rows[2 * n_held :], sorted(rows[:n_held]), sorted(rows[n_held : 2 * n_held])]


def _tokenizer(images: Sequence[CaptionedImage], options: CaptionsOptions) -> WordTokenizer:
    """The words of the training captions, in lower case."""
    texts = [normalise(text, options.language) for image in images for text in image.captions]
    config = WordConfig(lower=True, min_freq=1, max_size=options.words, joint=True)
    name = f"training {options.language}"
    return config.build(config.train(texts, name, options.seed), options.language)


def _part(images: Sequence[CaptionedImage], rows: Sequence[int], tokenizer: WordTokenizer) -> _Part:
    chosen = [images[row] for row in rows]
    ids = [
        [[BOS_ID, *words, EOS_ID] for words in tokenizer.encode_batch(image.captions)]
        for image in chosen
    ]
    return _Part(chosen, rows, ids)


def _train(
    captioner: ImageCaptioner, cache: FeatureCache, training: _Part, valid: _Part
) -> list[Validation]:
    """Train, and leave the captioner with the weights of its best validation."""
    options = captioner.options
    every = max(1, options.updates // options.evaluations)
    found: list[Validation] = []
    best: dict[str, Tensor] = {}
    batches = _batches(cache, training, options)
    losses = train(captioner.model, batches, options.updates, options.lr)
    for update, _ in enumerate(losses, start=1):
        if update % every and update != options.updates:
            continue
        found.append(_validate(captioner, cache, valid, update))
        if found[-1] == max(found, key=_rank):  # the first of equals
            best = {name: v.clone() for name, v in captioner.model.state_dict().items()}
    captioner.model.load_state_dict(best)
    return found


def _batches(cache: FeatureCache, part: _Part, options: CaptionsOptions) -> Iterator[CaptionBatch]:
    """Every image once in each pass, in random order, with one of its captions; without end."""
    chance = random.Random(f"batches {options.seed}")
    while True:
        order = chance.sample(range(len(part.rows)), len(part.rows))
        for start in range(0, len(order), options.pictures):
            chosen = order[start : start + options.pictures]
            captions = [chance.choice(part.ids[i]) for i in chosen]
            features = cache.features([part.rows[i] for i in chosen])
            yield CaptionBatch.of(features, range(len(chosen)), captions)


@torch.inference_mode()
def _validate(
    captioner: ImageCaptioner, cache: FeatureCache, part: _Part, update: int
) -> Validation:
    """The loss on all captions of the part, and BLEU of those that a search finds."""
    texts = [captioner.text_of(each).lower() for each in _found(captioner, cache, part)]
    settings = StepSettings()
    nll_sum, n_tokens = 0.0, 0
    for row, captions in zip(part.rows, part.ids, strict=True):
        batch = CaptionBatch.of(cache.features([row]), [0] * len(captions), captions)
        loss = caption_loss(captioner.model, batch, settings)
        nll_sum, n_tokens = nll_sum + float(loss.nll_sum), n_tokens + loss.n_tokens
    return Validation(update, nll_sum / n_tokens, corpus_bleu(texts, part.refs()))


def _found(captioner: ImageCaptioner, cache: FeatureCache, part: _Part) -> list[Hypothesis]:
    """The best caption of every image of the part."""
    starts = range(0, len(part.rows), _TOGETHER)
    features = (cache.features(part.rows[start : start + _TOGETHER]) for start in starts)
    beam = captioner.options.beam
    return [found for some in features for found in captioner.describe(some, beam)]


def caption_own_image(options: CaptionsOptions) -> OwnImageResult:
    """Caption `options.image` by the captioner in `options.model`.

    Raises ConfigError for options that belong to a training.
    """
    assert options.image is not None
    other = sorted(options.model_fields_set - {"image", "model", "beam", "seed"})
    if other:
        raise ConfigError(f"{other[0]}: a kept captioner has its own; allowed with `image`: beam")
    captioner = ImageCaptioner.load(options.model)
    caption, shown = captioner.caption(options.image, options.beam)
    return OwnImageResult(options.image, caption, shown)


def draw_images(result: TrainedResult | OwnImageResult) -> Figure:
    """Draw where each word looked: in some test images, or in one's own."""
    return draw_pictures(result.shown if isinstance(result, TrainedResult) else [result.shown])
