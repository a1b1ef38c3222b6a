"""A task in which near and far dependencies both matter, and an encoder that learns it.

A card shows a letter and a digit. Each half of a sequence has every letter once, in any order;
digits are drawn anew. Every position answers two questions: the digit of the card before it (near,
found by place) and the digit of the card with its letter in the other half (far, found by content).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from nmt.lab.experiment import Options, seeded
from nmt.models.initialisation import initialise
from nmt.models.transformer.transformer import TransformerConfig, TransformerEncoder


class CardOptions(Options):
    """The task, the encoder and its training."""

    letters: int = Field(default=6, ge=2, le=26, description="a sequence is twice as long")
    digits: int = Field(default=4, ge=2, le=10, description="digits that a card may have")
    size: int = Field(default=32, gt=0, multiple_of=2, description="numbers in a card's vector")
    layers: int = Field(default=1, gt=0, le=8, description="encoder layers")
    updates: int = Field(default=800, gt=0, description="of each encoder, in training")
    batch: int = Field(default=32, gt=0, description="new sequences in an update")
    lr: float = Field(default=0.01, gt=0, description="learning rate of Adam, falling to 0")


@dataclass(frozen=True)
class Cards:
    """B sequences of n cards; a card's id is letter * digits + digit.

    `twins` are the places of the other card with the letter; `answers` the digits of the card
    before (of itself, for the first card) and of the twin.
    """

    ids: Int[Tensor, "B n"]
    twins: Int[Tensor, "B n"]
    answers: Int[Tensor, "B n 2"]


def draw_cards(count: int, options: CardOptions, chance: torch.Generator) -> Cards:
    """Sequences in each half of which every letter stands once."""
    n = options.letters
    letters = torch.rand(count, 2, n, generator=chance).argsort(dim=-1)
    places = letters.argsort(dim=-1)  # where each letter stands within a half
    twins = places.flip(1).gather(2, letters) + torch.tensor([n, 0])[:, None]
    digits = torch.randint(options.digits, (count, 2 * n), generator=chance)
    before = torch.cat([digits[:, :1], digits[:, :-1]], dim=1)
    answers = torch.stack([before, digits.gather(1, twins.flatten(1))], dim=-1)
    return Cards(letters.flatten(1) * options.digits + digits, twins.flatten(1), answers)


class CardReader(nn.Module):
    """The encoder of the project's Transformer, and a linear layer that answers both questions."""

    def __init__(self, heads: int, options: CardOptions) -> None:
        super().__init__()
        config = TransformerConfig(
            size=options.size, heads=heads, layers=options.layers, dropout=0.0
        )
        self.encoder = TransformerEncoder(config, options.letters * options.digits)
        self.answer = nn.Linear(options.size, 2 * options.digits)

    def forward(self, ids: Int[Tensor, "B n"]) -> Float[Tensor, "B n 2 digits"]:
        memory, _ = self.encoder(ids, torch.ones_like(ids, dtype=torch.bool))
        logits: Tensor = self.answer(memory.values)
        return logits.view(*ids.shape, 2, -1)


def losses(model: CardReader, cards: Cards) -> Float[Tensor, " 2"]:
    """Nats per answer, of each question."""
    log_probs: Tensor = model(cards.ids).log_softmax(dim=-1)
    return -log_probs.gather(-1, cards.answers.unsqueeze(-1)).mean(dim=(0, 1, 3))


def self_attention(
    encoder: TransformerEncoder, ids: Int[Tensor, "B n"]
) -> Float[Tensor, "B N n n"]:
    """The weights of every head, layer after layer, where all positions are real."""
    weights: Tensor | None
    _, weights = encoder(ids, torch.ones_like(ids, dtype=torch.bool), with_weights=True)
    assert weights is not None
    return weights


def train(heads: int, options: CardOptions) -> CardReader:
    """A reader with new weights, trained on sequences that do not depend on `heads`."""
    with seeded(options.seed):
        model = CardReader(heads, options)
        initialise(model)
    chance = torch.Generator().manual_seed(options.seed + 2**32)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.updates)
    for _ in range(options.updates):
        optimizer.zero_grad()
        loss = losses(model, draw_cards(options.batch, options, chance)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return model.eval()
