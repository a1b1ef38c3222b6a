"""Each part of the benchmark, on sizes that take no time."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEventAvg

from nmt.bench.bench_plan import Plan, Variant
from nmt.bench.ceiling import ceiling
from nmt.bench.decoding import Decoder, measure_decoding
from nmt.bench.material import fixed_shape, real_corpus, real_lengths
from nmt.bench.memory import use_of_update
from nmt.bench.profile import _times
from nmt.bench.sizes import sizes_of
from nmt.bench.speed_report import Report, Row, Section
from nmt.bench.text import as_text
from nmt.bench.training import Learner, measure_training

TINY = sizes_of("tiny", [])
PLAN = Plan(TINY, torch.device("cpu"), rounds=1, n_batches=2, ceiling_sizes=(16, 32))


def test_training_is_measured_beside_the_textbook_and_the_ceiling() -> None:
    section = measure_training(replace(PLAN, precision="bf16"), fixed_shape(TINY))
    names = [row.what for row in section.rows]
    assert (names[:2], names[-1]) == (["nmt bf16", "nmt"], "textbook")
    assert section.rows[-1].ratio == 1
    for row in section.rows:
        assert row.low <= row.value <= row.high
        share = row.value * TINY.tgt / (TINY.src + TINY.tgt)
        assert row.also["target tokens/s"] == pytest.approx(share)
        assert row.ceiling is not None
        assert row.ceiling > 0
    kinds = [note.split(":")[0] for note in section.notes]
    assert kinds == ["ceiling fp32", "ceiling bf16", "counted"]
    products = ceiling("fp32", torch.device("cpu"), (16,))
    assert products.size == 16
    assert products.flops % (2 * 16**3) == 0


def test_all_forms_begin_with_the_same_loss_and_learn() -> None:
    material = fixed_shape(TINY)
    learners = [Learner(PLAN, Variant(form, "fp32"), material) for form in ("nmt", "textbook")]
    first, second = (learner.update(material.batches * 21) for learner in learners)
    assert first[0] == pytest.approx(second[0], rel=1e-5)
    assert second[-1] < second[0]


def test_every_sentence_is_decoded_to_the_length_asked_for() -> None:
    material = fixed_shape(TINY)
    for variant in PLAN.variants():
        for beam in (1, 3):
            decoder = Decoder(PLAN, variant, material)
            assert decoder.decode(material, beam) == TINY.batch * TINY.tgt
    decoding = measure_decoding(PLAN, material, 3)
    assert decoding.title == "decoding, beam 3, fixed shapes, B 3, S 5, T 7"
    assert decoding.rows[0].also["target tokens/s"] == pytest.approx(7 * decoding.rows[0].value)


def test_memory_grows_with_the_batch() -> None:
    sizes = TINY.model_copy(update={"hidden": 64, "vocabulary": 2000, "src": 20, "tgt": 20})
    added = []
    for batch in (8, 128):
        plan = replace(PLAN, sizes=sizes.model_copy(update={"batch": batch}))
        use = use_of_update(plan, Variant("textbook", "fp32"), 1)
        if use is None:
            pytest.skip("this system does not tell")
        added.append(use.peak - use.before)
    assert added[1] - added[0] > 4 * 128 * 20 * 2000  # the logits


def test_real_lengths_come_from_the_starter_corpus(tmp_path: Path) -> None:
    assert real_corpus(tmp_path) == "starter"  # there is no other
    material = real_lengths(TINY.model_copy(update={"batch": 64}), tmp_path, 2)
    assert material.title == "starter, 2 batches of 64"
    assert [len(batch.src_ids) for batch in material.batches] == [64, 64]
    assert material.batches[0].n_tokens < material.batches[1].n_tokens


def test_what_was_not_alone_is_marked_on_every_row() -> None:
    row = Row("nmt", 1234.5, 1000.0, 2000.0, ratio=2.0, ceiling=0.5, also={"words/s": 600.0})
    machine = dict.fromkeys(("cpu", "device", "torch", "nmt", "date", "backend"), "X")
    sections = (
        Section("training", "tokens/s", (row, row), others=0.01, notes=("a note",)),
        Section("decoding", "sentences/s", (row,), others=0.87),
        Section("memory", "MiB", (row,), timed=False),
    )
    report = Report(machine=machine, settings={"batch": 3}, sections=sections)
    assert not report.clean
    line = "  nmt  1,234  1,000 to 2,000  2.00 x  50 % of the ceiling  600 words/s"
    rows = [shown for shown in as_text(report) if shown.startswith("  nmt")]
    assert rows == [line, line, f"{line}  not clean", line]


def test_a_kernel_is_counted_once() -> None:
    """Not in its operator's row too, nor in the optimiser's, which torch marks as a range."""

    def event(key: str, device: DeviceType, is_user_annotation: bool = False) -> FunctionEventAvg:
        average = FunctionEventAvg()
        average.key, average.count, average.device_type = key, 3, device
        average.self_device_time_total, average.self_cpu_time_total = 100.0, 7.0
        average.is_user_annotation = is_user_annotation
        return average

    events = [
        event("aten::mm", DeviceType.CPU),
        event("sm90_gemm", DeviceType.CUDA),
        event("Optimizer.step#Adam.step", DeviceType.CUDA, is_user_annotation=True),
    ]
    assert _times(events, on_gpu=True) == [(100.0, 3, "sm90_gemm")]
    assert _times(events[:1], on_gpu=False) == [(7.0, 3, "aten::mm")]
