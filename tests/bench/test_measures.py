"""Each part of the benchmark, on sizes that take no time."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEventAvg

from nmt.bench import perform
from nmt.bench.bench_plan import Plan, Variant
from nmt.bench.ceiling import ceiling
from nmt.bench.decoding import Decoder, measure_decoding, measure_latency
from nmt.bench.material import fixed_shape, real_corpus, real_lengths
from nmt.bench.memory import use_of_update
from nmt.bench.perform import Request
from nmt.bench.profile import _times, profile_update
from nmt.bench.sizes import sizes_of
from nmt.bench.speed_report import Report, Row, Section
from nmt.bench.text import as_text
from nmt.bench.training import Learner, measure_growth, measure_training

TINY = sizes_of("tiny", [])
PLAN = Plan(TINY, torch.device("cpu"), rounds=1, n_batches=2, ceiling_sizes=(16, 32))


def test_training_is_measured_beside_the_textbook_and_the_ceiling() -> None:
    section = measure_training(replace(PLAN, precision="bf16"), fixed_shape(TINY))
    names = [row.what for row in section.rows]
    assert names[0] == "nmt bf16"
    assert names[1] == "nmt"
    assert names[-1] == "textbook"
    assert section.rows[-1].ratio == 1
    for row in section.rows:
        assert row.low <= row.value <= row.high
        assert row.also["target tokens/s"] == pytest.approx(
            row.value * TINY.tgt / (TINY.src + TINY.tgt)
        )
        assert row.ceiling is not None
        assert row.ceiling > 0
    assert [note.split(":")[0] for note in section.notes] == [
        "ceiling fp32",
        "ceiling bf16",
        "counted",
    ]


def test_a_share_of_the_ceiling_is_speed_over_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    section = measure_training(PLAN, fixed_shape(TINY))
    slower = measure_training(
        replace(PLAN, ceiling_sizes=(8,)), fixed_shape(TINY)
    )  # small products reach less
    assert section.rows[0].ceiling is not None
    assert slower.rows[0].ceiling is not None
    assert slower.rows[0].ceiling > section.rows[0].ceiling
    assert Plan(TINY, torch.device("cpu")).ceiling_sizes == (1024, 2048)


def test_all_forms_begin_with_the_same_loss() -> None:
    material = fixed_shape(TINY)
    losses = [
        Learner(PLAN, Variant(form, "fp32"), material).update(material.batches[:1])[0]
        for form in ("nmt", "textbook")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_an_update_learns() -> None:
    material = fixed_shape(TINY)
    learner = Learner(PLAN, Variant("textbook", "fp32"), material)
    losses = learner.update(material.batches * 21)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("beam", [1, 3])
def test_every_sentence_is_decoded_to_the_length_asked_for(beam: int) -> None:
    material = fixed_shape(TINY)
    for variant in PLAN.variants():
        decoder = Decoder(PLAN, variant, material)
        assert decoder.decode(material, beam) == TINY.batch * TINY.tgt


def test_decoding_and_latency_name_what_they_measured() -> None:
    decoding = measure_decoding(PLAN, fixed_shape(TINY), 3)
    assert decoding.title == "decoding, beam 3, fixed shapes, B 3, S 5, T 7"
    assert decoding.rows[0].also["target tokens/s"] == pytest.approx(7 * decoding.rows[0].value)
    latency = measure_latency(PLAN, (1, 3))
    assert [row.what for row in latency.rows] == [
        f"{variant.name}, {beam}" for beam in ("greedy", "beam 3") for variant in PLAN.variants()
    ]


def test_memory_grows_with_the_batch() -> None:
    sizes = TINY.model_copy(update={"hidden": 64, "vocabulary": 2000, "src": 20, "tgt": 20})
    uses = []
    for batch in (8, 128):
        plan = replace(PLAN, sizes=sizes.model_copy(update={"batch": batch}))
        uses.append(use_of_update(plan, Variant("textbook", "fp32"), 1))
    if uses[0] is None or uses[1] is None:
        pytest.skip("this system does not tell")
    added = [use.peak - use.before for use in uses]
    logits = 4 * 128 * 20 * 2000
    assert added[1] - added[0] > logits


def test_growth_holds_time_beside_arithmetic() -> None:
    first, second = measure_growth(PLAN, (4, 8)).rows
    assert first.also == {"times the first row's": 1, "times its arithmetic": 1}
    assert second.what == "S = T = 8, B 2"
    assert second.also["times its arithmetic"] > 1  # longer sentences have more pairs a token


def test_a_profile_shares_out_all_of_the_time() -> None:
    profile = profile_update(PLAN, fixed_shape(TINY))
    assert sum(row.share for row in profile.rows) == pytest.approx(1)
    assert profile.rows[-1].operation.endswith("others")
    products = {"aten::mm", "mkldnn::_linear_pointwise"}
    assert any(row.operation in products for row in profile.rows)


def test_real_lengths_come_from_the_starter_corpus_where_there_is_no_other(tmp_path: Path) -> None:
    assert real_corpus(tmp_path) == "starter"
    material = real_lengths(TINY.model_copy(update={"batch": 64}), tmp_path, 2)
    assert material.title == "starter, 2 batches of 64"
    assert len(material.batches) == 2
    assert all(len(batch.src_ids) == 64 for batch in material.batches)
    assert material.batches[0].n_tokens < material.batches[1].n_tokens
    assert material.src_vocab == TINY.vocabulary


def test_the_ceiling_counts_what_it_does() -> None:
    made = ceiling("fp32", torch.device("cpu"), (16,))
    assert made.size == 16
    assert made.flops % (2 * 16**3) == 0
    made.work()


def test_what_was_not_alone_is_marked_on_every_row() -> None:
    row = Row(
        "nmt", 1234.5, 1000.0, 2000.0, ratio=2.0, ceiling=0.5, also={"target tokens/s": 600.0}
    )
    report = Report(
        machine={
            "cpu": "C",
            "device": "D",
            "torch": "T",
            "nmt": "N",
            "date": "now",
            "backend": "K",
        },
        settings={"batch": 3},
        sections=(
            Section("training", "tokens/s", (row, row), others=0.01, notes=("a note",)),
            Section("decoding", "sentences/s", (row,), others=0.87),
            Section("memory", "MiB", (row,), timed=False),
        ),
    )
    assert not report.clean
    assert as_text(report) == [
        "C, D, torch T, nmt N, now",
        "backend: K",
        "batch 3",
        "",
        "training, tokens/s  (clean: others took 1 % of a core)",
        *["  nmt  1,234  1,000 to 2,000  2.00 x  50 % of the ceiling  600 target tokens/s"] * 2,
        "  a note",
        "",
        "decoding, sentences/s  (not clean: 87 % of a core was busy elsewhere)",
        "  nmt  1,234  1,000 to 2,000  2.00 x  50 % of the ceiling  600 target tokens/s  not clean",
        "",
        "memory, MiB",
        "  nmt  1,234  1,000 to 2,000  2.00 x  50 % of the ceiling  600 target tokens/s",
    ]


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


def test_products_that_fill_a_gpu_are_its_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(
        parts=[], sizes="tiny", overrides=[], rounds=None, precision="fp32", device="cpu",
        data=Path("data"), run=None, quick=False, profile=False,
    )  # fmt: skip
    assert max(request.plan().ceiling_sizes) == 2048
    monkeypatch.setattr(perform, "resolve_device", lambda name: torch.device("cuda:0"))
    assert max(request.plan().ceiling_sizes) == 8192
    assert replace(request, quick=True).plan().ceiling_sizes == (64,)
