import pytest

from nmt.errors import ConfigError
from nmt.translation.heads import MEAN, Head, choose_heads

NAMES = tuple(f"layer {layer} head {head}" for layer in (1, 2, 10) for head in (1, 2, 3, 4))
WHOLE = {
    "encoder": tuple(f"encoder {name}" for name in NAMES[:8]),
    "decoder": tuple(f"decoder {name}" for name in NAMES),
    "cross": NAMES,
}
RECURRENT = {"cross": ("attention",)}


@pytest.mark.parametrize(
    ("wanted", "attention", "expected"),
    [
        ("1", "cross", [0]),
        ("3,12", "cross", [2, 11]),
        ("Layer  2 HEAD 3", "cross", [6]),
        ("layer 1", "cross", range(4)),  # and not layer 10
        ("layer 10", "cross", range(8, 12)),
        ("head 2", "cross", [1, 5, 9]),
        ("layer 1 head 2 , 1, 2", "cross", [1, 0]),
        ("cross", "cross", range(12)),
        ("cross.1.2", "cross", [1]),
        ("encoder", "encoder", range(8)),
        ("Encoder.2", "encoder", range(4, 8)),
        ("encoder layer 2", "encoder", range(4, 8)),
        ("encoder.1.2, encoder.1.1", "encoder", [1, 0]),
        ("decoder 10.3", "decoder", [10]),
        ("decoder head 3", "decoder", [2, 6, 10]),
    ],
)
def test_a_part_selects_heads_of_one_attention(wanted: str, attention: str, expected) -> None:
    heads = choose_heads(wanted, WHOLE)
    names = WHOLE[attention]
    assert list(heads) == [Head(names[index], index, attention) for index in expected]


def test_all_is_every_head_and_the_mean_is_named() -> None:
    heads = choose_heads("all,mean", WHOLE)
    expected = [name for names in WHOLE.values() for name in names]
    assert [head.name for head in heads] == [*expected, "mean"]
    assert choose_heads("mean,cross,mean", RECURRENT) == (MEAN, Head("attention", 0))


def test_a_whole_name_is_not_taken_for_a_part_of_longer_ones() -> None:
    names = {"cross": ("a b", "a", "b a")}
    assert [head.index for head in choose_heads("a", names)] == [1]
    assert [head.index for head in choose_heads("b", names)] == [0, 2]


@pytest.mark.parametrize(
    "wanted", ["0", "13", "lay", "", "1,,2", "head 2 layer", "encoder.3", "encoder.1.1.1"]
)
def test_a_part_that_means_nothing_is_refused(wanted: str) -> None:
    wrong = "" if wanted == "1,,2" else wanted
    with pytest.raises(ConfigError, match=f"^`heads`: got '{wrong}', allowed: .*1 to 12"):
        choose_heads(wanted, WHOLE)
    with pytest.raises(ConfigError, match=f"got '{wrong}', .*'attention'"):
        choose_heads(wanted, RECURRENT)
