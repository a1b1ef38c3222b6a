"""The run config: cross-field checks, the shipped configs, and the law of dump and load."""

import copy
import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nmt.config import RunConfig, TrainConfig, config_of, dump_config, load_config
from nmt.data.sources import DataConfig, SplitConfig
from nmt.decoding.search_config import SearchConfig
from nmt.errors import ConfigError
from nmt.optim.optimizers import AdadeltaConfig
from nmt.optim.schedules import CosineConfig
from nmt.settings.config_file import Override
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.word_tokenizer import WordConfig

MINIMAL = "name: x\ndata: {corpus: starter}\ntrain: {epochs: 1}\n"
CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.yaml"))


def load(folder: Path, text: str, *overrides: str) -> RunConfig:
    path = folder / "x.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, [Override.parse(text, f"--set {text}") for text in overrides])


def errors(folder: Path, text: str, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, text, *overrides)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def test_a_minimal_config_has_the_defaults(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL)
    assert config == RunConfig(
        name="x", data=DataConfig(corpus="starter"), train=TrainConfig(epochs=1)
    )


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("train.epochs=null", "train: says no end: give at least one of epochs, steps, max_min"),
        ("data.corpus=null", "data: nothing to learn from: give corpus (a named corpus) or tra"),
        ("search.beam=8001", "search.beam: got 8001, allowed: at most the vocabulary's size, toke"),
        ("valid.beam=8001", "valid.beam: got 8001, allowed: at most the vocabulary's size, tokeni"),
        ("model.tie_embeddings=all", "model.tie_embeddings: 'all' needs one vocabulary for both"),
        ("train.batch_by=tokens", "train.batch_size: got 64 tokens, allowed: more than data.max_p"),
        ("train.device=gpu", "train.device: got 'gpu', allowed: auto, cpu, cuda, cuda:N, mps"),
        ("train.device=cuda:x", "train.device: got 'cuda:x', allowed: auto, cpu, cuda, cuda:N, m"),
        (
            "name=a/b",
            "name: got 'a/b', allowed: letters, digits and _ . + -, where the first is a letter, a "
            "digit or _",
        ),
        ("seed=-1", "seed: got -1, allowed: >= 0"),
    ],
)
def test_each_check_says_what_is_wrong(tmp_path: Path, override: str, line: str) -> None:
    size = [] if "tie" in override else ["model.embedding=512"]
    found = errors(tmp_path, MINIMAL, *size, "model.embedding=512", override)
    assert len(found) == 1
    assert line in found[0]


def test_a_conflict_is_reported_at_its_key(tmp_path: Path) -> None:
    text = (
        "name: x\n"
        "data:\n  train: {tsv: a.tsv}\n"
        "train:\n  epochs: 1\n  schedule:\n    kind: plateau\n"
        "valid:\n  patience: 3\n"
    )
    assert errors(tmp_path, text) == [
        "x.yaml:7: train.schedule.kind: 'plateau' needs a validation set: "
        "give data.valid, data.held_out or data.corpus",
        "x.yaml:9: valid.patience: needs a validation set: "
        "give data.valid, data.held_out or data.corpus",
    ]
    held_out = text.replace("data:\n", "data:\n  held_out: {valid: 2}\n")
    path = tmp_path / "held.yaml"
    path.write_text(held_out, encoding="utf-8")
    assert load_config(path).valid.patience == 3


def test_a_cosine_needs_to_know_its_end(tmp_path: Path) -> None:
    cosine = "train.schedule.kind=cosine"
    assert load(tmp_path, MINIMAL, cosine).train.schedule == CosineConfig()
    assert errors(tmp_path, MINIMAL, cosine, "train.epochs=null", "train.max_minutes=2") == [
        "--set train.schedule.kind=cosine: train.schedule.kind: 'cosine' needs a known number of "
        "updates: give train.epochs or train.steps"
    ]


def test_python_gets_the_same_checks() -> None:
    with pytest.raises(ValidationError, match="train: says no end"):
        RunConfig(name="x", data=DataConfig(corpus="starter"))


@pytest.mark.parametrize("size", [None, 10])
def test_a_beam_is_held_against_a_bounded_word_vocabulary_only(
    tmp_path: Path, size: int | None
) -> None:
    words = ["tokenizer.kind=word", f"tokenizer.max_size={size or 'null'}", "search.beam=11"]
    if size is None:
        assert load(tmp_path, MINIMAL, *words).search.beam == 11
    else:
        assert "tokenizer.max_size (10)" in errors(tmp_path, MINIMAL, *words)[0]


def test_a_table_of_positions_has_a_place_for_all_that_is_let_through(tmp_path: Path) -> None:
    learned = ["model.kind=transformer", "model.positions.kind=learned"]
    fits = ["model.positions.max_length=101", "search.max_length=101"]
    assert load(tmp_path, MINIMAL, *learned, *fits).data.max_pieces == 100
    place = "--set model.positions.max_length=100: model.positions.max_length: got 100, allowed: >="
    short = [*learned, "model.positions.max_length=100"]
    assert errors(tmp_path, MINIMAL, *short) == [f"{place} 1000 (search.max_length)"]
    assert errors(tmp_path, MINIMAL, *short, "search.max_length=10") == [
        f"{place} 101 (data.max_pieces and </s>)"
    ]


def test_bytes_need_a_vocabulary_that_holds_them(tmp_path: Path) -> None:
    with_bytes = ["tokenizer.byte_fallback=true", "tokenizer.vocab_size=260"]
    assert errors(tmp_path, MINIMAL, *with_bytes) == [
        "--set tokenizer.vocab_size=260: tokenizer.vocab_size: got 260, allowed: > 260 where "
        "tokenizer.byte_fallback is true"
    ]
    assert load(tmp_path, MINIMAL, *with_bytes, "tokenizer.vocab_size=261")


names = st.from_regex(r"\A[a-zA-Z0-9_][a-zA-Z0-9_.+-]*\Z")
words = st.one_of(
    st.text(min_size=1).filter(lambda text: text.encode("utf-8", "ignore").decode() == text),
    st.sampled_from(
        ["no", "off", "3e-4", "1_0", "010", "0x1F", "12:30", "~", "null", "2020-01-01", "=", "<<"]
    ),
)
# A path that begins with ~ is expanded.
paths = words.filter(lambda text: "\0" not in text and not text.startswith("~")).map(Path)


@settings(max_examples=40, deadline=None)
@given(
    name=names,
    lang=words,
    path=paths,
    lr=st.floats(min_value=0, exclude_min=True, max_value=1e6),
    seed=st.integers(0, 2**63 - 1),
    tokenizer=st.sampled_from([WordConfig(max_size=70), SentencePieceConfig(model_type="bpe")]),
)
def test_what_is_dumped_is_loaded_identically(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    lang: str,
    path: Path,
    lr: float,
    seed: int,
    tokenizer: WordConfig | SentencePieceConfig,
) -> None:
    split = SplitConfig(src=path, tgt=(path, Path("b")))
    config = RunConfig(
        name=name,
        seed=seed,
        data=DataConfig(src_lang=lang, train=split, folder=path),
        tokenizer=tokenizer,
        train=TrainConfig(steps=3, lr=lr, optimizer=AdadeltaConfig(rho=0.5)),
    )
    folder = tmp_path_factory.mktemp("dump")
    text = dump_config(config)
    assert load(folder, text) == config
    assert dump_config(load(folder, text)) == text


def test_dumped_text_reads_the_same_by_yaml_1_1() -> None:
    config = RunConfig(
        name="x", data=DataConfig(tgt_lang="no", corpus="3e-4"), train=TrainConfig(epochs=1)
    )
    data = yaml.safe_load(dump_config(config))["data"]
    assert (data["tgt_lang"], data["corpus"]) == ("no", "3e-4")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_shipped_config_is_right_and_bears_its_name(path: Path) -> None:
    config = load_config(path)
    assert config.name == path.stem
    assert config.data.folder == DataConfig().folder


def test_a_bare_name_is_a_recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(Path("starter"), ["train.epochs=1"]).data.corpus == "starter"
    with pytest.raises(
        ConfigError, match=r"^startre: no such file, and no recipe .*: multi30k.* mean 'starter'\?$"
    ):
        load_config(Path("startre"))


def test_a_recipe_of_a_family_is_named_with_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(Path("family/dot")).name == "family-dot"
    with pytest.raises(
        ConfigError,
        match=r"^family/dto: no such file, .*: family/additive, .* mean 'family/dot'\?$",
    ):
        load_config(Path("family/dto"))
    with pytest.raises(ConfigError, match=r"^family/dot\.yaml: .*; the recipe .* is 'family/dot'$"):
        load_config("family/dot.yaml")
    with pytest.raises(ConfigError, match=r"^elsewhere/dot: no such file$"):
        load_config(Path("elsewhere/dot"))
    Path("family").mkdir()
    Path("family/dot").write_text("name: mine\ndata: {corpus: starter}\ntrain: {epochs: 1}\n")
    assert load_config(Path("family/dot")).name == "mine"


def test_a_file_comes_before_the_recipe_of_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("starter").write_text("name: mine\ndata: {corpus: starter}\ntrain: {epochs: 1}\n")
    assert load_config(Path("starter")).name == "mine"


def test_a_folder_that_is_no_recipe_is_called_a_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    with pytest.raises(ConfigError, match=r"^data: a folder, and no recipe that comes with nmt: "):
        load_config("data")


def test_a_folder_does_not_hide_the_recipe_of_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("starter").mkdir()
    assert load_config(Path("starter")).data.corpus == "starter"


def test_nested_dicts_say_what_a_yaml_file_says(tmp_path: Path) -> None:
    """Kinds have their defaults, short forms are spelt out, and the values stay as they were."""
    said = {
        "name": "x",
        "data": {"train": {"src": tmp_path / "a.en", "tgt": "a.fr"}},
        "tokenizer": {"vocab_size": 500},
        "model": {"attention": "general"},
        "train": {"epochs": 1},
    }
    before = copy.deepcopy(said)
    assert config_of(said) == load(tmp_path, json.dumps(said, default=str))
    assert said == before
    with pytest.raises(ConfigError, match=r"^config: tokenizer\.vocab_siz: unknown key; did you"):
        config_of({**said, "tokenizer": {"vocab_siz": 500}})


@pytest.mark.parametrize("wrong", [b"x", {"x"}, object()])
def test_what_no_yaml_can_say_is_refused_in_a_line(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"^config: got .*, allowed: text, a number, true.*dict$"):
        config_of({"name": wrong})


def test_a_dict_within_itself_is_refused_in_a_line() -> None:
    endless: dict[str, object] = {"name": "x"}
    endless["data"] = endless
    with pytest.raises(ConfigError, match=r"^config: Circular reference detected$"):
        config_of(endless)


def test_values_of_numpy_and_configs_say_what_they_are() -> None:
    said = {"name": "x", "data": {"corpus": "starter"}, "train": {"epochs": 1}}
    config = config_of({**said, "seed": np.int64(3), "search": SearchConfig(beam=2)})
    assert (config.seed, config.search) == (3, SearchConfig(beam=2))


def test_recipes_are_near_by_letters_not_by_case_and_a_folder_of_them_is_listed() -> None:
    with pytest.raises(ConfigError, match=r"^STARTER: no such file.*; did you mean 'starter'\?$"):
        load_config("STARTER")
    with pytest.raises(
        ConfigError, match=r"^family: no such file.* nmt: family/additive, .*coverage"
    ):
        load_config("family")


def test_a_flag_is_named_as_it_was_typed(tmp_path: Path) -> None:
    text = "name: x\ndata: {corpus: starter}\ntrain: {epochs: 1}\n"
    (tmp_path / "x.yaml").write_text(text)
    given = [Override("search.beam", 7, "--beam 7"), "search.beam=3"]
    assert load_config(tmp_path / "x.yaml", given[::-1]).search.beam == 7
    assert load_config(tmp_path / "x.yaml", given).search.beam == 3
    for value, words in (
        (0, "got 0, allowed: >= 1"),
        (10**30, f"got {10**30}, allowed: less than 2^63"),
        (9999, "got 9999, allowed: at most the vocabulary's size"),
    ):
        flag = Override("search.beam", value, f"--beam {value}")
        with pytest.raises(ConfigError, match=re.escape(f"--beam {value}: search.beam: {words}")):
            load_config(tmp_path / "x.yaml", [flag])
