"""The settings of a benchmark, and the variants of the model that it compares."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch

from nmt.bench.sizes import Sizes
from nmt.bench.textbook import textbook_of
from nmt.device import Precision
from nmt.models.base import Seq2Seq
from nmt.models.catalog import build_model

Form = Literal["nmt", "plain", "textbook"]
"""The model with its default backend, with `backend: reference`, and the textbook's loop."""


@dataclass(frozen=True)
class Variant:
    """A form of the model in one precision."""

    form: Form
    precision: Precision

    @property
    def name(self) -> str:
        """The name of its row."""
        return self.form if self.precision == "fp32" else f"{self.form} {self.precision}"


@dataclass(frozen=True)
class Plan:
    """The settings of one call. `rounds` are those that count; `data` is the corpora's folder.

    `ceiling_sizes` are those of the products that stand for all that the device can compute.
    """

    sizes: Sizes
    device: torch.device
    precision: Precision = "fp32"
    rounds: int = 7
    n_batches: int = 8
    ceiling_sizes: tuple[int, ...] = (1024, 2048)
    data: Path = Path("data")
    seed: int = 1

    def variants(self) -> list[Variant]:
        """The variants to compare; the last one is the baseline."""
        faster = [Variant("nmt", self.precision)] if self.precision != "fp32" else []
        return [*faster, *(Variant(form, "fp32") for form in get_args(Form))]

    def precisions(self) -> list[Precision]:
        """The precisions of its variants."""
        return ["fp32"] if self.precision == "fp32" else ["fp32", self.precision]

    def build(self, variant: Variant, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
        """The model in this form, with weights that are the same for every form."""
        config = self.sizes.model()
        torch.manual_seed(self.seed)
        if variant.form == "plain":
            config = config.model_copy(update={"backend": "reference"})
        model = build_model(config, src_vocab, tgt_vocab)
        if variant.form == "textbook":
            model = textbook_of(model, config, src_vocab, tgt_vocab)
        return model.to(self.device)
