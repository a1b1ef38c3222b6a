"""Measure a GPU: agreement, resume, training and search.

    python scripts/gpu_day.py --out report.json
    python scripts/gpu_day.py training decoding --rounds 5
    PYTHONPATH=tests:scripts python -c "import pretend_cuda, gpu_day; gpu_day.main()" --tiny

scripts/gpu_day.sh prepares a bare machine and runs it. Every section prints its rows as soon as it
is measured; one that fails says why, and the others go on. The last line above is a dry run on the
tests' pretend GPU.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from bench import Sizes, fixed_shape
from measuring import decode, forbid_end, in_turn, machine_card
from pydantic import TypeAdapter
from safetensors.torch import load_file
from textbook import textbook_loss, textbook_of
from torch import Tensor, nn

from nmt.batches.batching import Batch
from nmt.config import load_config
from nmt.device import Precision, autocast
from nmt.models.base import Seq2Seq
from nmt.models.catalog import ModelConfig, build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.optim.losses import CrossEntropy
from nmt.optim.optimizers import OptimizerConfig
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.training.graphs import TrainingGraphs
from nmt.training.step import (
    PendingResult,
    StepSettings,
    queue_step,
    read_results,
    train_step,
    translation_loss,
)

CUDA, CPU = torch.device("cuda"), torch.device("cpu")
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "fp16")
Row = Mapping[str, Any]

_SMALL = {"kind": "rnn", "embedding": 48, "hidden": 64}
_LSTM = {"kind": "bahdanau", "cell": "lstm"}
_LOCAL = {"kind": "local_p", "window": 2}
MODELS: Mapping[str, Mapping[str, Any]] = {
    "gru": _SMALL,
    "conditional": {**_SMALL, "decoder": {"kind": "conditional", "initial_state": "mean"}},
    "luong": {**_SMALL, "decoder": {"kind": "luong"}, "attention": {"kind": "general"}},
    "lstm": {**_SMALL, "encoder": {"cell": "lstm"}, "decoder": _LSTM, "layers": 2},
    "heads": {**_SMALL, "attention": {"kind": "multi_head", "heads": 4}},
    "hard": {**_SMALL, "attention": {"kind": "additive", "weights": {"kind": "hard"}}},
    "local": {**_SMALL, "attention": {"kind": "additive", "span": _LOCAL}},
    "transformer": {"kind": "transformer", "size": 64, "heads": 4, "layers": 2},
}
"""A small model each."""

SMALL = Sizes(batch=24, src=17, tgt=15, vocabulary=200)
"""The sizes of the batch of MODELS."""


class Recipe(NamedTuple):
    """A model, the sizes of its batches and its optimiser, whose training is timed."""

    model: RNNConfig
    sizes: Mapping[str, int]
    optimizer: OptimizerConfig


def recipe_of(name: str, **sizes: int) -> Recipe:
    """Return the model and the optimiser of a file of configs/, with these sizes."""
    config = load_config(Path(__file__).parents[1] / "configs" / f"{name}.yaml")
    assert isinstance(config.model, RNNConfig)
    return Recipe(config.model, sizes, config.train.optimizer)


_LONG = {"src": 28, "tgt": 28, "vocabulary": 30000}
RECIPES = {
    "multi30k": recipe_of("multi30k", batch=64, src=16, tgt=20, vocabulary=6000),
    "rnnsearch50": recipe_of("rnnsearch50", batch=80, **_LONG),
    "rnnsearch50, B 512": recipe_of("rnnsearch50", batch=512, **_LONG),
}

FORMS = ("graphs", "eager", "graphs, no Triton", "textbook", "textbook, compiled")
"""nmt's update with and without CUDA graphs and Triton, and the textbook's loop beside it."""


def model_of(config: ModelConfig | Mapping[str, Any], vocabulary: int) -> Seq2Seq:
    """Return a model of a config or its keys, with weights that are the same at every call."""
    torch.manual_seed(1)
    if isinstance(config, Mapping):
        config = TypeAdapter[ModelConfig](ModelConfig).validate_python(config)
    return build_model(config, vocabulary, vocabulary)


def agreement() -> Iterator[Row]:
    """Yield the relative errors of loss and gradient; the reference is the CPU in fp32."""
    [batch] = fixed_shape(SMALL, with_padding=True).batches
    for name, keys in MODELS.items():
        row: dict[str, Any] = {"model": name}
        reference = _loss_and_gradient(keys, batch, CPU, "fp32")
        for is_tf32, precision in [(True, "fp32"), *((False, p) for p in PRECISIONS)]:
            _allow_tf32(is_tf32)
            loss, gradient = _loss_and_gradient(keys, batch, CUDA, precision)
            title = "tf32" if is_tf32 else precision
            row[f"{title} loss"] = abs(loss / reference[0] - 1)
            row[f"{title} gradient"] = float((gradient - reference[1]).norm() / reference[1].norm())
        yield row


def _allow_tf32(is_allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = is_allowed


def _loss_and_gradient(
    keys: Mapping[str, Any], batch: Batch, device: torch.device, precision: Precision
) -> tuple[float, Tensor]:
    model = model_of(keys, SMALL.vocabulary).to(device).eval()  # nothing is drawn
    with autocast(device, precision):
        loss = translation_loss(model, batch, StepSettings(loss=CrossEntropy(0.1)))
    (loss.loss_sum / batch.n_tokens).backward()  # type: ignore[no-untyped-call]
    gradients = [p.grad.flatten().float().cpu() for p in model.parameters() if p.grad is not None]
    return float(loss.nll_sum), torch.cat(gradients)


def translations() -> Iterator[Row]:
    """Yield how many translations in fp32 are the CPU's, and how far the scores of these differ."""
    _allow_tf32(False)
    [batch] = fixed_shape(SMALL, with_padding=True).batches
    for (name, keys), beam in product(MODELS.items(), (1, 5)):
        model = model_of(keys, SMALL.vocabulary).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2)  # choices vary
        results = []
        for device in (CPU, CUDA):
            inputs, config = batch.to(device), SearchConfig(beam=beam)
            results.append(search(model.to(device), inputs.src_ids, inputs.src_lengths, config))
        pairs = [(one[0], two[0]) for one, two in zip(*results, strict=True)]
        equal = [abs(one.score - two.score) for one, two in pairs if one.ids == two.ids]
        yield {
            **{"model": name, "beam": beam, "sentences": len(pairs), "equal": len(equal)},
            "scores apart": max(equal, default=0.0),
        }


def resume() -> Iterator[Row]:
    """Yield the number of tensors that an interrupted and an unbroken run have in common."""
    for precision in PRECISIONS:
        with tempfile.TemporaryDirectory() as folder:
            runs = Path(folder, "unbroken"), Path(folder, "broken")
            for run, steps in ((runs[0], 24), (runs[1], 11), (runs[1], 24)):
                _train(run, steps, precision)
            files = [sorted(run.glob("checkpoints/*24/*.safetensors")) for run in runs]
            pairs = [map(load_file, paths) for paths in zip(*files, strict=True)]
            equal = [torch.equal(one[k], two[k]) for one, two in pairs for k in one]
            yield {"precision": precision, "tensors": len(equal), "equal": sum(equal)}


def _train(run: Path, steps: int, precision: Precision) -> None:
    keys = {
        **{"train.steps": steps, "train.epochs": "null", "train.precision": precision},
        **{"train.device": "cuda", "train.save_every": 5, "train.ema.decay": 0.9},
        **{"valid.every": 8, "valid.max_examples": 20, "model.layers": 2},
    }
    command = [sys.executable, "-m", "nmt", "train", "--config", "starter", "--run", str(run)]
    command += [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
    done = subprocess.run([*command, "--allow-change"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-1000:])


def training(rounds: int) -> Iterator[Row]:
    """Yield the time of updates of each recipe in each form."""
    precisions = ("fp32", "tf32", "bf16")
    for (name, recipe), form, precision in product(RECIPES.items(), FORMS, precisions):
        if precision == "tf32" and form != "graphs":
            continue
        _allow_tf32(precision == "tf32")
        material = fixed_shape(Sizes(**recipe.sizes))
        row = {"recipe": name, "form": form, "precision": precision}
        try:
            batch = material.batches[0].pin_memory()
            work = update(recipe, form, batch, "bf16" if precision == "bf16" else "fp32")
            torch.cuda.reset_peak_memory_stats()
            yield row | {
                **timed(work, rounds, 10, material.amount.tokens / 1e3, "k tokens/s"),
                "GiB": torch.cuda.max_memory_allocated() / 2**30,
            }
        except Exception as error:  # no memory, or the compiler's
            yield row | {"error": repr(error)[:150]}
        torch.cuda.empty_cache()


def update(recipe: Recipe, form: str, batch: Batch, precision: Precision) -> Callable[[], object]:
    """Return an update of a recipe in one of FORMS; ten by graphs are read together."""
    config, vocabulary = recipe.model, recipe.sizes["vocabulary"]
    if form.endswith("no Triton"):
        config = config.model_copy(update={"backend": "reference"})
    model: nn.Module = model_of(config, vocabulary).to(CUDA).train()
    loss: Any = translation_loss
    if form.startswith("textbook"):
        plain = RNNConfig(embedding=config.embedding, hidden=config.hidden, dropout=0.0)
        textbook = textbook_of(model_of(plain, vocabulary), plain, vocabulary, vocabulary)
        model, loss, batch = textbook.to(CUDA).train(), textbook_loss, batch.to(CUDA)
        if form.endswith("compiled"):
            model.compile()
    optimizer = recipe.optimizer.build(model.named_parameters(), 1e-3)
    recorder = TrainingGraphs(model) if form.startswith("graphs") else None
    settings = StepSettings(precision, clip_norm=1.0, graphs=recorder)
    if recorder is None:
        return lambda: train_step(model, optimizer, [batch], settings, loss)
    queued: list[PendingResult] = []

    def work() -> None:
        queued.append(queue_step(model, optimizer, [batch], settings))
        if len(queued) == 10:
            read_results(queued)
            queued.clear()

    return work


def timed(
    work: Callable[[], object], rounds: int, count: int, amount: float, unit: str
) -> dict[str, float]:
    """Return the milliseconds of a call, of which a round makes `count`, and `amount` a second."""
    task = in_turn({"": lambda: [work() for _ in range(count)]}, rounds)[0][""]
    return {"ms": 1e3 / task.rate(count), **task.rates(unit, amount * count)}


def decoding(rounds: int) -> Iterator[Row]:
    """Yield the time of searches of a model of `multi30k`, which cannot end a sentence."""
    recipe = RECIPES["multi30k"]
    _allow_tf32(False)
    for beam, n in product((1, 5), (1, 64, 256)):
        material = fixed_shape(Sizes(**{**recipe.sizes, "batch": n})).to(CUDA)
        factor = material.amount.tgt / material.amount.src
        model = forbid_end(model_of(recipe.model, recipe.sizes["vocabulary"]).to(CUDA)).eval()
        work = partial(decode, model, material, beam, factor)
        yield {"beam": beam, "sentences": n} | timed(work, rounds, 1, n, "sentences/s")


SECTIONS: Mapping[str, Callable[[int], Iterable[Row]]] = {
    "agreement": lambda _: agreement(),
    "translations": lambda _: translations(),
    "resume": lambda _: resume(),
    "training": training,
    "decoding": decoding,
}


def as_line(row: Row) -> str:
    return "  ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in row.items()
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sections; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="all figures as JSON")
    parser.add_argument("--tiny", action="store_true", help="recipes of a few units: a dry run")
    options = parser.parse_args(arguments)
    if options.tiny:
        small = {"batch": 4, "src": 5, "tgt": 6, "vocabulary": 100}
        for name, recipe in RECIPES.items():
            model = recipe.model.model_copy(update={"hidden": 12})
            RECIPES[name] = recipe._replace(model=model, sizes=small)
    machine = machine_card(CUDA, "bf16")
    print(as_line(machine), flush=True)
    report: dict[str, Any] = {"machine": machine}
    failed = False
    for name in options.sections or SECTIONS:
        started, rows = time.perf_counter(), []
        print(f"== {name}", flush=True)
        try:
            for row in SECTIONS[name](options.rounds):
                rows.append(row)
                print(as_line(row), flush=True)
        except Exception:
            failed = True
            traceback.print_exc()
        report[name] = rows
        print(f"-- {name}: {time.perf_counter() - started:.0f} s", flush=True)
        if options.out:
            options.out.write_text(json.dumps(report, indent=1), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
