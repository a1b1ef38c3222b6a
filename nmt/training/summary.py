"""The lines that a training begins with: data, model, device and memory, for a reader."""

from collections.abc import Mapping

from nmt.batches.batching import EncodedCorpus
from nmt.config import RunConfig
from nmt.evaluation.evaluate import comparable
from nmt.models.base import Seq2Seq
from nmt.runs.directory import RunDirectory
from nmt.training.training_data import TrainingData, vocabulary_notes
from nmt.training.validation import Validator


def summary(
    config: RunConfig,
    run: RunDirectory,
    data: TrainingData,
    model: Seq2Seq,
    hardware: Mapping[str, str],
    seconds: float,
) -> str:
    """A line for each fact.

    `hardware` describes device, precision and backend, and has the number of processes of several.
    `seconds` is the time of preparation.
    """
    train, tokenizers, batcher = config.train, data.tokenizers, data.batcher
    n_parameters = sum(p.numel() for p in model.parameters())
    world = int(hardware.get("processes", 1))
    n_to_update = train.accumulate * world
    lines = [
        f"run           {run.path}",
        f"pairs         {_describe_pairs(batcher.corpus, data.validator)}",
        *_reference_lines(data.validator),
        f"vocabulary    {len(tokenizers.src.vocab):,} {config.data.src_lang}, "
        f"{len(tokenizers.tgt.vocab):,} {config.data.tgt_lang}"
        f"{' (joint)' if tokenizers.joint else ''}",
        *(
            f"              {note}"
            for note in vocabulary_notes(config.tokenizer, tokenizers, batcher.corpus)
        ),
        f"model         {config.model.kind}, {n_parameters:,} parameters",
        f"device        {hardware['device']}, {hardware['precision']}",
        f"backend       {hardware['backend']}",
        f"batches       {len(batcher.plan(0)):,} an epoch, {train.batch_size:,} "
        f"{train.batch_by} each" + (f", {n_to_update} to an update" if n_to_update > 1 else ""),
        *([f"processes     {world}, whose tokens a second are counted together"] * (world > 1)),
        f"memory        about {_memory_gib(n_parameters, config):.2f} GiB for weights, gradients "
        "and optimiser; the rest is known after the first batches",
        f"prepared in   {seconds:.1f} s",
    ]
    return "\n".join(lines)


def _describe_pairs(corpus: EncodedCorpus, validator: Validator | None) -> str:
    n_dropped = sum(corpus.dropped.values())
    text = f"{len(corpus):,} for training"
    if n_dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in corpus.dropped.items())
        text += f" ({n_dropped:,} left out: {reasons})"
    if validator is not None:
        text += f", {len(validator.examples):,} sentences for validation"
        if n_empty := sum(validator.corpus.dropped.values()):
            text += f" ({n_empty:,} pairs with an empty side count in its BLEU, not in its loss)"
    return text


def _reference_lines(validator: Validator | None) -> list[str]:
    """Notes on what scoring alters in the validation references, if anything."""
    if validator is None:
        return []
    no_hyps = ["" for _ in validator.examples]
    notes = comparable(no_hyps, validator.examples, validator.scoring).notes()
    return [f"references    {note}" for note in notes]


def _memory_gib(n_parameters: int, config: RunConfig) -> float:
    """fp32 weights, their averages and gradients, and what the optimiser keeps of each."""
    optimizer = config.train.optimizer
    moments = {"sgd": 1 if getattr(optimizer, "momentum", 0) else 0}.get(optimizer.kind, 2)
    averages = 0 if config.train.ema is None else 1
    return (2 + moments + averages) * 4 * n_parameters / 2**30
