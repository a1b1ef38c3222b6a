"""Captions of image files: learned, measured on images held out, kept, and used on another one.

The network is a small one in torchvision's place: its wheel fits one build of torch alone.
"""

import json
import re
import sys
import types
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from click.testing import Result
from PIL import Image
from torch import nn
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.errors import ConfigError, DataError, NMTError
from nmt.lab.captioning.caption_file import read_captions
from nmt.lab.captioning.cnn import CNN, load_cnn, read_picture
from nmt.lab.captioning.feature_cache import FeatureCache
from nmt.lab.captioning.kept import ImageCaptioner
from nmt.lab.captioning.light import CaptionedPicture, draw_pictures
from nmt.lab.captioning.options import CaptionsOptions
from nmt.lab.captioning.photographs import train_on_images
from nmt.storage.output import command_files

COLOURS = {"red": (220, 30, 30), "green": (30, 180, 60), "blue": (30, 60, 220)}
SIDE = 64


def small_resnet(name: str, weights: object = None) -> nn.Module:
    """A network with children as torchvision's ResNets have them: 4 x 4 places of 13 numbers."""
    assert (name, weights) == ("resnet18", None)
    layers = {
        "conv1": nn.Conv2d(3, 7, 4, stride=4, bias=False),
        "bn1": nn.BatchNorm2d(7),
        "relu": nn.ReLU(),
        "layer4": nn.Conv2d(7, 13, 4, stride=4),
        "avgpool": nn.AdaptiveAvgPool2d(1),
        "fc": nn.Linear(13, 5),
    }
    return nn.Sequential(OrderedDict(layers))


@pytest.fixture(autouse=True)
def _torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    models = types.ModuleType("torchvision.models")
    models.get_model = small_resnet  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


def paint(path: Path, colour: str, width: int = SIDE) -> None:
    """Write a picture whose upper half has the colour."""
    picture = Image.new("RGB", (width, SIDE), (240, 240, 240))
    picture.paste(COLOURS[colour], (0, 0, width, SIDE // 2))
    picture.save(path)


@pytest.fixture
def album(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with 12 pictures in `images` and two captions of each."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").mkdir()
    lines = []
    for number in range(12):
        colour, name = list(COLOURS)[number % 3], f"{number:02}.png"
        paint(tmp_path / "images" / name, colour, SIDE + 9 * (number % 2))
        lines += [f"{name}\tA {colour} sky.", f"{name}\tA {colour} sky, no more."]
    (tmp_path / "captions.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


TRAINING = ("--images", "images", "--captions", "captions.tsv", "--weights", "random")
QUICK = ("side=64", "updates=80", "pictures=4", "hidden=24", "evaluations=4", "dropout=0.0")


def captions(*arguments: str, settings: tuple[str, ...] = ()) -> Result:
    flags = [word for setting in settings for word in ("--set", setting)]
    return CliRunner().invoke(app, ["lab", "captions", *arguments, *flags])


def options(**values: object) -> CaptionsOptions:
    needed = {"images": "images", "captions": "captions.tsv", "weights": "random", "side": SIDE}
    return CaptionsOptions.model_validate({**needed, **values}, strict=False)


def test_it_learns_keeps_its_model_and_captions_an_image_of_ones_own(album: Path) -> None:
    trained = captions(*TRAINING, "--model", "kept", settings=QUICK)
    assert trained.exit_code == 0, trained.output
    numbers = json.loads(Path("lab/captions.json").read_text())["numbers"]
    assert numbers["images"] == {"training": 10, "validation": 1, "test": 1}
    assert numbers["features_computed"] == 12
    assert numbers["test_bleu"]["score"] > 60
    assert len(numbers["validations"]) == 4
    Path("images").rename("elsewhere")  # the kept folder is all that is needed
    for colour in COLOURS:
        paint(Path("own.png"), colour, 2 * SIDE)
        told = captions("--model", "kept", "--image", "own.png", "--out", "told", "--force")
        assert told.exit_code == 0, told.output
        assert told.stdout.startswith(f"a {colour} sky")
    numbers = json.loads(Path("told/captions.json").read_text())["numbers"]
    weights = np.array(numbers["attention"])
    assert weights.shape == (len(numbers["words"]), 4, 4)
    assert weights.sum(axis=(1, 2)) == pytest.approx(np.ones(len(weights)), abs=1e-4)
    assert_one_line(captions("--model", "kept", "--image", "no.png", "--force"), "no.png: ")
    Path("kept/model.safetensors").write_bytes(Path("kept/cnn.safetensors").read_bytes())
    damaged = captions("--model", "kept", "--image", "own.png", "--force")
    assert_one_line(damaged, "not the weights of this captioner")


def test_features_are_computed_once_and_only_for_what_is_new(album: Path) -> None:
    cnn = load_cnn("resnet18", SIDE, "random", 1)
    images, folder = sorted((album / "images").iterdir()), album / "cache"
    first, again = (FeatureCache(folder, cnn, images[:n]) for n in (5, 6))
    assert (first.n_computed, again.n_computed) == (5, 1)
    assert torch.equal(first.features([4, 2]).values, again.features([4, 2]).values)
    direct = cnn([read_picture(images[2], SIDE)])
    torch.testing.assert_close(again.features([2]).values, direct, rtol=1e-3, atol=1e-3)
    other_seed = load_cnn("resnet18", SIDE, "random", 2)
    assert FeatureCache(folder, other_seed, images[:5]).n_computed == 5
    for damage in (b"cut", safetensors.torch.save({"features": torch.zeros(2, 3).half()})):
        again.files[0].write_bytes(damage)
        assert FeatureCache(folder, cnn, images[:5]).n_computed == 1
    again.files[0].unlink()
    with pytest.raises(DataError, match="gone, or damaged"):
        again.features([0])


def test_two_trainings_give_the_same_model_and_it_is_kept(album: Path) -> None:
    small = {"updates": 3, "pictures": 4, "hidden": 8, "evaluations": 1}
    before = torch.get_rng_state()
    first, second = (train_on_images(options(model=name, **small)) for name in ("one", "two"))
    assert torch.equal(torch.get_rng_state(), before)
    assert first.tests == second.tests
    files = [Path(folder, "model.safetensors").read_bytes() for folder in ("one", "two")]
    assert files[0] == files[1]
    captioner = ImageCaptioner.load(Path("one"))
    for (image, text), shown in zip(first.tests, first.shown, strict=True):
        said, picture = captioner.caption(image.path, beam=1)
        assert said == text
        np.testing.assert_allclose(picture.attention, shown.attention, atol=1e-3)  # fp16 features
    with pytest.raises(ConfigError):
        train_on_images(options(model="two", seed=2, **small))
    assert Path("two/model.safetensors").read_bytes() == files[1]
    with command_files({}, force=True):
        replaced = train_on_images(options(model="two", seed=2, **small))
    assert replaced.n_computed == 12  # the random network is another
    assert Path("two/model.safetensors").read_bytes() != files[1]


# ---- the network


def test_the_grid_keeps_the_places_of_the_picture() -> None:
    cnn = load_cnn("resnet18", SIDE, "random", 1)
    picture = np.full((SIDE, SIDE, 3), 128, np.uint8)
    marked = picture.copy()
    marked[16:32, 48:64] = 0  # row 1, column 3
    changed = (cnn([picture]) - cnn([marked])).abs().sum(dim=2)[0].nonzero().flatten()
    assert changed.tolist() == [1 * 4 + 3]
    assert not cnn.training
    assert not any(parameter.requires_grad for parameter in cnn.parameters())


@pytest.mark.parametrize("size", [(64, 200), (50, 50), (301, 300)])
def test_a_picture_is_the_square_in_the_middle(tmp_path: Path, size: tuple[int, int]) -> None:
    picture = Image.new("RGB", size, (255, 255, 255))
    half = (size[0] // 2, size[1] // 2)
    picture.paste((255, 0, 0), (half[0] - 20, half[1] - 20, half[0] + 20, half[1] + 20))
    picture.save(tmp_path / "a.png")
    square = read_picture(tmp_path / "a.png", SIDE)
    assert square.shape == (SIDE, SIDE, 3)
    red = np.argwhere(square[:, :, 1] < 128)
    assert red.mean(axis=0) == pytest.approx((31.5, 31.5), abs=1)
    assert np.ptp(red[:, 0]) == np.ptp(red[:, 1])  # not distorted


def weights_file(path: Path, changed: dict[str, torch.Tensor], *lacking: str) -> str:
    torch.manual_seed(7)
    tensors = {**small_resnet("resnet18").state_dict(), **changed}
    safetensors.torch.save_file({k: v for k, v in tensors.items() if k not in lacking}, path)
    return str(path)


def test_weights_come_from_a_file_whatever_the_classifier(tmp_path: Path) -> None:
    unused = ("fc.weight", "fc.bias", "bn1.num_batches_tracked")
    files = weights_file(tmp_path / "a", {}), weights_file(tmp_path / "b", {}, *unused)
    cnns = [load_cnn("resnet18", SIDE, file, seed) for seed, file in enumerate(files)]
    tensors = safetensors.torch.load_file(files[0])
    for cnn in cnns:
        state = cnn.layers.state_dict()
        assert all(torch.equal(state[name], tensors[name]) for name in state)
    assert cnns[0].fingerprint() == cnns[1].fingerprint()
    assert cnns[0].fingerprint() != load_cnn("resnet18", SIDE, "random", 1).fingerprint()


@pytest.mark.parametrize(
    ("lacking", "changed", "message"),
    [
        (("conv1.weight", "layer4.bias"), {}, "it lacks conv1.weight (and 1 more)"),
        ((), {"layer9.weight": torch.zeros(2)}, "it has 'layer9.weight'"),
        ((), {"layer4.weight": torch.zeros(13, 7, 3, 3)}, "layer4.weight: got (13, 7, 3, 3)"),
        ((), {"layer4.bias": torch.full((13,), torch.nan)}, "layer4.bias: 13 of 13 numbers"),
    ],
)
def test_a_weights_file_that_does_not_fit(
    tmp_path: Path, lacking: tuple[str, ...], changed: dict[str, torch.Tensor], message: str
) -> None:
    file = weights_file(tmp_path / "w", changed, *lacking)
    with pytest.raises(NMTError, match=re.escape(message)):
        load_cnn("resnet18", SIDE, file, 1)


def test_vgg_ends_before_its_last_pooling(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchvision's VGG: `features`, whose last layer is a max-pooling, and two more."""

    def small_vgg(name: str, weights: object = None) -> nn.Module:
        features = nn.Sequential(nn.Conv2d(3, 5, 4, stride=4), nn.ReLU(), nn.MaxPool2d(2))
        head = {"avgpool": nn.AdaptiveAvgPool2d(1), "classifier": nn.Linear(5, 2)}
        return nn.Sequential(OrderedDict({"features": features, **head}))

    monkeypatch.setattr(sys.modules["torchvision.models"], "get_model", small_vgg)
    cnn = CNN("vgg16", SIDE)
    assert list(cnn.layers.state_dict()) == ["features.0.weight", "features.0.bias"]
    assert cnn([np.zeros((SIDE, SIDE, 3), np.uint8)]).shape == (1, 16 * 16, 5)


# ---- the files


def assert_one_line(result: Result, message: str) -> None:
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_forms_of_the_caption_file(album: Path) -> None:
    images = album / "images"
    plain = read_captions(images, album / "captions.tsv")
    assert [len(image.captions) for image in plain] == [2] * 12
    assert plain[1].captions == ("A green sky.", "A green sky, no more.")
    pairs = [line.split("\t") for line in (album / "captions.tsv").read_text().splitlines()]
    numbered = [f"{name}#{i % 2}\t{caption}" for i, (name, caption) in enumerate(pairs)]
    (album / "token.txt").write_text("\n".join(numbered))
    assert read_captions(images, album / "token.txt") == plain
    rows = [f'{name},"{caption}"' for name, caption in pairs]
    (album / "captions.csv").write_text("\n".join(["image,caption", *rows]))
    assert read_captions(images, album / "captions.csv") == plain
    (album / "captions.csv").write_text(f'image,caption\nred.png,"{"x" * 200_000}"')
    with pytest.raises(DataError, match=r"captions.csv:2: field larger than field limit"):
        read_captions(images, album / "captions.csv")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("../own.png\tA red sky.", "captions.tsv:25: no image '../own.png' in images"),
        ("00.png A red sky.", "captions.tsv:25: got no tab"),
        ("00.png\t ", "captions.tsv:25: '00.png' has an empty caption"),
    ],
)
def test_a_wrong_line_of_the_captions(album: Path, line: str, message: str) -> None:
    with (album / "captions.tsv").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(DataError, match=re.escape(message)):
        read_captions(Path("images"), Path("captions.tsv"))


def test_images_that_cannot_be_used_are_named(album: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    Image.fromarray(noise).save(album / "images" / "03.png")
    for content in (b"", b"no image", (album / "images" / "03.png").read_bytes()[:3000]):
        (album / "images" / "03.png").write_bytes(content)
        assert_one_line(captions(*TRAINING, settings=QUICK), "images/03.png: not an image")
    paint(album / "images" / "other.png", "red")
    assert_one_line(captions(*TRAINING), "images/other.png: no caption in captions.tsv")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (TRAINING[:2], "captions: missing; images, captions and weights"),
        ((*TRAINING, "--image", "x.png"), "a kept model captions it; give no images with it"),
        (("--image", "x.png", "--model", "none"), "none: no captioner is kept here"),
        (("--image", "x.png", "--set", "hidden=64"), "hidden: a kept captioner has its own"),
        (("--images", "no", *TRAINING[2:]), "no: no such folder"),
        ((*TRAINING[:2], "--captions", "no.tsv", *TRAINING[4:]), "no.tsv: no such file"),
        ((*TRAINING[:4], "--weights", "captions.tsv"), "not a safetensors file"),
        ((*TRAINING, "--model", "images"), "images: has other files in it"),
        ((*TRAINING, "--set", "held_out=0.49"), "got 12 images with captions, allowed: at least"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    album: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert_one_line(captions(*arguments), message)


def test_without_torchvision_it_says_what_to_install(
    album: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    assert_one_line(captions(*TRAINING), "--images: the network is torchvision's: pip install")


def test_a_word_lights_where_it_looks_on_one_scale() -> None:
    weights = np.full((9, 4, 4), 1 / 16, np.float32)
    weights[1] = 0.02 / 15
    weights[1, 1, 2] = 0.98
    words = tuple(f"w{i}" for i in range(9))
    picture = np.full((SIDE, SIDE, 3), 200, np.uint8)
    figure = draw_pictures([CaptionedPicture(picture, words, weights)])
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == list(words)
    even, sharp = (np.asarray(panels[i].images[0].get_array())[:, :, 0] for i in (0, 1))
    row, column = np.unravel_index(sharp.argmax(), sharp.shape)
    assert (row // 16, column // 16) == (1, 2)
    assert sharp.max() == 200
    assert even.max() < 90
