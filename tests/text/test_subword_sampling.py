import itertools
import math
import random
from collections import Counter
from functools import cache

import pytest
from text.draws import assert_drawn_from

from nmt.text.sentencepiece_tokenizer import SentencePieceConfig, SentencePieceTokenizer
from nmt.text.subword_sampling import Sampler, SubwordSamplingConfig

TEXTS = [
    f"{the} {a} and the other {b} {c} in the {d} of the USA"
    for the in ("the", "A", "no")
    for a, b in itertools.permutations(("mother", "brother", "cat", "dog", "father"), 2)
    for c in ("sleeps", "sees others", "bothers nobody")
    for d in ("theatre", "house", "north")
]
N = 3000


@cache
def trained(model_type: str, case: str) -> SentencePieceTokenizer:
    size = 60 if model_type == "bpe" else None  # None: as many as the text allows
    config = SentencePieceConfig(model_type=model_type, case=case, vocab_size=size)
    return config.build(config.train(TEXTS, "en", seed=1), "en")


def sampler_of(tokenizer: SentencePieceTokenizer, src: float, **config: float) -> Sampler:
    sampler = tokenizer.sampler(SubwordSamplingConfig.model_validate(config), src)
    assert sampler is not None
    return sampler


def counted(tokenizer: SentencePieceTokenizer, text: str, **config: float) -> Counter[str]:
    sampler = sampler_of(tokenizer, **config)
    ids = tokenizer.encode(text).ids
    samples = (sampler.sample(ids, random.Random(i)) for i in range(N))
    return Counter(" ".join(map(tokenizer.vocab.piece_of, row)) for row in samples)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize("case", ["keep", "markup"])
def test_sampled_pieces_spell_the_same_text(model_type: str, case: str) -> None:
    tokenizer = trained(model_type, case)
    assert tokenizer.sampler(SubwordSamplingConfig(), 0.0) is None
    never, sampler = sampler_of(tokenizer, 1e-12), sampler_of(tokenizer, 0.5)
    for i, text in enumerate([*TEXTS[::30], "THE CAT AND THE USA see A dog", "nobodyshousethe"]):
        ids = tokenizer.encode(text).ids
        assert never.sample(ids, random.Random(1)) == ids
        other = sampler.sample(ids, random.Random(i))
        assert other == sampler.sample(ids, random.Random(i))
        assert tokenizer.decode(other) == tokenizer.decode(ids)
    assert len({sampler.sample(ids, random.Random(i)) for i in range(20)}) > 2
    ids = tokenizer.encode("the 日本 cat").ids  # an unknown piece
    assert sampler.sample(ids, random.Random(1)) == ids


def _dropout(
    pieces: tuple[str, ...], scores: dict[str, float], rate: float
) -> dict[tuple[str, ...], float]:
    """The distribution of algorithm 1 by recursion over every choice of dropped merges."""
    merges = [i for i in range(len(pieces) - 1) if pieces[i] + pieces[i + 1] in scores]
    distribution: Counter[tuple[str, ...]] = Counter()
    for dropped in itertools.product([True, False], repeat=len(merges)):
        p = math.prod(rate if drop else 1 - rate for drop in dropped)
        candidates = [i for i, drop in zip(merges, dropped, strict=True) if not drop]
        if not candidates:
            distribution[pieces] += p
            continue
        best = max(candidates, key=lambda i: (scores[pieces[i] + pieces[i + 1]], -i))
        joined = (*pieces[:best], pieces[best] + pieces[best + 1], *pieces[best + 2 :])
        for end, q in _dropout(joined, scores, rate).items():
            distribution[end] += p * q
    return dict(distribution)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_bpe_dropout_is_algorithm_1(rate: float) -> None:
    tokenizer = trained("bpe", "keep")
    pieces = tokenizer.vocab.pieces[4:]
    scores = {p: tokenizer.processor.get_score(i) for i, p in enumerate(pieces, start=4)}
    word = _dropout(tuple("▁the"), scores, rate)
    assert len(word) > 3
    expected: Counter[str] = Counter()
    for (one, p), (other, q) in itertools.product(word.items(), repeat=2):
        expected[" ".join(one + other)] += p * q  # the draws go on from word to word
    assert_drawn_from(counted(tokenizer, "the the", src=rate), dict(expected))
    assert list(counted(tokenizer, "the cat", src=1.0)) == ["▁ t h e ▁ c a t"]  # no merge is left


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_unigram_sampling_is_the_papers_distribution(alpha: float) -> None:
    tokenizer = trained("unigram", "keep")
    pieces = tokenizer.vocab.pieces[4:]
    log_probs = {p: tokenizer.processor.get_score(i) for i, p in enumerate(pieces, start=4)}
    scores: dict[str, float] = {}
    word = "▁other"
    for cuts in itertools.product([False, True], repeat=len(word) - 1):
        spaced = word[0] + "".join(" " * cut + c for cut, c in zip(cuts, word[1:], strict=True))
        if all(piece in log_probs for piece in spaced.split()):
            scores[spaced] = sum(log_probs[piece] for piece in spaced.split())
    assert len(scores) > 3
    total = sum(math.exp(alpha * score) for score in scores.values())
    expected = {key: math.exp(alpha * score) / total for key, score in scores.items()}
    counts = counted(tokenizer, "other", src=1.0, alpha=alpha, n_best=512)
    assert_drawn_from(counts, expected)
    best = max(scores, key=scores.__getitem__)
    half = {key: p / 2 + (key == best) / 2 for key, p in expected.items()}
    assert_drawn_from(counted(tokenizer, "other", src=0.5, alpha=alpha, n_best=512), half)
    assert len(counted(tokenizer, "other", src=1.0, alpha=alpha, n_best=2)) <= 2
