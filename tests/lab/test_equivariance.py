"""What the experiment on equivariance says is so."""

import numpy as np
import pytest

from nmt.errors import ConfigError
from nmt.lab.equivariance import ATTENTION, BARE, FULL, POSITIONS, EquivarianceOptions, run
from nmt.lab.perform import perform


@pytest.mark.parametrize("options", [{}, {"seed": 2, "size": 38, "heads": 19}, {"heads": 1}])
def test_only_attention_without_positions_is_equivariant(options: dict[str, int]) -> None:
    result = run(EquivarianceOptions(permutations=30, **options))
    assert result.greatest[BARE] < 5e-6
    assert result.greatest[ATTENTION] < 5e-6
    assert result.greatest[POSITIONS] > 0.3
    assert result.greatest[FULL] > 1


def test_shuffled_words_give_shuffled_weights_and_places_keep_theirs() -> None:
    result = run(EquivarianceOptions(permutations=3))
    order = np.array(result.order)
    assert sorted(order) != order.tolist()
    own, full = result.shown[ATTENTION], result.shown[FULL]
    np.testing.assert_allclose(own.shuffled_weights, own.weights[np.ix_(order, order)], atol=1e-6)
    np.testing.assert_allclose(own.weights.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(full.shuffled_weights, full.weights)


def test_only_the_full_layer_hangs_on_the_length() -> None:
    shorter = run(EquivarianceOptions(permutations=1)).shorter
    assert [name for name, answer in shorter.items() if answer == "works"] == [
        BARE,
        ATTENTION,
        POSITIONS,
    ]
    assert "80" in shorter[FULL]  # five words of 16 numbers
    assert "96" in shorter[FULL]


def test_the_full_layer_grows_with_the_length_and_attention_does_not() -> None:
    short = run(EquivarianceOptions(sentence="one two", permutations=1)).parameters
    long = run(EquivarianceOptions(sentence="one two three four", permutations=1)).parameters
    assert short[ATTENTION] == long[ATTENTION] == short[POSITIONS]
    assert (short[FULL], long[FULL]) == (32 * 33, 64 * 65)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("heads=3", "heads: got 3, allowed: a divisor of size (16)"),
        ("sentence=one", "sentence: got 'one', allowed: 2 to 24 words, no word twice"),
        ("sentence=a rose is a rose", "allowed: 2 to 24 words, no word twice"),
        ("size=0", "size: got 0, allowed: >= 2"),
    ],
)
def test_wrong_options_are_a_line(override: str, message: str, tmp_path) -> None:
    with pytest.raises(ConfigError) as error:
        perform("equivariance", [override], tmp_path / "new")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "new").exists()
