"""Contradictions between settings: each alone, together, and beside faults of other keys."""

from pathlib import Path

import pytest

from nmt.config import load_config
from nmt.errors import ConfigError

END = "train: {epochs: 1}"
MINIMAL = f"name: x\ndata: {{corpus: starter}}\n{END}\n"

TABLE = """
no end: train.epochs=null
    train.epochs=1 train.steps=1 train.max_minutes=1
cosine: train.epochs=null train.max_minutes=1 train.schedule.kind=cosine
    train.epochs=1 train.steps=1 train.schedule.kind=constant
patience: data.corpus=null data.train.file=a valid.patience=1
    data.corpus=starter data.valid.file=a valid.patience=null data.held_out={"valid":2}
plateau: data.corpus=null data.train.file=a train.schedule.kind=plateau
    data.corpus=starter data.valid.file=a train.schedule.kind=constant
batch: train.batch_by=tokens train.batch_size=9
    train.batch_by=sentences train.batch_size=999 data.max_pieces=5
positions of outputs: LEARNED model.positions.max_length=998 search.max_length=999
    model.positions.max_length=999 search.max_length=998 model.kind=rnn
positions of pairs: LEARNED model.positions.max_length=90 search.max_length=9 data.max_pieces=90
    model.positions.max_length=91 data.max_pieces=89 model.positions.kind=none
search beam: tokenizer.vocab_size=9 search.beam=10
    tokenizer.vocab_size=10 search.beam=9 tokenizer.kind=word
valid beam: tokenizer.kind=word tokenizer.max_size=5 valid.beam=6
    tokenizer.max_size=6 tokenizer.max_size=null valid.beam=5
bytes: tokenizer.byte_fallback=true tokenizer.vocab_size=260
    tokenizer.byte_fallback=false tokenizer.vocab_size=261 tokenizer.kind=word
noise: tokenizer.kind=word data.noise.slip=0.1
    tokenizer.kind=sentencepiece data.noise.slip=0
sampling: tokenizer.kind=word data.sampling.src=0.1
    tokenizer.kind=sentencepiece data.sampling.src=0
epochs that stages cut short: STAGE
    data.stages=[] train.epochs=null
a stage that never begins: STAGE train.epochs=null train.steps=3
    train.steps=4 train.steps=null data.stages=[]
a stage without a change: data.stages=[{"from_step":3,"noise":{"slip":0}}] FOUR_STEPS
    data.noise.slip=0.1 STAGE
noise of a stage: tokenizer.kind=word STAGE FOUR_STEPS
    tokenizer.kind=sentencepiece data.stages=[]
stages in another order: data.stages=[{"from_step":3,"noise":{"slip":1}},{"from_step":3}]
    data.stages=[{"from_step":3,"noise":{"slip":1}},{"from_step":4}]
shares of no mixture: data.stages=[{"from_step":3,"weights":[1,2]}]
    data.stages=[{"from_step":3}] data.train.mix=[{"file":"a"},{"file":"b"}]
joint: model.tie_embeddings=all model.embedding=512
    model.tie_embeddings=none tokenizer.joint=true
readout: model.tie_embeddings=target model.embedding=3
    model.tie_embeddings=none model.embedding=512 model.hidden=3
direction: model.decoder.initial_state=tanh_backward model.encoder.bidirectional=false
    model.decoder.initial_state=zeros model.encoder.bidirectional=true
cells: model.decoder.cell=lstm model.decoder.initial_state=copy model.encoder.bidirectional=false
    model.encoder.cell=lstm model.decoder.cell=gru model.decoder.initial_state=tanh
heads: model.kind=transformer model.heads=7
    model.heads=8 model.size=7
n-best: search.n_best=9 search.beam=3
    search.n_best=3 search.beam=9
two forms: data.valid.file=a data.valid.corpus=b
    data.valid.file=null
"""
"""Contradicting overrides of a config, each followed by the keys of which one mends it."""

WORDS = {
    "LEARNED": "model.kind=transformer model.positions.kind=learned",
    "STAGE": 'data.stages=[{"from_step":3,"noise":{"slip":0.1}}]',
    "FOUR_STEPS": "train.epochs=null train.steps=4",
}
for word, settings in WORDS.items():
    TABLE = TABLE.replace(word, settings)
LINES = TABLE.strip().split("\n")
CONTRADICTIONS = {
    head.partition(": ")[0]: (head.partition(": ")[2].split(), mends.split())
    for head, mends in zip(LINES[::2], LINES[1::2], strict=True)
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("conflicts") / "x.yaml"
    path.write_text(MINIMAL, encoding="utf-8")
    return path


def faults(file: Path, *overrides: str) -> set[str]:
    """The lines without their places."""
    try:
        load_config(file, overrides)
    except ConfigError as error:
        return {line.partition(": ")[2] for line in str(error).splitlines()}
    return set()


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_told_unless_a_key_is_wrong(file: Path, name: str) -> None:
    """Also beside a fault elsewhere, which may hide it at most until it is mended."""
    contradiction, mends = CONTRADICTIONS[name]
    alone = faults(file, *contradiction)
    [line] = alone
    elsewhere = faults(file, "seed=x")
    assert elsewhere <= faults(file, *contradiction, "seed=x") <= alone | elsewhere
    for mend in mends:
        key = mend.partition("=")[0]
        assert line not in faults(file, *contradiction, mend), mend
        assert line not in faults(file, *contradiction, f"{key}={{no: 1}}"), key


def test_contradictions_hide_each_other_neither(file: Path) -> None:
    for names in (("patience", "batch", "bytes", "joint"), ("n-best", "direction")):
        together = [CONTRADICTIONS[name][0] for name in names]
        lines = set.union(*(faults(file, *one) for one in together))
        assert faults(file, *(override for one in together for override in one)) == lines
        assert len(lines) == len(names)
