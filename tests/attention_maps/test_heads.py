import pytest

from nmt.attention_maps.heads import MEAN, Head, choose_heads
from nmt.errors import ConfigError

NAMES = tuple(f"layer {layer} head {head}" for layer in (1, 2, 10) for head in (1, 2, 3, 4))


def indices(wanted: str, names: tuple[str, ...] = NAMES) -> list[int | None]:
    chosen = choose_heads(wanted, names)
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
    assert choose_heads("all", ("attention",)) == (Head("attention", 0),)
    assert choose_heads("mean", ("attention",)) == (MEAN,)


@pytest.mark.parametrize("wanted", ["0", "13", "layer 3", "lay", "", "1,,2", "head 2 layer", "-1"])
def test_a_part_that_means_nothing_is_one_line(wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_heads(wanted, NAMES)
    wrong = "" if wanted in ("", "1,,2") else wanted
    assert str(caught.value) == (
        f"`heads`: got '{wrong}', allowed: mean, all, 1 to 12, or words of the names "
        "'layer 1 head 1' to 'layer 10 head 4'; several with commas"
    )


def test_with_one_head_the_message_names_it() -> None:
    with pytest.raises(ConfigError, match=r"^`heads`: got '2', allowed: mean, all, 1, or the "):
        choose_heads("2", ("attention",))
