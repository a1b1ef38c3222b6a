"""Speed of search: sentences and pieces a second, and the time of one sentence."""

from collections.abc import Mapping, Sequence
from functools import partial

import torch

from nmt.bench.bench_plan import Plan, Variant
from nmt.bench.load import Watch
from nmt.bench.material import Material, fixed_shape
from nmt.bench.speed_report import Row, Section
from nmt.bench.timing import Timed, Work, in_turn, speedup
from nmt.decoding.search import search
from nmt.decoding.search_config import SearchConfig
from nmt.device import autocast
from nmt.models.base import Seq2Seq
from nmt.models.vocabulary import Vocabulary
from nmt.text.vocabulary import EOS_ID


def forbid_end(model: Seq2Seq) -> Seq2Seq:
    """`model`, made unable to end a sentence: the bias of eos becomes -inf, in place.

    An untrained model ends its sentences at random. Without an end, every sentence gets as many
    pieces as the search allows, the same for all models.
    """
    for layer in model.modules():
        if isinstance(layer, Vocabulary):
            layer.get_parameter("bias").data[EOS_ID] = -torch.inf
    return model


class Decoder:
    """A variant of the model that ends no sentence, and the lengths that it decodes to."""

    def __init__(self, plan: Plan, variant: Variant, material: Material) -> None:
        self.device = plan.device
        self.precision = variant.precision
        self.model = forbid_end(plan.build(variant, material.src_vocab, material.tgt_vocab)).eval()
        self.factor = material.amount.tgt / material.amount.src

    def decode(self, material: Material, beam: int) -> int:
        """Search on every batch. Returns the number of pieces of the best hypotheses."""
        config = SearchConfig(beam=beam, max_length_factor=self.factor, max_length_extra=0)
        n_pieces = 0
        for batch in material.batches:
            with autocast(self.device, self.precision):
                found = search(self.model, batch.src_ids, batch.src_lengths, config)
            n_pieces += sum(len(hypotheses[0].ids) for hypotheses in found)
        return n_pieces


def measure_decoding(plan: Plan, material: Material, beam: int) -> Section:
    """Sentences a second, by the same search for every variant of the model."""
    material = material.to(plan.device)
    timed, pieces, others = _timed(plan, material, beam)
    last = list(timed.values())[-1]
    rows = [
        Row(
            name,
            *own.rates(material.amount.sentences),
            ratio=speedup(own, last),
            also={"target tokens/s": own.rates(pieces[name])[0]},
        )
        for name, own in timed.items()
    ]
    title = f"decoding, {_search_name(beam)}, {material.title}"
    return Section(title, "sentences/s", tuple(rows), others)


def measure_latency(plan: Plan, beams: Sequence[int]) -> Section:
    """Milliseconds that one sentence takes once the model is loaded."""
    material = fixed_shape(plan.sizes.model_copy(update={"batch": 1})).to(plan.device)
    watch = Watch()
    rows: list[Row] = []
    for beam in beams:
        timed, _, _ = _timed(plan, material, beam)
        last = list(timed.values())[-1]
        rows += [
            Row(f"{name}, {_search_name(beam)}", *own.figures(1e3), ratio=speedup(own, last))
            for name, own in timed.items()
        ]
    title = f"one sentence of {plan.sizes.src} pieces to {plan.sizes.tgt}"
    return Section(title, "ms", tuple(rows), watch.look())


def _timed(
    plan: Plan, material: Material, beam: int
) -> tuple[Mapping[str, Timed], Mapping[str, int], float | None]:
    """The seconds of each variant, the number of pieces it found, and the load of others."""
    works: dict[str, Work] = {}
    pieces: dict[str, int] = {}
    for variant in plan.variants():
        decoder = Decoder(plan, variant, material)
        works[variant.name] = partial(decoder.decode, material, beam)
        pieces[variant.name] = decoder.decode(material, beam)
    watch = Watch()
    timed = in_turn(works, plan.rounds, plan.device)
    return timed, pieces, watch.look()


def _search_name(beam: int) -> str:
    return "greedy" if beam == 1 else f"beam {beam}"
