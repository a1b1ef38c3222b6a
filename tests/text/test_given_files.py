"""SentencePiece models and lists of words that the user gives."""

import contextlib
import io
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from text.test_tokenizer import PAIRS

from nmt.errors import DataError
from nmt.text.normalisation import normalise
from nmt.text.sentencepiece_model import RULES, text_rules
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig, SentencePieceTokenizer
from nmt.text.subword_sampling import SubwordSamplingConfig
from nmt.text.tokenizer import TokenizerConfig, Tokenizers, train_tokenizers
from nmt.text.vocabulary import RESERVED, UNK_ID
from nmt.text.word_tokenizer import WordConfig, WordTokenizer

TEXTS = [pair.src_text for pair in PAIRS] + ["ﬁne ½ … Ａ 42", "İstanbul ÀÉ"]

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},  # as spm_train has it: unknown 0, bos 1, eos 2, no padding, rules nmt_nfkc
    "bpe": {"model_type": "bpe", "normalization_rule_name": "nfkc_cf"},
    "identity": {"normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "own ids": {"pad_id": 3, "eos_id": 0, "unk_id": 1, "bos_id": 2},
    "own names": {"bos_piece": "[B]", "eos_piece": "[E]", "unk_piece": "[U]", "pad_id": 3},
    "bytes": {"byte_fallback": True, "vocab_size": 314},
    "symbols": {"user_defined_symbols": ["<2fr>", "cat"], "control_symbols": ["<mask>"]},
    "bpe, symbols": {"user_defined_symbols": ["§§"], "model_type": "bpe"},
    "called as ours": {"user_defined_symbols": ["<pad>"]},
}


@cache
def trained(kind: str) -> bytes:
    return spm(**OPTIONS[kind])


def spm(**options: Any) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=model,
        minloglevel=2,
        **{"vocab_size": 58, "num_threads": 1, **options},
    )
    return model.getvalue()


@cache
def tokenizer_of(kind: str) -> SentencePieceTokenizer:
    return SentencePieceConfig().build_given(trained(kind), "en")


def processor(kind: str) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=trained(kind))


each_kind = pytest.mark.parametrize("kind", OPTIONS)
texts = st.text(st.sampled_from("Thecatdogsfx  .é½ﬁ…Ａ字<2fr>padmsk§ÀİI\u0301"), max_size=20)


@each_kind
@settings(max_examples=25, deadline=None)
@given(texts)
def test_a_text_has_the_pieces_that_sentencepiece_gives_it(kind: str, text: str) -> None:
    if kind == "called as ours" and "<pad>" in text:
        return  # there it is the file's symbol, with nmt it is text
    theirs, ours = processor(kind), tokenizer_of(kind)
    read = normalise(text, "en")
    encoded = ours.encode(text)
    assert list(encoded.pieces) == theirs.encode(read, out_type=str)
    unknown = theirs.unk_id()
    assert [i == UNK_ID for i in encoded.ids] == [i == unknown for i in theirs.encode(read)]
    assert ours.encode_batch([text]) == [encoded.ids]
    if UNK_ID not in encoded.ids:
        decoded = theirs.decode(theirs.encode(read))
        assert ours.decode(encoded.ids, restore=False) == " ".join(decoded.split())
    if kind == "identity" and UNK_ID not in encoded.ids:
        assert ours.decode(encoded.ids, restore=False) == read


@each_kind
def test_reserved_pieces_are_nmts_the_rest_keep_order_and_score(kind: str) -> None:
    theirs, ours = processor(kind), tokenizer_of(kind)
    ids = range(theirs.get_piece_size())
    special = {theirs.unk_id(), theirs.bos_id(), theirs.eos_id(), theirs.pad_id()}
    others = [i for i in ids if i not in special and theirs.id_to_piece(i) not in RESERVED]
    pieces = ours.vocab.pieces
    assert pieces == (*RESERVED, *(theirs.id_to_piece(i) for i in others))
    for new, old in enumerate(others, start=len(RESERVED)):
        assert ours.processor.get_score(new) == theirs.get_score(old)
        assert ours.processor.is_control(new) == theirs.is_control(old)
        assert ours.processor.is_byte(new) == theirs.is_byte(old)
    assert len(pieces) == ours.config.vocab_size
    assert ours.config.byte_fallback == ("bytes" in kind)
    assert ours.config.model_type == ("bpe" if "bpe" in kind else "unigram")


@each_kind
def test_a_given_model_is_saved_loaded_and_given_again(kind: str, tmp_path: Path) -> None:
    one, other = tmp_path / "a.model", tmp_path / "b.model"
    one.write_bytes(trained(kind))
    other.write_bytes(trained("plain"))
    tokenizers = train_tokenizers(
        SentencePieceConfig(src_model=one, tgt_model=other), [], "en", "fr", seed=1
    )
    tokenizers.save(tmp_path / "run")
    one.unlink()
    loaded = Tokenizers.load(tmp_path / "run")
    assert loaded.src.config == tokenizers.src.config
    assert loaded.tgt.config == tokenizers.tgt.config
    for text in TEXTS:
        assert loaded.src.encode(text) == tokenizer_of(kind).encode(text)
    model = loaded.src.model_bytes
    assert SentencePieceConfig().build_given(model, "en").model_bytes == model
    secret = trained(kind) + b"\x12\x08\x0a\x06secret"  # trainer_spec.input
    assert SentencePieceConfig().build_given(secret, "en").model_bytes == model


@pytest.mark.parametrize("kind", ["plain", "bpe", "bpe, symbols"])
def test_pieces_of_a_given_model_are_sampled(kind: str) -> None:
    """Also where a symbol of the user has letters without a piece of their own."""
    tokenizer = tokenizer_of(kind)
    sampler = tokenizer.sampler(SubwordSamplingConfig(), 1.0 if kind == "plain" else 0.5)
    assert sampler is not None
    rng = random.Random(1)
    drawn = set()
    for text in (*TEXTS[:4], "The §§ dog"):
        ids = tokenizer.encode(text).ids
        for _ in range(5):
            sampled = sampler.sample(ids, rng)
            drawn.add(sampled == ids)
            assert tokenizer.decode(sampled) == tokenizer.decode(ids)
    assert False in drawn


def test_case_markup_is_for_models_that_nmt_learned_with_it(tmp_path: Path) -> None:
    markup = SentencePieceConfig(vocab_size=48, case="markup")
    learned = train_tokenizers(markup, PAIRS, "en", "fr", seed=1).src
    path = tmp_path / "m.model"
    path.write_bytes(learned.model_bytes)
    config = SentencePieceConfig(src_model=path, joint=True, case="markup")
    taken = train_tokenizers(config, [], "en", "fr", seed=1).src
    for text in ("The CAT sleeps. A DOG", "MAN Man man"):
        assert taken.encode(text) == learned.encode(text)
    path.write_bytes(trained("plain"))
    with pytest.raises(DataError, match=r"src_model: .*m.model: .*tokenizer.case: markup"):
        train_tokenizers(config, [], "en", "fr", seed=1)
    path.write_bytes(learned.model_bytes)
    with pytest.raises(DataError, match=r"not a model for tokenizer.case: keep"):
        train_tokenizers(SentencePieceConfig(src_model=path, joint=True), [], "en", "fr", seed=1)
    path.write_bytes(spm(add_dummy_prefix=False, normalization_rule_name="identity"))
    with pytest.raises(DataError, match=r"case: markup, but the model lacks the piece ⇧"):
        train_tokenizers(config, [], "en", "fr", seed=1)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not a SentencePiece model"),
        (b"\xff" * 50, "not a SentencePiece model"),
        ({"model_type": "char"}, "pieces of type 'char', allowed: unigram, bpe"),
        ({"treat_whitespace_as_suffix": True}, "do not mark the beginning of a word by ▁"),
        ({"user_defined_symbols": ["½"]}, "its text rules (nmt_nfkc) alter its user-defined"),
    ],
)
def test_a_file_that_is_unfit_is_an_error_of_one_line(
    content: bytes | dict[str, Any], problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(content if isinstance(content, bytes) else spm(**content))
    config = SentencePieceConfig(src_model=path, joint=True)
    with pytest.raises(DataError) as caught:
        train_tokenizers(config, [], "en", "fr", seed=1)
    assert str(caught.value).startswith(f"tokenizer.src_model: {path}: ")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_each_cut_and_bit_of_a_model_is_a_tokenizer_or_an_error() -> None:
    content = SentencePieceConfig().build_given(trained("plain"), "en").model_bytes
    for place in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        for damaged in (content[:place], bytes(flipped)):
            with contextlib.suppress(DataError):
                SentencePieceConfig().build_given(damaged, "en").encode("The cat")


def test_rules_of_the_library_are_known_by_name() -> None:
    for name in RULES:
        assert text_rules(name)("a") == "a"
    assert text_rules("nmt_nfkc")("½ ﬁ") == "1⁄2 fi"
    custom = spm(normalization_rule_name="identity")
    assert custom.count(b"identity") == 1
    forged = custom.replace(b"identity", b"idenTity")
    with pytest.raises(DataError, match="text rules 'idenTity', allowed: identity, nfkc"):
        SentencePieceTokenizer(SentencePieceConfig(), forged, "en")


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"src_model": "a"}, "tgt_model: missing"),
        ({"src_model": "a", "tgt_model": "b", "joint": True}, "is src_model alone"),
        ({"src_model": "a", "joint": True, "vocab_size": 9}, "vocab_size: belongs to learning"),
        ({"kind": "word", "src_vocab": "a", "joint": True, "min_freq": 1}, "min_freq: belongs"),
    ],
)
def test_keys_that_contradict_a_given_file(config: dict[str, Any], problem: str) -> None:
    kind = WordConfig if config.get("kind") == "word" else SentencePieceConfig
    with pytest.raises(ValidationError, match=problem):
        kind.model_validate(config)


def words_of(content: bytes, **options: Any) -> tuple[str, ...]:
    return WordConfig(**options).build_given(content, "en").vocab.pieces


def test_words_are_taken_in_their_order_and_normalised() -> None:
    for content in (
        "the\ncat\n.\n",
        "the\t12\ncat\t3\n.\t3\n",
        "\ufeff<unk>\r\n<pad>\r\nthe\r\n</s>\r\ncat\r\n<s>\r\n.",
    ):
        assert words_of(content.encode()) == (*RESERVED, "the", "cat", ".")
    assert words_of(b"dog\ncat\n", lower=True)[4:] == ("dog", "cat")
    tokenizer = WordConfig().build_given("e\u0301te\u0301\nl’eau\n".encode(), "fr")
    assert UNK_ID not in tokenizer.encode("été l'eau l’eau").ids


def test_a_learned_vocabulary_is_taken_as_it_is(tmp_path: Path) -> None:
    config: TokenizerConfig = WordConfig()
    learned = train_tokenizers(config, PAIRS, "en", "fr", seed=1)
    learned.save(tmp_path)
    given_config = WordConfig(
        src_vocab=tmp_path / "src.vocab.txt", tgt_vocab=tmp_path / "tgt.vocab.txt"
    )
    taken = train_tokenizers(given_config, [], "en", "fr", seed=1)
    assert isinstance(taken.src, WordTokenizer)
    for one, other in ((taken.src, learned.src), (taken.tgt, learned.tgt)):
        assert one.vocab == other.vocab
        assert one.model_bytes == other.model_bytes


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"<s>\n</s>\n", "no word besides the reserved names"),
        (b"a\nb\na\n", "line 3: 'a' stands in line 1 too"),
        (b"a\n\nb\n", "line 2: got '', allowed: a word, or word<TAB>count"),
        (b"New York\n", "line 1: got 'New York', allowed: a word"),
        (b"a\tmany\n", r"line 1: got 'a\\tmany', allowed: a word"),
        (b"caf\xe9\n", "not UTF-8 at byte 3"),
        (b"dog\nCat\n", "line 2: 'Cat' has capitals"),
    ],
)
def test_an_unfit_list_of_words_names_its_line(content: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        words_of(content, lower=b"Cat" in content)
