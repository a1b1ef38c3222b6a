"""scripts/photographs.py: captions, the split, and a photograph on its background."""

import random
from pathlib import Path

import photographs
import pytest
from PIL import Image


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ("A “Fuji” apple.", ["fruit", "a", "fuji", "apple"]),
        ("Two wild boars.", ["fruit", "two", "wild", "boars"]),
        ("Eat your broccoli!", None),
        ("A peacock (a male peafowl).", None),
        ("A very large and very ripe pumpkin.", None),
    ],
)
def test_a_caption_is_the_folder_and_a_short_phrase(
    description: str, words: list[str] | None
) -> None:
    assert photographs.caption_of("food/fruit", description) == words


def test_the_split_holds_out_a_fifth_of_every_kind() -> None:
    kinds = ["bird"] * 10 + ["fish"] * 2 + ["bird"] * 5
    training, held_out = photographs.split(kinds, random.Random(1))
    assert sorted(training + held_out) == list(range(17))
    assert sorted(kinds[i] for i in held_out) == ["bird"] * 3 + ["fish"]


def test_a_view_covers_the_thing_only(tmp_path: Path) -> None:
    Image.new("RGBA", (40, 20), (255, 0, 0, 255)).save(tmp_path / "a.png")
    picture, covered = photographs.view(tmp_path / "a.png", random.Random(1))
    assert picture.shape == (320, 320, 3)
    red = (picture == picture.new_tensor([255, 0, 0])).all(dim=-1)
    assert (red.view(10, 32, 10, 32).float().mean(dim=(1, 3)).flatten() >= 0.1).equal(covered)
    assert 0.1 < red.float().mean() < 0.35
