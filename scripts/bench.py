"""The speed of training and decoding, beside the textbook's loop and the limit of the machine.

    python scripts/bench.py                                # training, decoding, memory
    python scripts/bench.py training --precision bf16      # bf16 beside fp32
    python scripts/bench.py memory --sizes long            # sentences of 50 pieces, 1,000 units
    python scripts/bench.py training decoding --sizes gpu --precision bf16 --device cuda
    python scripts/bench.py --json --strict                # exit code 1 on a busy machine

docs/measuring.md explains the terms.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import torch
from measuring import (
    Material,
    Work,
    decode,
    describe_load,
    forbid_end,
    forward_flops,
    in_new_process,
    in_turn,
    is_clean,
    machine_card,
    material_of,
    speedup,
)
from textbook import textbook_loss, textbook_of
from torch import Tensor, nn

from nmt.batches.batching import Batch, make_batch
from nmt.cli.shared.process import configure_process
from nmt.config import RunConfig, TrainConfig
from nmt.corpora.corpora import readable_splits
from nmt.corpora.entries import data_folder
from nmt.corpora.sources import DataConfig
from nmt.device import MemoryUse, Precision, resolve_device
from nmt.errors import ConfigError, NMTError
from nmt.lab.numbers import align_columns
from nmt.models.base import Seq2Seq
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.ops.products import product
from nmt.optim.losses import LossSum
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.vocabulary import RESERVED
from nmt.training.step import StepSettings, train_step, translation_loss

Form = Literal["nmt", "plain", "textbook"]
"""The model with its default backend, with `backend: reference`, and the textbook's loop."""

PARTS = ("training", "decoding", "memory")
BEAMS = (1, 5)
REAL_CORPUS, FALLBACK = "multi30k-en-fr", "starter"
FALLBACK_VOCABULARY = 3000  # the starter corpus has too few words for many more pieces
MIB = 2**20
CEILING_SECONDS = 0.1  # of a timed task: short ones are dominated by overhead
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_TRAIN = TrainConfig(epochs=1)  # the default optimiser, learning rate and clipping


@dataclass(frozen=True)
class Variant:
    """A form of the model in one precision."""

    form: Form
    precision: Precision

    @property
    def name(self) -> str:
        return self.form if self.precision == "fp32" else f"{self.form} {self.precision}"


@dataclass(frozen=True)
class Sizes:
    """A GRU with additive attention, one bidirectional layer and one above it.

    `batch` counts the sentence pairs of a training batch, `src` and `tgt` the pieces of a fixed
    shape, end included, `hidden` the units of the decoder and of each direction of the encoder.
    """

    batch: int = 64
    src: int = 16
    tgt: int = 17
    embedding: int = 256
    hidden: int = 512
    vocabulary: int = 8000

    def model(self) -> RNNConfig:
        """The model of these sizes, as a run's YAML would have it."""
        return RNNConfig(embedding=self.embedding, hidden=self.hidden, dropout=0.0)


PRESETS = {
    "standard": Sizes(),
    "long": Sizes(src=50, tgt=50, hidden=1000),
    "gpu": Sizes(batch=256, src=50, tgt=50, embedding=512, hidden=1024, vocabulary=32000),
    "tiny": Sizes(batch=3, src=5, tgt=7, embedding=8, hidden=16, vocabulary=200),
}


@dataclass(frozen=True)
class Plan:
    """The settings of one call. `ceiling_sizes` are the sizes of the products of `ceiling`."""

    sizes: Sizes
    device: torch.device
    precision: Precision = "fp32"
    rounds: int = 7
    ceiling_sizes: tuple[int, ...] = (1024, 2048)

    def variants(self) -> list[Variant]:
        """The models to compare; the last one is the baseline."""
        half = [Variant("nmt", self.precision)] if self.precision != "fp32" else []
        return [*half, *(Variant(form, "fp32") for form in get_args(Form))]

    def build(self, form: Form, material: Material) -> Seq2Seq:
        """Build nmt's model in this form, with weights that are the same for every form."""
        config = self.sizes.model()
        torch.manual_seed(1)
        if form != "nmt":
            config = config.model_copy(update={"backend": "reference"})
        return build_model(config, material.src_vocab, material.tgt_vocab).to(self.device)


@dataclass(frozen=True)
class Section:
    """A table of figures that were measured in turn, and the load of others meanwhile.

    `others` is None where the load is unknown, 0 for figures that no load can change.
    """

    title: str
    rows: Mapping[str, Mapping[str, float]]
    others: float | None
    notes: tuple[str, ...] = ()


def ceiling(precision: Precision, device: torch.device, sizes: Sequence[int]) -> tuple[Work, int]:
    """Return square products for a tenth of a second, and the number of their operations.

    They are of the size, and by the library, that are fastest here.
    """

    def products(size: int, multiply: Callable[[Tensor, Tensor], Tensor], count: int) -> Work:
        # A GPU multiplies equal numbers faster than others, because it takes less power.
        left, right = torch.randn(2, size, size, device=device).to(_DTYPES[precision])
        return lambda: [multiply(left, right) for _ in range(count)][:0]

    ways = [(size, multiply) for size in sizes for multiply in (torch.mm, product)]
    timed, _ = in_turn({str(i): products(*way, 1) for i, way in enumerate(ways)}, 3)
    seconds = [1 / task.rate(1) for task in timed.values()]
    taken, way = min(zip(seconds, ways, strict=True), key=lambda pair: pair[0] / pair[1][0] ** 3)
    count = max(1, round(CEILING_SECONDS / taken))
    return products(*way, count), 2 * way[0] ** 3 * count


def fixed_shape(sizes: Sizes, with_padding: bool = False) -> Material:
    """Return one batch of random pieces; with padding, all but its first pair may be shorter."""
    generator = torch.Generator().manual_seed(1)

    def ids(length: int) -> list[tuple[int, ...]]:
        shape = (sizes.batch, length - 1)
        table = torch.randint(len(RESERVED), sizes.vocabulary, shape, generator=generator)
        lengths = torch.full(shape[:1], length)
        if with_padding:
            lengths[1:] = torch.randint(1, length, (sizes.batch - 1,), generator=generator)
        return [tuple(row[:n].tolist()) for row, n in zip(table, lengths, strict=True)]

    batch = make_batch(ids(sizes.src), ids(sizes.tgt))
    title = f"fixed shapes, B {sizes.batch}, S {sizes.src}, T {sizes.tgt}"
    return Material(title, (batch,), sizes.vocabulary, sizes.vocabulary)


def real_lengths(sizes: Sizes, n_batches: int = 8) -> Material:
    """Return batches of a first epoch of Multi30k if it was fetched, else of the starter corpus."""
    folder = data_folder(Path("data"))
    is_fetched = "train" in readable_splits(REAL_CORPUS, folder)
    corpus = REAL_CORPUS if is_fetched else FALLBACK
    n_pieces = sizes.vocabulary if is_fetched else min(sizes.vocabulary, FALLBACK_VOCABULARY)
    config = RunConfig(
        name="bench",
        seed=1,
        data=DataConfig(corpus=corpus, folder=folder),
        tokenizer=SentencePieceConfig(model_type="bpe", vocab_size=n_pieces),
        train=TrainConfig(epochs=1, batch_size=sizes.batch, batch_by="sentences"),
    )
    return material_of(config, n_batches, corpus)


def learner(
    plan: Plan, variant: Variant, material: Material
) -> Callable[[Sequence[Batch]], list[float]]:
    """Return a function that updates a new model on each batch and returns the losses before."""
    plain = plan.build(variant.form, material).train()
    model: nn.Module = plain
    loss: Callable[..., LossSum] = translation_loss
    if variant.form == "textbook":
        sizes = material.src_vocab, material.tgt_vocab
        model = textbook_of(plain, plan.sizes.model(), *sizes).train()
        loss = textbook_loss
    optimizer = _TRAIN.optimizer.build(model.named_parameters(), _TRAIN.lr)
    settings = StepSettings(variant.precision, clip_norm=_TRAIN.clip_norm)
    return lambda batches: [
        train_step(model, optimizer, [batch], settings, loss).loss for batch in batches
    ]


def measure_updates(plan: Plan, material: Material) -> Section:
    """Time updates in turn: source and target tokens a second, padding not counted.

    Ratios are relative to the last row and are medians of the quotients of the rounds. The ceiling
    is measured in the row's precision.
    """
    variants = plan.variants()
    ceilings = {
        precision: ceiling(precision, plan.device, plan.ceiling_sizes)
        for precision in dict.fromkeys(variant.precision for variant in variants)
    }
    works = {f"ceiling {precision}": work for precision, (work, _) in ceilings.items()}
    batches, amount = material.to(plan.device).batches, material.amount
    for variant in variants:
        works[variant.name] = partial(learner(plan, variant, material), batches)
    flops = 3 * forward_flops(plan.sizes.model(), amount, material.tgt_vocab)
    timed, others = in_turn(works, plan.rounds)
    rows = {}
    for variant in variants:
        task, limit = timed[variant.name], timed[f"ceiling {variant.precision}"]
        rows[variant.name] = {
            **task.rates("tokens/s", amount.tokens),
            "target tokens/s": task.rate(amount.tgt),
            "times the last": speedup(task, timed[variants[-1].name]),
            "of the ceiling": flops / ceilings[variant.precision][1] * speedup(task, limit),
        }
    notes = [
        f"ceiling {precision}: {timed[f'ceiling {precision}'].rate(n / 1e9):,.0f} GFLOP/s"
        for precision, (_, n) in ceilings.items()
    ]
    return Section(f"training, {material.title}", rows, others, tuple(notes))


def measure_decoding(plan: Plan, material: Material, beam: int) -> Section:
    """Measure the same search, in fp32, for every form but the textbook's, which has no step."""
    material, amount = material.to(plan.device), material.amount
    factor = amount.tgt / amount.src
    works: dict[str, Work] = {}
    for form in get_args(Form)[:-1]:
        model = forbid_end(plan.build(form, material)).eval()
        works[form] = partial(decode, model, material, beam, factor)
    timed, others = in_turn(works, plan.rounds)
    rows = {
        name: {
            **task.rates("sentences/s", amount.sentences),
            "target tokens/s": task.rate(amount.tgt),
            "ms a sentence": 1e3 / task.rate(amount.sentences),
            "times the last": speedup(task, list(timed.values())[-1]),
        }
        for name, task in timed.items()
    }
    method = "greedy" if beam == 1 else f"beam {beam}"
    return Section(f"decoding, {method}, {material.title}", rows, others)


def measure_memory(plan: Plan) -> Section | None:
    """Measure the memory that an update adds to a process; None if the system does not tell."""
    rows: dict[str, dict[str, float]] = {}
    for variant in plan.variants():
        use = in_new_process(use_of_update, plan, variant, torch.get_num_threads())
        if use is None:
            return None
        added = (use[1] - use[0]) / MIB
        rows[variant.name] = {"MiB above the model at rest": added, "MiB in all": use[1] / MIB}
    baseline = rows["textbook"]["MiB above the model at rest"]
    for row in rows.values():
        row["the last by it"] = baseline / max(1 / MIB, row["MiB above the model at rest"])
    return Section(f"memory of an update, {fixed_shape(plan.sizes).title}", rows, others=0.0)


def use_of_update(plan: Plan, variant: Variant, threads: int) -> tuple[int, int] | None:
    """Return the bytes in use before two updates of the plan's shape, and their peak.

    A small update goes before, which fills the optimiser. None where the peak cannot be reset.
    """
    torch.set_num_threads(threads)
    small = replace(plan.sizes, batch=1, src=2, tgt=2)
    material = fixed_shape(plan.sizes).to(plan.device)
    update = learner(plan, variant, material)
    update(fixed_shape(small).to(plan.device).batches)
    if plan.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(plan.device)
    else:
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # see proc(5)
        except OSError:
            return None
    before = MemoryUse.of(plan.device)
    for _ in range(2):
        update(material.batches)
    after = MemoryUse.of(plan.device)
    return None if before is None or after is None else (before.now, max(before.now, after.peak))


def measure(options: argparse.Namespace, plan: Plan) -> Iterator[Section]:
    """Measure the parts in their order; each section as soon as it is there."""
    materials = [fixed_shape(plan.sizes)]
    if options.sizes == "standard" and {"training", "decoding"} & set(options.parts):
        materials.append(real_lengths(plan.sizes))
    for part in options.parts:
        if part == "training":
            for material in materials:
                yield measure_updates(plan, material)
        elif part == "memory":
            if (section := measure_memory(plan)) is not None:
                yield section
        else:
            for material in materials:
                yield from (measure_decoding(plan, material, beam) for beam in BEAMS)


def as_text(section: Section) -> str:
    """Return a section as lines: its title with the load, the table, the notes."""
    keys = list(dict.fromkeys(key for row in section.rows.values() for key in row))
    table = [["", *keys]]
    for name, row in section.rows.items():
        table.append([name, *(f"{v:,.0f}" if v >= 100 else f"{v:.3g}" for v in row.values())])
    title = f"{section.title}  ({describe_load(section.others)})"
    return "\n".join(["", title, *align_columns(table), *section.notes])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 with --strict if others disturbed, 2 for wrong options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    add("--sizes", choices=PRESETS, default="standard")
    add("--precision", choices=list(_DTYPES), default="fp32", help="training in this too")
    add("--threads", type=int)
    add("--device", default="cpu", help="auto, cpu, cuda[:N] or mps")
    add("--rounds", type=int, default=7, help="in turn; figures are their medians")
    add("--json", action="store_true")
    add("--strict", action="store_true", help="exit with 1 if others kept the machine busy")
    options = parser.parse_args(arguments)
    options.parts = options.parts or PARTS
    try:
        if unknown := [part for part in options.parts if part not in PARTS]:
            raise ConfigError(f"part: got '{unknown[0]}', allowed: {', '.join(PARTS)}")
        device = resolve_device(options.device)
        products = (4096, 8192) if device.type == "cuda" else (1024, 2048)
        plan = Plan(PRESETS[options.sizes], device, options.precision, options.rounds, products)
        configure_process(options.threads)
        card = machine_card(device, plan.precision)
        sections = []
        for section in measure(options, plan):
            sections.append(section)
            if not options.json:
                print(as_text(section), flush=True)
    except NMTError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.json:
        settings = {**asdict(plan.sizes), "rounds": plan.rounds}
        report = {"machine": card, "settings": settings, "sections": list(map(asdict, sections))}
        print(json.dumps(report, indent=1))
    else:
        print("\n{cpu}, {device}, torch {torch}, nmt {nmt}, {date}".format_map(card))
        print(f"backend: {card['backend']}\n{plan.sizes}")
    return int(options.strict and not all(is_clean(section.others) for section in sections))


if __name__ == "__main__":
    sys.exit(main())
