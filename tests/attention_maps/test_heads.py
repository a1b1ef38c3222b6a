import pytest

from nmt.attention_maps.heads import MEAN, Head, choose_heads
from nmt.errors import ConfigError

NAMES = tuple(f"layer {layer} head {head}" for layer in (1, 2, 10) for head in (1, 2, 3, 4))


def indices(wanted: str, names: tuple[str, ...] = NAMES) -> list[int | None]:
    chosen = choose_heads(wanted, {"cross": names})
    for head in chosen:
        assert head.name == ("mean" if head.index is None else names[head.index])
    return [head.index for head in chosen]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("mean", [None]),
        ("all", list(range(12))),
        ("1", [0]),
        ("12", [11]),
        ("3,1", [2, 0]),
        ("layer 2 head 3", [6]),
        ("Layer  2 HEAD 3", [6]),
        ("layer 1", [0, 1, 2, 3]),
        ("layer 10", [8, 9, 10, 11]),
        ("head 2", [1, 5, 9]),
        ("mean, layer 1 head 1 , 1, mean", [None, 0]),
        ("all,mean", [*range(12), None]),
    ],
)
def test_what_parts_mean(wanted: str, expected: list[int | None]) -> None:
    assert indices(wanted) == expected


def test_a_whole_name_is_not_taken_for_a_part_of_longer_ones() -> None:
    assert indices("a", ("a b", "a", "b a")) == [1]
    assert indices("b", ("a b", "a", "b a")) == [0, 2]


def test_one_head_has_its_name() -> None:
    assert choose_heads("all", {"cross": ("attention",)}) == (Head("attention", 0),)
    assert choose_heads("mean,cross", {"cross": ("attention",)}) == (MEAN, Head("attention", 0))


@pytest.mark.parametrize("wanted", ["0", "13", "layer 3", "lay", "", "1,,2", "head 2 layer", "-1"])
def test_a_part_that_means_nothing_is_one_line(wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_heads(wanted, {"cross": NAMES})
    wrong = "" if wanted in ("", "1,,2") else wanted
    assert str(caught.value) == (
        f"`heads`: got '{wrong}', allowed: mean, all, 1 to 12, or words of the names "
        "'layer 1 head 1' to 'layer 10 head 4'; several with commas"
    )


def test_with_one_head_the_message_names_it() -> None:
    with pytest.raises(ConfigError, match=r"^`heads`: got '2', allowed: mean, all, 1, or the "):
        choose_heads("2", {"cross": ("attention",)})


WHOLE = {
    "encoder": tuple(f"encoder {name}" for name in NAMES[:8]),
    "decoder": tuple(f"decoder {name}" for name in NAMES),
    "cross": NAMES,
}


@pytest.mark.parametrize(
    ("wanted", "attention", "expected"),
    [
        ("encoder", "encoder", range(8)),
        ("Decoder", "decoder", range(12)),
        ("cross", "cross", range(12)),
        ("encoder.2", "encoder", range(4, 8)),
        ("encoder 2", "encoder", range(4, 8)),
        ("encoder layer 2", "encoder", range(4, 8)),
        ("decoder.10.3", "decoder", [10]),
        ("decoder layer 10 head 3", "decoder", [10]),
        ("decoder head 3", "decoder", [2, 6, 10]),
        ("cross.1.2", "cross", [1]),
        ("layer 2", "cross", range(4, 8)),
        ("2", "cross", [1]),
        ("encoder.1.2, encoder.1.1", "encoder", [1, 0]),
    ],
)
def test_the_first_word_says_which_attention(wanted: str, attention: str, expected) -> None:
    chosen = choose_heads(wanted, WHOLE)
    assert [head.index for head in chosen] == list(expected)
    assert all(head.attention == attention for head in chosen)
    assert all(head.name == WHOLE[attention][head.index] for head in chosen)


def test_all_is_every_head_of_every_attention() -> None:
    chosen = choose_heads("all", WHOLE)
    assert [head.name for head in chosen] == [name for names in WHOLE.values() for name in names]


@pytest.mark.parametrize("wanted", ["encoder.3", "encoder.1.5", "encoder.1.1.1", "decoder.mean"])
def test_what_no_attention_has_is_one_line(wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_heads(wanted, WHOLE)
    assert str(caught.value) == (
        f"`heads`: got '{wanted}', allowed: encoder, decoder, cross, each also with .LAYER or "
        ".LAYER.HEAD; mean, all, 1 to 12, or words of the names 'layer 1 head 1' to "
        "'layer 10 head 4'; several with commas"
    )


@pytest.mark.parametrize("wanted", ["encoder", "decoder.1"])
def test_a_recurrent_model_has_no_self_attention(wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_heads(wanted, {"cross": ("attention",)})
    assert str(caught.value) == (
        f"`heads`: got '{wanted}', allowed: mean, all, 1, or the head's name, 'attention'; "
        "this model has no self-attention: it is recurrent"
    )
