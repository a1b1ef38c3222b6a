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
from nmt.bench.timing import Timed, Work, in_turn, median_of_quotients, ratio
from nmt.config import TrainConfig
from nmt.data.batching import Batch
from nmt.device import Precision
from nmt.ops.masks import keep_from_lengths
from nmt.training.loss import LossSum
from nmt.training.step import StepSettings, train_step, translation_loss

_TRAIN = TrainConfig(epochs=1)
"""The default optimiser, learning rate and clipping."""


class Learner:
    """One variant of the model, with its optimiser."""

    def __init__(self, plan: Plan, variant: Variant, material: Material) -> None:
        self.variant = variant
        self._model = plan.build(variant, material.src_vocab, material.tgt_vocab).train()
        self._optimizer = _TRAIN.optimizer.build(self._model.parameters(), _TRAIN.lr)
        self._settings = StepSettings(variant.precision, clip_norm=_TRAIN.clip_norm)
        is_textbook = isinstance(self._model, TextbookSeq2Seq)
        self._loss_function = _textbook_loss if is_textbook else translation_loss

    def update(self, batches: Sequence[Batch]) -> list[float]:
        """One update of the weights on each batch. Returns the losses before each."""
        return [
            train_step(
                self._model,
                self._optimizer,
                [batch],
                self._settings,
                loss_function=self._loss_function,
            ).loss
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
    ceilings = {p: ceiling(p, plan.device, plan.ceiling_sizes) for p in plan.precisions()}
    variants = plan.variants()
    works: dict[str, Work] = {_ceiling_name(p): top.work for p, top in ceilings.items()}
    for variant in variants:
        learner = Learner(plan, variant, material)
        works[variant.name] = partial(learner.update, material.batches)
    watch = Watch()
    timed = in_turn(works, plan.rounds, plan.device)
    others = watch.look()
    flops = training_flops(plan.sizes.model(), material.amount, material.tgt_vocab)
    return Section(
        title=f"training, {material.title}",
        unit="source and target tokens/s",
        rows=tuple(_rows(variants, ceilings, timed, material.amount, flops)),
        others=others,
        notes=tuple(_notes(ceilings, timed, flops, material.amount)),
    )


def _rows(
    variants: Sequence[Variant],
    ceilings: Mapping[Precision, Ceiling],
    timed: Mapping[str, Timed],
    amount: Amount,
    flops: int,
) -> Iterator[Row]:
    for variant in variants:
        own, top = timed[variant.name], timed[_ceiling_name(variant.precision)]
        times_as_long = median_of_quotients(top.seconds, own.seconds)
        yield Row(
            what=variant.name,
            value=amount.tokens / own.median,
            low=amount.tokens / own.longest,
            high=amount.tokens / own.shortest,
            ratio=ratio(own, timed[variants[-1].name]),
            ceiling=flops / ceilings[variant.precision].flops * times_as_long,
            also={"target tokens/s": amount.tgt / own.median},
        )


def _notes(
    ceilings: Mapping[Precision, Ceiling], timed: Mapping[str, Timed], flops: int, amount: Amount
) -> Iterator[str]:
    for precision, product in ceilings.items():
        own = timed[_ceiling_name(precision)]
        low, middle, high = (
            product.flops / seconds / 1e9 for seconds in (own.longest, own.median, own.shortest)
        )
        yield (
            f"ceiling {precision}: {middle:,.0f} GFLOP/s ({low:,.0f} to {high:,.0f}) in products "
            f"of {product.size} x {product.size} x {product.size}"
        )
    yield (
        f"counted: {flops / 1e9:,.2f} GFLOP for {amount.tokens:,} tokens, "
        f"{flops / amount.tokens / 1e6:,.1f} MFLOP each"
    )


def _ceiling_name(precision: str) -> str:
    return f"ceiling {precision}"


def measure_growth(plan: Plan, lengths: Sequence[int]) -> Section:
    """Time per token against the length of sentences, with the same number of tokens a batch."""
    budget = plan.sizes.batch * (plan.sizes.src + plan.sizes.tgt)
    variant = plan.variants()[0]
    works: dict[str, Work] = {}
    amounts: dict[str, Amount] = {}
    flops: dict[str, float] = {}
    for length in lengths:
        batch = max(1, round(budget / (2 * length)))
        shape = plan.sizes.model_copy(update={"batch": batch, "src": length, "tgt": length})
        material = fixed_shape(shape).to(plan.device)
        name = f"S = T = {length}, B {batch}"
        learner = Learner(plan, variant, material)
        works[name] = partial(learner.update, material.batches)
        amounts[name] = material.amount
        flops[name] = training_flops(shape.model(), material.amount, material.tgt_vocab)
    watch = Watch()
    timed = in_turn(works, plan.rounds, plan.device)
    others = watch.look()
    rows = []
    first = next(iter(works))
    for name, own in timed.items():
        tokens, each = amounts[name].tokens, flops[name] / amounts[name].tokens
        micro = [1e6 * seconds / tokens for seconds in (own.median, own.shortest, own.longest)]
        slower = median_of_quotients(own.seconds, timed[first].seconds)
        also = {
            "times the first row's": slower * amounts[first].tokens / tokens,
            "times its arithmetic": each * amounts[first].tokens / flops[first],
        }
        rows.append(Row(name, micro[0], micro[1], micro[2], also=also))
    title = f"growth of training with length, {variant.name}"
    return Section(title, "microseconds a token", tuple(rows), others)
