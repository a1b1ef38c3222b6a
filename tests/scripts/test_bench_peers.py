"""bench_peers.py as far as it can be tested without the other toolkits."""

import itertools
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import bench_peers
import peers.rounds
import pytest
import yaml
from peers.data import Counts, Exported, bleu_of, export, text_of
from peers.environments import CONSTRAINTS, install_commands, python_of
from peers.joeynmt import JoeyNMT
from peers.marian import Marian
from peers.opennmt import OpenNMT
from peers.own import Own
from peers.rounds import Measured, Place, train_in_turn, translate_in_turn
from peers.settings import Settings
from peers.table import decoding_table, training_table
from peers.toolkit import Job, Toolkit, Window, steady_rate

from nmt.config import load_config
from nmt.errors import NMTError
from nmt.settings.keys import KeyPath
from nmt.text.tokenizer import train_tokenizers
from nmt.text.vocabulary import RESERVED
from nmt.types import SentencePair

SETTINGS = Settings(hidden=24, embedding=12, vocabulary=300, batch=5, steps=40, report_every=2)

OPENNMT_LOG = """\
[2026-11-21 15:44:46,991 INFO] Step  2/   40; acc: 0.0; ppl: 12660.3; xent: 9.4; lr: 0.00100; \
sents:      64; bsz:  896/1216/64;  590/ 801 tok/s;     41 sec;
[2026-11-21 15:45:11,793 INFO] Step 40/   40; acc: 2.8; ppl: 7489.7; xent: 8.9; lr: 0.00100; \
sents:      64; bsz: 1408/1697/64; 1057/1468 tok/s;     66 sec;
"""
JOEYNMT_LOG = """\
2026-11-21 15:49:59,123 - INFO - joeynmt.training - EPOCH 1
2026-11-21 15:50:01,123 - INFO - joeynmt.training - Epoch   1, Step:        2, Batch Loss: \
   90.123456, Batch Acc: 0.012345, Tokens per Sec:      806, Lr: 0.001000
2026-11-21 15:50:09,001 - INFO - joeynmt.training - Epoch   1, Step:        4, Batch Loss: \
   80.123456, Batch Acc: 0.023456, Tokens per Sec:     1012, Lr: 0.001000
2026-11-21 15:50:10,001 - INFO - joeynmt.training - Epoch   1, total training loss: 170.25, \
num. of seqs: 256, num. of tokens: 9584, 9.8780[sec]
2026-11-21 15:50:10,001 - INFO - joeynmt.training - EPOCH 2
2026-11-21 15:50:12,001 - INFO - joeynmt.training - Epoch   2, Step:        6, Batch Loss: \
   70.123456, Batch Acc: 0.033456, Tokens per Sec:     1000, Lr: 0.001000
"""
MARIAN_LOG = """\
[2026-11-21 15:52:33] Ep. 1 : Up. 2 : Sen. 128 : Cost 8.98 * 2,304 @ 1,152 after 2,304 : Time \
2.84s : 811.27 words/s
[2026-11-21 15:52:36] Ep. 1 : Up. 4 : Sen. 256 : Cost 8.61 * 2,100 @ 1,050 after 4,404 : Time \
2.60s : 807.69 words/s
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The starter corpus, written for all."""
    folder = tmp_path_factory.mktemp("peers") / "data"
    return export("starter", Path("data"), folder, SETTINGS.vocabulary, SETTINGS.seed)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_every_file_has_its_lines_in_step(exported: Exported) -> None:
    for split in ("train", "valid", "test"):
        files = [kind(split, side) for kind in (exported.pieces, exported.text)
                 for side in ("src", "tgt")]  # fmt: skip
        assert len({len(lines_of(path)) for path in files}) == 1
    assert len(lines_of(exported.pieces("train", "src"))) == exported.counts.pairs


def test_counts_are_those_of_the_files_with_an_end_a_sentence(exported: Exported) -> None:
    for side, counted in (
        ("src", exported.counts.src_tokens), ("tgt", exported.counts.tgt_tokens)
    ):  # fmt: skip
        sentences = lines_of(exported.pieces("train", side))
        assert counted == sum(len(line.split(" ")) + 1 for line in sentences)
    assert json.loads((exported.folder / "counts.json").read_text())["pairs"] > 10_000
    assert Counts(1, 3, 4).both_by_target == 1.75


def test_the_vocabulary_is_ours_without_the_reserved_ones(exported: Exported) -> None:
    for side in ("src", "tgt"):
        pieces = lines_of(exported.vocabulary(side))
        assert len(pieces) == SETTINGS.vocabulary - len(RESERVED)
        assert not set(pieces) & set(RESERVED)
        assert set(" ".join(lines_of(exported.pieces("valid", side))[:50]).split(" ")) - set(
            pieces
        ) <= {"<unk>"}


def test_pieces_go_back_to_the_text(exported: Exported) -> None:
    pieces, texts = lines_of(exported.pieces("test", "tgt")), lines_of(exported.text("test", "tgt"))
    back = [text_of(line, "fr") for line in pieces]
    assert bleu_of(back, exported.text("test", "tgt")) > 99
    assert back[0].replace("’", "'") == texts[0].replace("’", "'")
    assert text_of("▁a lt eré e", "en") == "alterée"


def test_our_own_config_is_one_that_nmt_reads(exported: Exported, tmp_path: Path) -> None:
    Own("bf16").write(tmp_path, exported, SETTINGS)
    config = load_config(tmp_path / "config.yaml")
    assert config.model.hidden == 24
    assert config.model.encoder.hidden is None
    (tmp_path / "half").mkdir()
    Own("fp32", "half").write(tmp_path / "half", exported, SETTINGS)
    assert load_config(tmp_path / "half" / "config.yaml").model.encoder.hidden == 12
    assert config.train.precision == "bf16"
    assert config.train.steps == 40
    pairs = [
        SentencePair(src, tgt)
        for src, tgt in zip(
            lines_of(exported.text("train", "src")),
            lines_of(exported.text("train", "tgt")),
            strict=True,
        )
    ]
    same = train_tokenizers(config.tokenizer, pairs, "en", "fr", config.seed)
    assert list(same.tgt.vocab.pieces[4:]) == lines_of(exported.vocabulary("tgt"))


def values(tree: object, path: KeyPath = ()) -> Iterator[tuple[str, object]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from values(value, (*path, key))
    else:
        yield ".".join(map(str, path)), tree


@pytest.mark.parametrize(
    ("toolkit", "sizes"),
    [
        (OpenNMT(), {"hidden_size": 24, "word_vec_size": 12, "batch_size": 5, "train_steps": 40,
                     "global_attention": "mlp", "encoder_type": "brnn", "rnn_type": "GRU"}),
        (JoeyNMT(), {"model.encoder.hidden_size": 24, "model.decoder.hidden_size": 24,
                     "model.encoder.embeddings.embedding_dim": 12, "training.batch_size": 5,
                     "training.updates": 40, "model.decoder.attention": "bahdanau",
                     "model.encoder.bidirectional": True}),
        (Marian(2), {"dim-rnn": 24, "dim-emb": 12, "mini-batch": 5, "after-batches": 40,
                     "enc-type": "bidirectional", "cpu-threads": 2}),
    ],
    ids=lambda value: value.name if isinstance(value, Toolkit) else "",
)  # fmt: skip
def test_a_peers_config_says_our_sizes(
    toolkit: Toolkit, sizes: dict[str, object], exported: Exported, tmp_path: Path
) -> None:
    toolkit.write(tmp_path, exported, SETTINGS)
    said = dict(values(yaml.safe_load((tmp_path / "config.yaml").read_text(encoding="utf-8"))))
    assert {key: said[key] for key in sizes} == sizes
    assert str(tmp_path / "config.yaml") in toolkit.train_command(Path("python"), tmp_path)
    for value in said.values():  # whatever is named is there
        if isinstance(value, str) and value.startswith(str(exported.folder)):
            assert Path(value).exists() or Path(f"{value}.src").exists()


def test_marians_vocabulary_numbers_every_piece_once(exported: Exported, tmp_path: Path) -> None:
    Marian(1).write(tmp_path, exported, SETTINGS)
    numbers = yaml.safe_load((tmp_path / "vocab.tgt.yml").read_text(encoding="utf-8"))
    assert sorted(numbers.values()) == list(range(SETTINGS.vocabulary - 2))
    assert (numbers["</s>"], numbers["<unk>"]) == (0, 1)


@pytest.mark.parametrize(
    ("toolkit", "log", "windows"),
    [
        (OpenNMT(), OPENNMT_LOG, [(1216, 1216 / 801), (1697, 1697 / 1468)]),
        (JoeyNMT(), JOEYNMT_LOG, [(1612, 2), (1012 * 7.878, 7.878), (2000, 2)]),
        (Marian(1), MARIAN_LOG, [(2304, 2.84), (2100, 2.6)]),
    ],
    ids=lambda value: value.name if isinstance(value, Toolkit) else "",
)
def test_the_speed_of_target_tokens_is_read_from_the_log(
    toolkit: Toolkit,
    log: str,
    windows: list[tuple[float, float]],
    exported: Exported,
    tmp_path: Path,
) -> None:
    found = [(window.tokens, window.seconds) for window in toolkit.windows(tmp_path, log, exported)]
    assert found == [pytest.approx(window, rel=1e-6) for window in windows]
    assert toolkit.windows(tmp_path, "nothing of it\n", exported) == []


def test_our_own_log_counts_both_sides(exported: Exported, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    records = [
        {"type": "train", "seconds": 3.0, "tokens_per_second": 1000.0},
        {"type": "valid", "seconds": 3.5, "bleu": 1.0},
        {"type": "train", "seconds": 5.0, "tokens_per_second": 2000.0},
    ]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "model" / "metrics.jsonl").write_text(text)
    share = exported.counts.tgt_tokens / (exported.counts.src_tokens + exported.counts.tgt_tokens)
    first, second = Own("fp32").windows(tmp_path, "", exported)
    assert (first.seconds, second.seconds) == (3, 2)
    assert first.tokens == pytest.approx(3 * 1000 * share)
    assert second.tokens == pytest.approx(2 * 2000 * share)


def test_a_steady_rate_is_tokens_over_seconds_without_the_beginning() -> None:
    windows = [Window(1, 100), Window(10, 1), Window(200, 2), Window(30, 1)]
    assert steady_rate(windows) == pytest.approx((10 + 200 + 30) / (1 + 2 + 1))
    with pytest.raises(ValueError, match="no lines of speed"):
        steady_rate([])


def test_torch_is_pinned_and_nothing_pulls_in_another() -> None:
    for toolkit in (OpenNMT(), JoeyNMT(), Marian(1)):
        calls = install_commands(toolkit.environment)
        assert calls[0] == ["--constraint", str(CONSTRAINTS), "torch", "numpy"]
        for call in calls:
            assert call[0] in ("--constraint", "--no-deps")
    assert any(line.startswith("torch==") for line in CONSTRAINTS.read_text().splitlines())


def test_a_toolkit_that_was_not_set_up_is_named(tmp_path: Path) -> None:
    assert python_of(Own("fp32"), tmp_path) == Path(sys.executable)
    with pytest.raises(NMTError, match="opennmt: not set up"):
        python_of(OpenNMT(), tmp_path)


class Fake(Toolkit):
    """Trains and translates with a line of Python, and notes when."""

    environment = None

    def __init__(self, name: str, rate: float) -> None:
        self.name = name
        self.rate = rate

    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        (folder / "config.yaml").write_text("{}")

    def train_command(self, python: Path, folder: Path) -> list[str]:
        script = f"open({str(folder.parent / 'order')!r}, 'a').write({self.name!r}); print('ran')"
        return [str(python), "-c", script]

    def windows(self, folder: Path, log: str, data: Exported) -> list[Window]:
        return [Window(self.rate, 1)] * 4 if "ran" in log else []

    def translate_command(self, python: Path, folder: Path, job: Job) -> list[str]:
        script = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])"
        return [str(python), "-c", script, str(job.src), str(job.out)]


def test_toolkits_run_in_turn(exported: Exported, tmp_path: Path) -> None:
    place = Place(tmp_path, tmp_path, 1)
    measured = train_in_turn([Fake("A", 10), Fake("B", 20)], place, exported, SETTINGS, 2)
    assert (tmp_path / "order").read_text() == "ABAB"
    assert measured["A"].rates == (10, 10)
    table = training_table(measured, 2.0).splitlines()
    assert table[0].startswith("| toolkit | target tokens/s |")
    assert table[2].startswith("| A | 10.0 | 10.0 to 10.0 | 20 | 1.00 |")
    assert table[3].startswith("| B | 20.0 | 20.0 to 20.0 | 40 | 0.50 |")


def test_a_process_that_fails_says_why(exported: Exported, tmp_path: Path) -> None:
    class Broken(Fake):
        def train_command(self, python: Path, folder: Path) -> list[str]:
            return [str(python), "-c", "raise SystemExit('no such option')"]

    with pytest.raises(NMTError, match="exit code 1: no such option"):
        train_in_turn([Broken("X", 1)], Place(tmp_path, tmp_path, 1), exported, SETTINGS, 1)


def take(seconds: Sequence[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let translations, one after another and over again, take these times."""
    real, times = peers.rounds._translate, itertools.cycle(seconds)

    def timed(toolkit: Toolkit, place: Place, job: Job) -> float:
        real(toolkit, place, job)
        return next(times)

    monkeypatch.setattr(peers.rounds, "_translate", timed)


def test_translations_are_timed_without_loading_and_scored(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take([3, 5], monkeypatch)  # the first sentence, then the whole test set
    models = {Fake("A", 1): tmp_path}
    place = Place(tmp_path, tmp_path, 1)
    measured = translate_in_turn(models, place, exported, SETTINGS, [7], 1)["A", 7]
    n = len(lines_of(exported.text("test", "src")))
    assert measured.rates == ((n - 1) / 2,)
    assert measured.bleu is not None
    assert 0 <= measured.bleu < 50  # it copied the source
    assert f"| A | 7 | {(n - 1) / 2:,.0f} |" in decoding_table({("A", 7): measured})


def test_a_time_that_loading_hides_is_no_figure(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take([2], monkeypatch)
    place, settings = Place(tmp_path, tmp_path, 1), SETTINGS.model_copy(update={"sentences": 3})
    with pytest.raises(NMTError, match="A: 3 sentences took no longer than one"):
        translate_in_turn({Fake("A", 1): tmp_path}, place, exported, settings, [7], 1)


def test_one_that_does_not_sort_is_given_sentences_by_length_and_read_back_in_order(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take([1, 2], monkeypatch)

    class Unsorted(Fake):
        sorts = False

    place, settings = Place(tmp_path, tmp_path, 1), SETTINGS.model_copy(update={"sentences": 50})
    toolkits = {Fake("A", 1): tmp_path, Unsorted("B", 1): tmp_path}
    measured = translate_in_turn(toolkits, place, exported, settings, [7], 1)
    sources = lines_of(exported.pieces("test", "src"))[:50]
    given = lines_of(tmp_path / "B" / "test.src")
    assert lines_of(tmp_path / "A" / "test.src") == sources
    assert sorted(given) == sorted(sources)
    lengths = [line.count(" ") for line in given]
    assert lengths == sorted(lengths)
    assert measured["A", 7].bleu == measured["B", 7].bleu


def test_joeynmt_is_given_batches_of_like_lengths(exported: Exported, tmp_path: Path) -> None:
    JoeyNMT().write(tmp_path, exported, SETTINGS)
    given = [lines_of(tmp_path / f"train.{side}") for side in ("src", "tgt")]
    pairs = list(zip(*given, strict=True))
    original = [lines_of(exported.pieces("train", side)) for side in ("src", "tgt")]
    assert sorted(pairs) == sorted(zip(*original, strict=True))
    batches = [pairs[at : at + SETTINGS.batch] for at in range(0, len(pairs), SETTINGS.batch)]
    longest = [max(tgt.count(" ") + 1 for _, tgt in batch) for batch in batches]
    padded = sum(n * len(batch) for n, batch in zip(longest, batches, strict=True))
    assert padded < 1.01 * sum(tgt.count(" ") + 1 for _, tgt in pairs)
    assert longest != sorted(longest)


def test_joeynmt_as_it_is_shuffles_the_files_of_all(exported: Exported, tmp_path: Path) -> None:
    written = {}
    for toolkit in (JoeyNMT(), JoeyNMT(helped=False)):
        folder = tmp_path / toolkit.name
        folder.mkdir()
        toolkit.write(folder, exported, SETTINGS)
        written[toolkit.name] = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    helped, alone = written.values()
    assert Path(f"{alone['data']['train']}.src").samefile(exported.pieces("train", "src"))
    assert (helped["training"].pop("shuffle"), alone["training"].pop("shuffle")) == (False, True)
    assert helped["training"] == alone["training"]
    assert helped["model"] == alone["model"]


def test_all_search_with_the_same_rule(exported: Exported, tmp_path: Path) -> None:
    for toolkit in (Own("fp32"), OpenNMT(), JoeyNMT(), Marian(1)):
        folder = tmp_path / toolkit.name
        folder.mkdir()
        toolkit.write(folder, exported, SETTINGS)
        job = Job(tmp_path / "model", tmp_path / "src", tmp_path / "out", 16, SETTINGS)
        words = toolkit.translate_command(Path("python"), folder, job)
        path = folder / "translate-16.yaml"
        if path.is_file():
            testing = yaml.safe_load(path.read_text(encoding="utf-8"))["testing"]
            words = [f"{key}={value}" for key, value in testing.items()]
            assert {"beam_size=5", "batch_size=16", "beam_alpha=0.6"} <= set(words)
        else:
            said = " ".join(words)
            assert re.search(r"beam(.size)? 5 ", said)
            assert re.search(r"batch(.size)? 16 ", said)
            assert " 0.6" in said
            assert re.search(r"(factor|ratio)[= ]1.5", said)


def test_load_is_said_in_the_table() -> None:
    table = training_table({"A": Measured((1.0,), 0.3), "B": Measured((1.0,), 0.01)}, 2.0)
    busy, clean = table.splitlines()[2:]
    assert busy.endswith("| not clean: 30 % of a core was busy elsewhere |")
    assert clean.endswith("|  |")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--only", "fairseq"], "toolkit: got 'fairseq', allowed: nmt, nmt-bf16,"),
        (["decode"], "--models: got [], allowed: NAME=PATH"),
        (["decode", "--models", "nmt=nowhere"], "nowhere: no such file"),
        (["train", "--settings", "stepps=3"], "unknown key; did you mean 'steps'?"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench_peers.main(arguments) == 2
    assert said in capsys.readouterr().err
