"""Search, timed: sentences and pieces a second, and how long one sentence takes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nmt.bench.bench_plan import Plan, Variant
from nmt.bench.load import Watch
from nmt.bench.material import Material, fixed_shape
from nmt.bench.speed_report import Row, Section
from nmt.bench.timing import Timed, Work, in_turn, ratio
from nmt.decoding.search import SearchConfig, search
from nmt.device import Precision, autocast
from nmt.models.base import DecoderOutput, Memory, Seq2Seq, State, StepOutput
from nmt.models.vocabulary import Vocabulary
from nmt.text.vocabulary import EOS_ID


class _WithoutEnd(Vocabulary):
    """The same vocabulary layer, but that a search never takes eos."""

    def __init__(self, layer: Vocabulary) -> None:
        super().__init__()
        self.layer = layer
        self.backend, self.n_pieces = layer.backend, layer.n_pieces

    def table_logits(self, features: Float[Tensor, "*L R"]) -> Float[Tensor, "*L P"]:
        """See Vocabulary."""
        return self.layer.table_logits(features)

    def affine(self) -> tuple[Float[Tensor, "P R"], Float[Tensor, " P"]]:
        """See Vocabulary."""
        return self.layer.affine()

    def top_k_log_probs(
        self, features: Float[Tensor, "B R"], k: int, banned_ids: Int[Tensor, " N"]
    ) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K"]]:
        """See Vocabulary; eos is banned too."""
        banned_ids = torch.cat([banned_ids, torch.full_like(banned_ids[:1], EOS_ID)])
        return self.layer.top_k_log_probs(features, k, banned_ids)


class Endless(Seq2Seq):
    """A model that ends no sentence: untrained ones end where chance has it.

    Every sentence then has as many pieces as the search allows, and all forms the same.
    """

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model.eval()

    def encode(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """See Seq2Seq.encode."""
        return self.model.encode(src_ids, src_keep)

    def init_state(self, memory: Memory) -> State:
        """See Seq2Seq.init_state."""
        return self.model.init_state(memory)

    def init_search_state(self, memory: Memory) -> State:
        """See Seq2Seq.init_search_state."""
        return self.model.init_search_state(memory)

    def step(self, last_ids: Int[Tensor, " B"], state: State) -> StepOutput:
        """See Seq2Seq.step; eos is impossible."""
        output = self.model.step(last_ids, state)
        return replace(output, vocabulary=_WithoutEnd(output.vocabulary))

    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: State, with_weights: bool = False
    ) -> DecoderOutput:
        """See Seq2Seq.teacher_forced."""
        return self.model.teacher_forced(tgt_in, state, with_weights)


class Decoder:
    """A model in one form, and the lengths that it decodes to."""

    def __init__(self, plan: Plan, variant: Variant, material: Material) -> None:
        self.device = plan.device
        self.precision: Precision = variant.precision
        self.model = Endless(plan.build(variant, material.src_vocab, material.tgt_vocab)).eval()
        self.factor = material.amount.tgt / material.amount.src

    def decode(self, material: Material, beam: int) -> int:
        """Search on every batch; how many pieces were found, of the best hypotheses alone."""
        config = SearchConfig(beam=beam, max_length_factor=self.factor, max_length_extra=0)
        n_pieces = 0
        for batch in material.batches:
            with autocast(self.device, self.precision):
                found = search(self.model, batch.src_ids, batch.src_lengths, config)
            n_pieces += sum(len(hypotheses[0].ids) for hypotheses in found)
        return n_pieces


def measure_decoding(plan: Plan, material: Material, beam: int) -> Section:
    """Sentences a second, by the same search for every form of the model."""
    material = material.to(plan.device)
    timed, pieces, others = _timed(plan, material, beam)
    n_sentences = material.amount.sentences
    rows = tuple(
        Row(
            what=name,
            value=n_sentences / own.median,
            low=n_sentences / own.longest,
            high=n_sentences / own.shortest,
            ratio=ratio(own, list(timed.values())[-1]),
            also={"target tokens/s": pieces[name] / own.median},
        )
        for name, own in timed.items()
    )
    return Section(f"decoding, {_said(beam)}, {material.title}", "sentences/s", rows, others)


def measure_latency(plan: Plan, beams: Sequence[int]) -> Section:
    """Milliseconds that one sentence takes, the model being loaded."""
    material = fixed_shape(plan.sizes.model_copy(update={"batch": 1})).to(plan.device)
    watch = Watch()
    rows: list[Row] = []
    for beam in beams:
        timed, _, _ = _timed(plan, material, beam)
        last = list(timed.values())[-1]
        for name, own in timed.items():
            middle, low, high = (1e3 * s for s in (own.median, own.shortest, own.longest))
            rows.append(Row(f"{name}, {_said(beam)}", middle, low, high, ratio(own, last)))
    title = f"one sentence of {plan.sizes.src} pieces to {plan.sizes.tgt}"
    return Section(title, "ms", tuple(rows), watch.look())


def _timed(
    plan: Plan, material: Material, beam: int
) -> tuple[Mapping[str, Timed], Mapping[str, int], float | None]:
    """What each form took, how many pieces it found, and the load of others."""
    works: dict[str, Work] = {}
    pieces: dict[str, int] = {}
    for variant in plan.variants():
        decoder = Decoder(plan, variant, material)
        works[variant.name] = partial(decoder.decode, material, beam)
        pieces[variant.name] = decoder.decode(material, beam)
    watch = Watch()
    timed = in_turn(works, plan.rounds, plan.device)
    return timed, pieces, watch.look()


def _said(beam: int) -> str:
    return "greedy" if beam == 1 else f"beam {beam}"
