"""bench_peers.py as far as it can be tested without the other toolkits."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from peers.data import Exported, bleu_of, export, text_of
from peers.toolkit import CONSTRAINTS, Settings, Toolkit
from peers.toolkits import JoeyNMT, Marian, OpenNMT

from nmt.errors import NMTError
from nmt.text.vocabulary import RESERVED

SETTINGS = Settings(hidden=24, embedding=12, vocabulary=300, batch=5, steps=40, report_every=2)

OPENNMT_LOG = """\
[2026-11-21 15:44:46,991 INFO] Step  2/   40; acc: 0.0; ppl: 12660.3; xent: 9.4; lr: 0.00100; \
sents:      64; bsz:  896/1216/64;  590/ 801 tok/s;     41 sec;
"""
JOEYNMT_LOG = """\
2026-11-21 15:49:59,123 - INFO - joeynmt.training - EPOCH 1
2026-11-21 15:50:01,123 - INFO - joeynmt.training - Epoch   1, Step:        2, Batch Loss: \
   90.123456, Batch Acc: 0.012345, Tokens per Sec:      806, Lr: 0.001000
2026-11-21 15:50:09,001 - INFO - joeynmt.training - Epoch   1, Step:        4, Batch Loss: \
   80.123456, Batch Acc: 0.023456, Tokens per Sec:     1012, Lr: 0.001000
"""
MARIAN_LOG = """\
[2026-11-21 15:52:33] Ep. 1 : Up. 2 : Sen. 128 : Cost 8.98 * 2,304 @ 1,152 after 2,304 : Time \
2.84s : 811.27 words/s
"""
PEERS = [
    (OpenNMT(), {"hidden_size": 24, "batch_size": 5, "global_attention": "mlp"}, OPENNMT_LOG),
    (JoeyNMT(), {"model.encoder.hidden_size": 24, "training.batch_size": 5}, JOEYNMT_LOG),
    (Marian(2), {"dim-rnn": 24, "mini-batch": 5, "cpu-threads": 2}, MARIAN_LOG),
]
WINDOWS = {
    "opennmt": [(1216, 1216 / 801)],
    "joeynmt": [(1612, 2), (1012 * 7.878, 7.878)],
    "marian": [(2304, 2.84)],
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The starter corpus, written for all."""
    folder = tmp_path_factory.mktemp("peers") / "data"
    return export("starter", Path("data"), folder, SETTINGS.vocabulary, SETTINGS.seed)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_the_files_for_all_are_in_step_and_counted(exported: Exported) -> None:
    for split in ("train", "valid", "test"):
        forms = exported.pieces, exported.text
        files = [form(split, side) for form in forms for side in ("src", "tgt")]
        assert len({len(lines_of(path)) for path in files}) == 1
    sentences = lines_of(exported.pieces("train", "tgt"))
    assert len(sentences) == exported.pairs
    assert exported.tgt_tokens == sum(len(line.split(" ")) + 1 for line in sentences)
    pieces = lines_of(exported.vocabulary("tgt"))
    assert len(pieces) == SETTINGS.vocabulary - len(RESERVED)
    assert not set(pieces) & set(RESERVED)
    texts = [text_of(line, "fr") for line in lines_of(exported.pieces("test", "tgt"))]
    assert bleu_of(texts, exported.text("test", "tgt")) > 99


def values(tree: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, object]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from values(value, (*path, str(key)))
    else:
        yield ".".join(path), tree


@pytest.mark.parametrize(("toolkit", "sizes", "log"), PEERS, ids=["opennmt", "joeynmt", "marian"])
def test_a_peers_config_has_our_sizes_and_its_log_is_read(
    toolkit: Toolkit, sizes: dict[str, object], log: str, exported: Exported, tmp_path: Path
) -> None:
    toolkit.write(tmp_path, exported, SETTINGS)
    config = dict(values(yaml.safe_load((tmp_path / "config.yaml").read_text(encoding="utf-8"))))
    assert {key: config[key] for key in sizes} == sizes
    assert str(tmp_path / "config.yaml") in toolkit.train_command(Path("python"), tmp_path)
    for value in config.values():  # whatever is named is there
        if isinstance(value, str) and value.startswith(str(exported.folder)):
            assert Path(value).exists() or Path(f"{value}.src").exists()
    windows = toolkit.windows(tmp_path, log, exported)
    assert windows == [pytest.approx(w, rel=1e-6) for w in WINDOWS[toolkit.name.split("-")[0]]]
    assert toolkit.environment
    assert toolkit.environment.install_commands()[0] == [
        "--constraint",
        str(CONSTRAINTS),
        "torch",
        "numpy",
    ]
    with pytest.raises(NMTError, match="not set up"):
        toolkit.python(tmp_path)
