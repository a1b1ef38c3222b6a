"""The stages of a training (`data.stages`) follow from the number of updates, and from no more."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from training.ranks import in_world
from training.toy import assert_resumes, records, spy, tiny_config, train_tiny

from nmt.batches.batching import Batch
from nmt.text.vocabulary import EOS_ID
from nmt.training.distributed import Ranks
from nmt.training.loop import Outcome, train
from nmt.training.trainer import Trainer

STEPS = 10
STAGES = [
    {"from_step": 2, "weights": [0, 1], "noise": {"upper": 0.5}},
    {"from_step": 5, "sampling": {"tgt": 0.9}},
    {"from_step": 7, "weights": [1, 0]},
]


def sections(folder: Path, **train: Any) -> dict[str, Any]:
    """A mixture of 100 and 10 pairs, four updates an epoch, with three stages."""
    parts = [{"file": str(folder / f"{name}.tsv")} for name in ("train", "test")]
    return {
        "data": {"train": {"mix": parts, "temperature": 5.0}, "stages": STAGES},
        "tokenizer": {"kind": "sentencepiece", "model_type": "bpe", "case": "markup"},
        "train": {"epochs": None, "steps": STEPS, **train},
    }


def test_an_update_has_the_pairs_of_its_stage(corpus: Path, monkeypatch) -> None:
    """From its first update on: the corpora, the noise and the pieces of no other stage."""
    mixture = tiny_config(corpus, **sections(corpus)).data.in_stage(2).train
    assert mixture is not None
    assert mixture.temperature == 5.0, "without weights of its own the mixture's temperature holds"
    shares: list[tuple[float, bool, bool]] = []
    small = set((corpus / "test.tsv").read_text(encoding="utf-8").splitlines())

    def record(trainer: Trainer, group: Sequence[Batch]) -> None:
        src, tgt = trainer.data.tokenizers.src, trainer.data.tokenizers.tgt
        rows = [row for batch in group for row in zip(batch.src_ids, batch.tgt_out, strict=True)]
        pairs = [[tuple(i for i in ids.tolist() if i > EOS_ID) for ids in row] for row in rows]
        texts = [(src.decode(one), tgt.decode(two)) for one, two in pairs]
        n_small = sum("\t".join(pair).lower() in small for pair in texts)
        is_noisy = any(text.isupper() for text, _ in texts)
        is_sampled = [two for _, two in pairs] != tgt.encode_batch([text for _, text in texts])
        shares.append((n_small / len(pairs), is_noisy, is_sampled))

    spy(monkeypatch, Trainer, "_update", record)
    train_tiny(corpus, **sections(corpus))
    assert all(0 < share < 1 for share, *_ in shares[:2] + shares[5:7])
    assert [share for share, *_ in shares[2:5] + shares[7:]] == [1, 1, 1, 0, 0, 0]
    assert [is_noisy for _, is_noisy, _ in shares] == [2 <= step < 5 for step in range(STEPS)]
    assert [is_sampled for *_, is_sampled in shares] == [5 <= step < 7 for step in range(STEPS)]


@pytest.mark.parametrize(
    ("stops", "options", "cache", "epochs"),
    [
        ((1, 1, 1, 2, 1), {}, None, [1, 1, 2, 2, 2, 3, 3, 4, 4, 4]),
        ((2, 2, 1), {"accumulate": 3}, "cache", [1, 1, 2, 2, 3, 4, 4, 5, 5, 6]),
    ],
)
def test_a_resumed_run_is_the_unbroken_one(corpus: Path, stops, options, cache, epochs) -> None:
    """Stopped at any update; a stage ends its epoch, which is then validated."""
    settings = sections(corpus, **options)
    settings["data"]["cache"] = cache and str(corpus / cache)
    assert_resumes(corpus, *stops, **settings)
    assert [record["epoch"] for record in records(corpus / "run", "train")] == epochs
    validated = {record["step"] for record in records(corpus / "run", "valid")}
    assert validated >= {2, 5, 7, STEPS}


def test_a_stage_that_has_begun_stays(corpus: Path) -> None:
    """But a later one may change."""
    settings = sections(corpus)
    train_tiny(corpus, stop_after=3, **settings)
    settings["data"]["stages"] = [STAGES[0], {**STAGES[2], "from_step": 4}]
    train_tiny(corpus, allow_change=True, **settings)
    epochs = [record["epoch"] for record in records(corpus / "run", "train")]
    assert epochs == [1, 1, 2, 2, 3, 3, 3, 3, 4, 4]


def test_two_ranks_begin_a_stage_together(corpus: Path) -> None:
    def work(ranks: Ranks) -> Outcome:
        settings = sections(corpus, device="cpu", accumulate=2)
        return train(tiny_config(corpus, **settings), corpus / "run", quiet=True, ranks=ranks)

    assert [outcome.step for outcome in in_world(2, work, connect=False)] == [STEPS] * 2
    one = sections(corpus, device="cpu", accumulate=4)
    train_tiny(corpus, "whole", **one)
    epochs, of_one = ([r["epoch"] for r in records(corpus / run)] for run in ("run", "whole"))
    assert epochs == of_one
