"""What a GPU computes and how fast: agreement, bits, speed, memory, resume and several processes.

    python scripts/gpu_day.py --out report.json

scripts/gpu_day.sh prepares a bare machine and runs it. Every section prints its rows as soon as it
is measured; one that fails says why, and the others go on.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from bench import Sizes, decode, fixed_shape
from measuring import forbid_end, machine_card
from safetensors.torch import load_file
from textbook import textbook_loss, textbook_of
from torch import Tensor, nn

from nmt.batches.batching import Batch, make_batch
from nmt.device import Precision
from nmt.models.base import Seq2Seq
from nmt.models.catalog import ModelConfig, build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.optim.losses import CrossEntropy
from nmt.optim.optimizers import AdadeltaConfig, AdamConfig, OptimizerConfig
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.training.graphs import TrainingGraphs
from nmt.training.step import StepSettings, queue_step, read_results, train_step, translation_loss

CUDA, CPU = torch.device("cuda"), torch.device("cpu")
Row = Mapping[str, Any]

MODELS: Mapping[str, Mapping[str, Any]] = {
    "gru": {},
    "conditional": {"decoder": {"kind": "conditional", "initial_state": "mean"}},
    "luong": {
        "encoder": {"hidden": 32},
        "decoder": {"kind": "luong"},
        "attention": {"kind": "dot"},
    },
    "lstm": {
        "encoder": {"cell": "lstm"},
        "decoder": {"kind": "bahdanau", "cell": "lstm"},
        "layers": 2,
    },
    "heads": {"attention": {"kind": "multi_head", "heads": 4}},
    "hard": {"attention": {"kind": "additive", "weights": {"kind": "hard"}}},
    "local": {"attention": {"kind": "additive", "span": {"kind": "local_p", "window": 2}}},
    "transformer": {},
}
"""Keys of a small model each."""

SIZES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, int], OptimizerConfig]] = {
    "multi30k": (
        {"embedding": 256, "hidden": 320, "dropout": 0.35, "tie_embeddings": "target",
         "decoder": {"kind": "conditional", "initial_state": "mean",
                     "readout": {"kind": "deep", "size": 256, "activation": "tanh"}}},
        {"batch": 64, "src": 16, "tgt": 20, "vocabulary": 6000},
        AdamConfig(),
    ),
    "rnnsearch50": (
        {"embedding": 620, "hidden": 1000, "dropout": 0.0, "attention": {"kind": "additive",
         "size": 1000}, "decoder": {"kind": "bahdanau", "initial_state": "tanh_backward",
                                    "readout": {"kind": "deep", "size": 500}}},
        {"batch": 80, "src": 28, "tgt": 28, "vocabulary": 30000},
        AdadeltaConfig(),
    ),
    "rnnsearch50, B 512": (
        {"embedding": 620, "hidden": 1000, "dropout": 0.0, "attention": {"kind": "additive",
         "size": 1000}, "decoder": {"kind": "bahdanau", "initial_state": "tanh_backward",
                                    "readout": {"kind": "deep", "size": 500}}},
        {"batch": 512, "src": 28, "tgt": 28, "vocabulary": 30000},
        AdadeltaConfig(),
    ),
}  # fmt: skip
"""Models, shapes and optimisers whose training is timed."""

LARGE = "rnnsearch50, B 512"


def model_of(keys: Mapping[str, Any], vocabulary: int, kind: str = "rnn") -> Seq2Seq:
    """Return a model of these keys with weights that are the same at every call."""
    torch.manual_seed(1)
    config: ModelConfig
    if kind == "transformer":
        config = TransformerConfig(kind="transformer", size=64, heads=4, layers=2, **keys)
    else:
        config = RNNConfig.model_validate({"kind": "rnn", **keys})
    return build_model(config, vocabulary, vocabulary)


def small(name: str, dropout: float) -> Seq2Seq:
    """Return one of MODELS with 64 units."""
    if name == "transformer":
        return model_of({"dropout": dropout}, 200, name)
    return model_of({"embedding": 48, "hidden": 64, "dropout": dropout, **MODELS[name]}, 200)


def batches_of(shapes: Sequence[tuple[int, int, int]], vocabulary: int) -> list[Batch]:
    """Return batches of B sentences of up to S and T pieces."""
    generator, batches = torch.Generator().manual_seed(2), []
    for n, src, tgt in shapes:
        sides = []
        for longest in (src, tgt):
            lengths = torch.randint(1, longest, (n,), generator=generator).tolist()
            lengths[0] = longest - 1
            sides.append(
                [tuple(torch.randint(4, vocabulary, (k,), generator=generator).tolist())
                 for k in lengths]
            )  # fmt: skip
        batches.append(make_batch(*sides))
    return batches


def agreement() -> Iterator[Row]:
    """Yield loss and gradient of every model on the GPU beside those of the CPU in fp32."""
    (batch,) = batches_of([(12, 17, 15)], 200)
    for name in MODELS:
        row: dict[str, Any] = {"model": name}
        torch.manual_seed(3)
        reference = _loss_and_gradient(small(name, 0.0), batch, CPU, "fp32")
        for precision, is_tf32 in (
            ("fp32", False),
            ("tf32", True),
            ("bf16", False),
            ("fp16", False),
        ):
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = is_tf32
            kind: Any = "fp32" if precision == "tf32" else precision
            try:
                loss, gradient = _loss_and_gradient(small(name, 0.0), batch, CUDA, kind)
                row[f"{precision} loss"] = abs(loss / reference[0] - 1)
                error = (gradient - reference[1]).norm() / reference[1].norm()
                row[f"{precision} gradient"] = float(error)
            except Exception as error:
                row[f"{precision} loss"] = repr(error)[:90]
        yield row
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = False, True


def _loss_and_gradient(
    model: Seq2Seq, batch: Batch, device: torch.device, precision: Precision
) -> tuple[float, Tensor]:
    from nmt.device import autocast

    model = model.to(device).eval()  # nothing is drawn
    with autocast(device, precision):
        loss = translation_loss(model, batch, StepSettings(loss=CrossEntropy(0.1)))
    (loss.loss_sum / batch.n_tokens).backward()  # type: ignore[no-untyped-call]
    gradients = [p.grad.flatten().float().cpu() for p in model.parameters() if p.grad is not None]
    return float(loss.nll_sum), torch.cat(gradients)


def translations() -> Iterator[Row]:
    """Yield how many translations on the GPU, in fp32, are the CPU's, and how far scores differ."""
    (batch,) = batches_of([(24, 17, 15)], 200)
    for name, beam in itertools.product(MODELS, (1, 5)):
        model = small(name, 0.0).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2)
        results = []
        for device in (CPU, CUDA):
            inputs = batch.to(device)
            found = search(
                model.to(device), inputs.src_ids, inputs.src_lengths, SearchConfig(beam=beam)
            )
            results.append([hypotheses[0] for hypotheses in found])
        pairs = list(zip(*results, strict=True))
        yield {
            "model": name, "beam": beam, "sentences": len(pairs),
            "equal": sum(one.ids == two.ids for one, two in pairs),
            "scores apart": max(abs(one.score - two.score) for one, two in pairs),
        }  # fmt: skip


def graphs() -> Iterator[Row]:
    """Yield whether updates with CUDA graphs, dropout on, leave the bits of those without."""
    shapes = [(12, 16, 16), (12, 12, 16)] * 5
    batches = [batch.padded((16, 16)) for batch in batches_of(shapes, 200)]
    for name, precision in itertools.product(MODELS, ("fp32", "bf16", "fp16")):
        weights, losses, captured = [], [], 0
        for with_graphs in (True, False, False):
            model = small(name, 0.2).to(CUDA).train()
            optimizer = AdamConfig().build(model.named_parameters(), 1e-3)
            scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16")
            recorder = TrainingGraphs(model) if with_graphs else None
            settings = StepSettings(precision, CrossEntropy(0.1), 1.0, scaler, graphs=recorder)  # type: ignore[arg-type]
            torch.manual_seed(5)
            loss = [train_step(model, optimizer, [batch], settings).nll_sum for batch in batches]
            losses.append(loss)
            weights.append([p.detach().clone() for p in model.parameters()])
            captured = len(recorder._graphs) if recorder else captured
        with_graphs_, without, again = weights
        yield {
            "model": name, "precision": precision, "graphs": captured,
            "as without": all(map(torch.equal, with_graphs_, without)),
            "without, twice": all(map(torch.equal, without, again)),
            "loss apart": max(abs(a - b) for a, b in zip(losses[0], losses[1], strict=True)),
        }  # fmt: skip


def median_seconds(
    work: Callable[[], object], rounds: int, count: int
) -> tuple[float, float, float]:
    """Return the median, the least and the greatest seconds of one of `count` calls."""
    taken = []
    for turn in range(rounds + 1):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(count):
            work()
        torch.cuda.synchronize()
        if turn:
            taken.append((time.perf_counter() - started) / count)
    return statistics.median(taken), min(taken), max(taken)


def training(rounds: int) -> Iterator[Row]:
    """Yield the time of updates of each of SIZES: with and without graphs and Triton, and plain."""
    for size, (keys, shape, optimizer_config) in SIZES.items():
        sizes = Sizes(**shape)
        material = fixed_shape(sizes)
        batch = material.batches[0].pinned()
        tokens = material.amount.tokens
        for form, precision in itertools.product(
            ("graphs", "eager", "graphs, no Triton", "textbook"),
            ("fp32", "tf32", "bf16"),
        ):
            if precision == "tf32" and form != "graphs":
                continue
            if size == LARGE and form not in ("graphs", "textbook"):
                continue
            torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
            row = {"size": size, "form": form, "precision": precision}
            try:
                work = _update(form, keys, shape["vocabulary"], batch, optimizer_config, precision)
                torch.cuda.reset_peak_memory_stats()
                seconds, least, most = median_seconds(work, rounds, 10)
                row |= {"ms": 1e3 * seconds, "least": 1e3 * least, "most": 1e3 * most,
                        "k tokens/s": tokens / seconds / 1e3,
                        "GiB": torch.cuda.max_memory_reserved() / 2**30}  # fmt: skip
            except Exception as error:
                row["error"] = repr(error)[:150]
            yield row
            torch.cuda.empty_cache()
    torch.backends.cuda.matmul.allow_tf32 = False


def _update(
    form: str,
    keys: Mapping[str, Any],
    vocabulary: int,
    batch: Batch,
    optimizer_config: OptimizerConfig,
    precision: str,
) -> Callable[[], object]:
    keys = {**keys, "backend": "reference"} if "no Triton" in form else keys
    model: nn.Module = model_of(keys, vocabulary).to(CUDA).train()
    loss: Any = translation_loss
    if form.startswith("textbook"):
        plain_keys = {k: keys[k] for k in ("embedding", "hidden")}
        plain = model_of({**plain_keys, "dropout": 0.0, "decoder": {"kind": "bahdanau", "readout": {"kind": "plain"}}},
                         vocabulary)  # fmt: skip
        config = RNNConfig.model_validate({"kind": "rnn", **plain_keys, "dropout": 0.0})
        model = textbook_of(plain, config, vocabulary, vocabulary).to(CUDA).train()
        batch, loss = batch.to(CUDA), textbook_loss
        if form == "textbook, compiled":
            model.compile()
    optimizer = optimizer_config.build(model.named_parameters(), 1e-3)
    settings = StepSettings(
        "bf16" if precision == "bf16" else "fp32",
        clip_norm=1.0,
        graphs=TrainingGraphs(model) if form.startswith("graphs") else None,
    )
    if not form.startswith("graphs"):
        return lambda: train_step(model, optimizer, [batch], settings, loss)
    queued: list[Any] = []

    def work() -> None:
        queued.append(queue_step(model, optimizer, [batch], settings))
        if len(queued) == 10:
            read_results(queued)
            queued.clear()

    return work


def resume() -> Iterator[Row]:
    """Yield whether a run that stopped half way has the bits of an unbroken one."""
    for precision in ("fp32", "bf16", "fp16"):
        with tempfile.TemporaryDirectory() as folder:
            unbroken, broken = Path(folder, "unbroken"), Path(folder, "broken")
            _train(unbroken, 24, precision)
            _train(broken, 11, precision)
            _train(broken, 24, precision)
            files = [
                sorted((run / "checkpoints").glob("*24*/*.safetensors"))
                for run in (unbroken, broken)
            ]
            pairs = [[load_file(path) for path in pair] for pair in zip(*files, strict=True)]
            same = [torch.equal(one[k], two[k]) for one, two in pairs for k in one]
            yield {"precision": precision, "tensors": len(same), "equal": sum(same)}


def _train(run: Path, steps: int, precision: str) -> None:
    keys = {"train.steps": steps, "train.epochs": "null", "train.precision": precision,
            "train.device": "cuda", "train.save_every": 5, "valid.every": 8, "train.ema.decay": 0.9,
            "valid.max_examples": 20, "model.layers": 2}  # fmt: skip
    settings = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "nmt", "train", "--config", "configs/starter.yaml"]
    command += ["--run", str(run), "--allow-change", *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-1500:])


def decoding(rounds: int) -> Iterator[Row]:
    """Yield the time of searches of the model of multi30k, which cannot end a sentence."""
    keys, shape, _ = SIZES["multi30k"]
    for precision, beam, n in itertools.product(("fp32", "bf16"), (1, 5), (1, 64, 256)):
        material = fixed_shape(Sizes(**{**shape, "batch": n})).to(CUDA)
        model = forbid_end(model_of({**keys, "dropout": 0.0}, shape["vocabulary"]).to(CUDA)).eval()
        row = {"precision": precision, "beam": beam, "sentences": n}
        try:
            seconds, least, most = median_seconds(
                lambda: decode(model, precision, material, beam), rounds, 1
            )
            row |= {"ms": 1e3 * seconds, "least": 1e3 * least, "most": 1e3 * most,
                    "ms a step": 1e3 * seconds / shape["tgt"], "sentences/s": n / seconds}  # fmt: skip
        except Exception as error:
            row["error"] = repr(error)[:150]
        yield row


def kernels() -> Iterator[Row]:
    """Yield the kernels that take most of the GPU's time in an update, eager, bf16."""
    from torch.profiler import ProfilerActivity, profile

    for size in ("multi30k", "rnnsearch50"):
        keys, shape, optimizer_config = SIZES[size]
        batch = fixed_shape(Sizes(**shape)).batches[0].pinned()
        work = _update("eager", keys, shape["vocabulary"], batch, optimizer_config, "bf16")
        for _ in range(3):
            work()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            work()
            torch.cuda.synchronize()
        events = [e for e in profiler.key_averages() if e.device_type.name == "CUDA"]
        total = sum(e.self_device_time_total for e in events)
        yield {"size": size, "kernel": "all", "launches": sum(e.count for e in events),
               "ms": total / 1e3}  # fmt: skip
        for e in sorted(events, key=lambda e: -e.self_device_time_total)[:22]:
            yield {"size": size, "kernel": e.key[:80], "launches": e.count,
                   "ms": e.self_device_time_total / 1e3}  # fmt: skip


SECTIONS: Mapping[str, Callable[[int], Iterable[Row]]] = {
    "agreement": lambda _: agreement(),
    "translations": lambda _: translations(),
    "graphs": lambda _: graphs(),
    "resume": lambda _: resume(),
    "training": training,
    "decoding": decoding,
    "kernels": lambda _: kernels(),
}


def as_line(row: Row) -> str:
    """Return a row as text."""
    return "  ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in row.items()
    )


def main() -> int:
    """Run the sections; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": machine_card(CUDA, "bf16")}
    report["machine"]["cudnn"] = torch.backends.cudnn.version()
    print(as_line(report["machine"]), flush=True)
    failed = False
    for name in options.sections:
        started = time.perf_counter()
        rows = report[name] = []
        print(f"== {name}", flush=True)
        try:
            for row in SECTIONS[name](options.rounds):
                rows.append(row)
                print(as_line(row), flush=True)
        except Exception:
            failed = True
            traceback.print_exc()
        print(f"-- {name}: {time.perf_counter() - started:.0f} s", flush=True)
        if options.out:
            options.out.write_text(json.dumps(report, indent=1), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
