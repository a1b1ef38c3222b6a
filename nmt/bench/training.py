"""Speed of updates: tokens a second, and the share of the machine's arithmetic that they use."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from nmt.bench.bench_plan import Plan, Variant
from nmt.bench.ceiling import Ceiling, ceiling
from nmt.bench.flops import Amount, training_flops
from nmt.bench.load import Watch
from nmt.bench.material import Material, fixed_shape
from nmt.bench.speed_report import Row, Section
from nmt.bench.textbook import TextbookSeq2Seq, textbook_loss
from nmt.bench.timing import Timed, Work, in_turn, speedup
from nmt.config import TrainConfig
from nmt.data.batching import Batch
from nmt.device import Precision
from nmt.ops.masks import keep_from_lengths
from nmt.optim.losses import LossSum
from nmt.training.step import StepSettings, train_step, translation_loss

_TRAIN = TrainConfig(epochs=1)
"""The default optimiser, learning rate and clipping."""


class Learner:
    """One variant of the model, with its optimiser."""

    def __init__(self, plan: Plan, variant: Variant, material: Material) -> None:
        self.variant = variant
        self._model = plan.build(variant, material.src_vocab, material.tgt_vocab).train()
        self._optimizer = _TRAIN.optimizer.build(self._model.named_parameters(), _TRAIN.lr)
        self._settings = StepSettings(variant.precision, clip_norm=_TRAIN.clip_norm)
        is_textbook = isinstance(self._model, TextbookSeq2Seq)
        self._loss_function = _textbook_loss if is_textbook else translation_loss

    def update(self, batches: Sequence[Batch]) -> list[float]:
        """One update of the weights on each batch. Returns the losses before each."""
        model, optimizer, settings = self._model, self._optimizer, self._settings
        loss = self._loss_function
        return [
            train_step(model, optimizer, [batch], settings, loss_function=loss).loss
            for batch in batches
        ]


def _textbook_loss(model: TextbookSeq2Seq, batch: Batch, settings: StepSettings) -> LossSum:
    keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
    loss = textbook_loss(model.logits(batch.src_ids, keep, batch.tgt_in), batch.tgt_out)
    loss_sum = loss * batch.n_tokens
    return LossSum(loss_sum, loss_sum, batch.n_tokens)


def measure_training(plan: Plan, material: Material) -> Section:
    """Source and target tokens a second, padding not counted, compared with the textbook's loop."""
    material = material.to(plan.device)
    amount = material.amount
    ceilings = {p: ceiling(p, plan.device, plan.ceiling_sizes) for p in plan.precisions()}
    works: dict[str, Work] = {f"ceiling {p}": top.work for p, top in ceilings.items()}
    variants = plan.variants()
    for variant in variants:
        learner = Learner(plan, variant, material)
        works[variant.name] = partial(learner.update, material.batches)
    watch = Watch()
    timed = in_turn(works, plan.rounds, plan.device)
    others = watch.look()
    flops = training_flops(plan.sizes.model(), amount, material.tgt_vocab)
    rows = []
    for variant in variants:
        own, top = timed[variant.name], ceilings[variant.precision]
        share = flops / top.flops * speedup(own, timed[f"ceiling {variant.precision}"])
        also = {"target tokens/s": own.rates(amount.tgt)[0]}
        ratio = speedup(own, timed[variants[-1].name])
        rows.append(Row(variant.name, *own.rates(amount.tokens), ratio, share, also))
    return Section(
        title=f"training, {material.title}",
        unit="source and target tokens/s",
        rows=tuple(rows),
        others=others,
        notes=tuple(_notes(ceilings, timed, flops, amount)),
    )


def _notes(
    ceilings: Mapping[Precision, Ceiling], timed: Mapping[str, Timed], flops: int, amount: Amount
) -> Iterator[str]:
    for precision, top in ceilings.items():
        middle, low, high = timed[f"ceiling {precision}"].rates(top.flops / 1e9)
        yield (
            f"ceiling {precision}: {middle:,.0f} GFLOP/s ({low:,.0f} to {high:,.0f}) in products "
            f"of {top.size} x {top.size} x {top.size}"
        )
    yield (
        f"counted: {flops / 1e9:,.2f} GFLOP for {amount.tokens:,} tokens, "
        f"{flops / amount.tokens / 1e6:,.1f} MFLOP each"
    )


def measure_growth(plan: Plan, lengths: Sequence[int]) -> Section:
    """Time per token by the length of sentences, with the same number of tokens a batch."""
    budget = plan.sizes.batch * (plan.sizes.src + plan.sizes.tgt)
    variant = plan.variants()[0]
    works: dict[str, Work] = {}
    tokens: list[int] = []
    flops: list[float] = []
    for length in lengths:
        batch = max(1, round(budget / (2 * length)))
        shape = plan.sizes.model_copy(update={"batch": batch, "src": length, "tgt": length})
        material = fixed_shape(shape).to(plan.device)
        learner = Learner(plan, variant, material)
        works[f"S = T = {length}, B {batch}"] = partial(learner.update, material.batches)
        tokens.append(material.amount.tokens)
        flops.append(training_flops(shape.model(), material.amount, material.tgt_vocab))
    watch = Watch()
    timed = in_turn(works, plan.rounds, plan.device)
    others = watch.look()
    first = next(iter(timed.values()))
    rows = []
    for (name, own), n_tokens, n_flops in zip(timed.items(), tokens, flops, strict=True):
        also = {
            "times the first row's": speedup(first, own) * tokens[0] / n_tokens,
            "times its arithmetic": n_flops / n_tokens * tokens[0] / flops[0],
        }
        rows.append(Row(name, *own.figures(1e6 / n_tokens), also=also))
    title = f"growth of training with length, {variant.name}"
    return Section(title, "microseconds a token", tuple(rows), others)
