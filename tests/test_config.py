"""The run config: cross-field checks, the shipped configs, and the law of dump and load."""

import copy
import json
import re
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nmt.config import RunConfig, TrainConfig, config_of, dump_config, load_config
from nmt.corpora.proposal import preset_for
from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.errors import ConfigError
from nmt.models.catalog import build_model
from nmt.optim.optimizers import AdadeltaConfig
from nmt.search.search_config import SearchConfig
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.word_tokenizer import WordConfig

MINIMAL = "name: x\ndata: {corpus: starter}\ntrain: {epochs: 1}\n"
CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.yaml"))


def load(folder: Path, text: str) -> RunConfig:
    path = folder / "x.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


names = st.from_regex(r"\A[a-zA-Z0-9_][a-zA-Z0-9_.+-]*\Z")
words = st.one_of(
    st.text(min_size=1).filter(lambda text: text.encode("utf-8", "ignore").decode() == text),
    st.sampled_from(["no", "off", "3e-4", "1_0", "010", "0x1F", "12:30", "~", "null", "=", "<<"]),
)
# A path that begins with ~ is expanded.
paths = words.filter(lambda text: "\0" not in text and not text.startswith("~")).map(Path)


numbers = st.floats(min_value=0, exclude_min=True, max_value=1e6)
splits = st.builds(SplitConfig, src=paths, tgt=st.tuples(paths, paths))
adadelta = st.just(AdadeltaConfig(rho=0.5))
configs = st.builds(
    RunConfig,
    name=names,
    seed=st.integers(0, 2**63 - 1),
    data=st.builds(DataConfig, src_lang=words, train=splits, folder=paths),
    tokenizer=st.sampled_from([WordConfig(max_size=70), SentencePieceConfig(model_type="bpe")]),
    train=st.builds(TrainConfig, steps=st.just(3), lr=numbers, optimizer=adadelta),
)


@settings(max_examples=25, deadline=None)
@given(configs)
def test_what_is_dumped_is_loaded_identically(
    tmp_path_factory: pytest.TempPathFactory, config: RunConfig
) -> None:
    folder = tmp_path_factory.mktemp("dump")
    text = dump_config(config)
    assert load(folder, text) == config
    assert dump_config(load(folder, text)) == text
    assert yaml.safe_load(text)["data"]["src_lang"] == config.data.src_lang  # YAML 1.1 reads it so


def test_every_shipped_config_is_right_and_bears_its_name() -> None:
    for path in CONFIGS:
        config = load_config(path)
        assert (config.name, config.data.folder) == (path.stem, DataConfig().folder)


def test_init_proposes_the_settings_of_the_recipe_tatoeba() -> None:
    recipe = load_config("tatoeba")
    preset = asdict(preset_for(139_837))
    sections = (section.model_dump() for section in (recipe.tokenizer, recipe.model, recipe.train))
    settings = dict(chain.from_iterable(map(dict.items, sections)))
    assert preset.items() <= {**settings, "pair_limit": preset["pair_limit"]}.items()


def test_recipes_of_the_family_differ_in_their_model_alone() -> None:
    """No model is there twice; sizes are within a seventh, so that size explains little."""
    recipes = {path.stem: load_config(path) for path in CONFIGS[0].parent.glob("family/*.yaml")}
    baseline = recipes["additive"]
    sizes: dict[str, int] = {}
    for stem, config in recipes.items():
        with torch.device("meta"):
            model = build_model(config.model, 4000, 4000)
        sizes[stem] = sum(parameter.numel() for parameter in model.parameters())
        same = {"name": f"family-{stem}", "model": config.model}
        assert baseline.model_copy(update=same) == config
    assert len({config.model.model_dump_json() for config in recipes.values()}) == len(recipes) > 16
    for stem, size in sizes.items():
        assert abs(size - sizes["additive"]) < sizes["additive"] / 7, stem


def test_a_bare_name_is_a_recipe_unless_a_file_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(Path("starter"), ["train.epochs=1"]).data.corpus == "starter"
    assert load_config(Path("family/dot")).name == "family-dot"
    Path("data").mkdir()
    for name, message in (
        ("family/dto", r"family/dto: no such file, .*: family/additive, .* mean 'family/dot'\?"),
        ("configs/starter.yaml", r"configs/starter\.yaml: .*; the recipe .* is 'starter'"),
        ("data", "data: a folder, and not a recipe that comes with nmt: .*"),
    ):
        with pytest.raises(ConfigError, match=f"^{message}$"):
            load_config(name)
    Path("starter").mkdir()  # a folder does not hide the recipe of its name
    assert load_config(Path("starter")).data.corpus == "starter"
    Path("family").mkdir()
    Path("family/dot").write_text(MINIMAL.replace("name: x", "name: mine"))
    assert load_config(Path("family/dot")).name == "mine"


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

    endless: dict[str, object] = {"name": "x"}
    endless["data"] = endless
    with pytest.raises(ConfigError, match=r"^config: Circular reference detected$"):
        config_of(endless)
    with pytest.raises(ConfigError, match=r"^config: got .*, allowed: text, a number, true, .*$"):
        config_of({"name": {"x"}})
    with pytest.raises(ValidationError, match="train: no end"):
        RunConfig(name="x", data=DataConfig(corpus="starter"))
    config = config_of({**said, "seed": np.int64(3), "search": SearchConfig(beam=2)})
    assert (config.seed, config.search) == (3, SearchConfig(beam=2))


def test_a_device_and_a_name_have_their_form() -> None:
    for key, value, allowed in (
        ("train.device", "cuda:x", "auto, cpu, cuda, cuda:N, m"),
        ("name", "a/b", "letters, digits and _ . + -"),
    ):
        message = re.escape(f"override {key}={value}: {key}: got '{value}', allowed: {allowed}")
        with pytest.raises(ConfigError, match=message):
            load_config("starter", [f"{key}={value}"])
