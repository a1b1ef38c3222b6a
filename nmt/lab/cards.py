"""A task that requires both near and distant positions, and an encoder trained on the task.

Each half of a sequence has one card per letter, in random order, each with a random digit. The
answers at a position are the digit of the previous card, and the digit of the card with the same
letter in the other half.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from nmt.lab.experiment import Options, seeded, update
from nmt.models.catalog import initialise
from nmt.models.transformer.transformer import TransformerConfig, TransformerEncoder


class CardOptions(Options):
    """Options of the task, the encoder and its training."""

    letters: int = Field(default=6, ge=2, le=26, description="letters, each on two cards")
    digits: int = Field(default=4, ge=2, le=10, description="different digits on the cards")
    size: int = Field(default=32, gt=0, multiple_of=2, description="size of the encoder's vectors")
    layers: int = Field(default=1, gt=0, le=8, description="encoder layers")
    updates: int = Field(default=800, gt=0, description="training updates of each encoder")
    batch: int = Field(default=32, gt=0, description="new sequences per update")
    lr: float = Field(default=0.01, gt=0, description="initial learning rate of Adam, falling to 0")


@dataclass(frozen=True)
class Cards:
    """B sequences of n cards; the id of a card is letter * digits + digit.

    The twin of a card is the other card with the same letter, at the position in `twins`. `answers`
    has the digit of the previous card (for the first card, its own) and the digit of the twin.
    """

    ids: Int[Tensor, "B n"]
    twins: Int[Tensor, "B n"]
    answers: Int[Tensor, "B n 2"]


def draw_cards(count: int, options: CardOptions, generator: torch.Generator) -> Cards:
    """Draw `count` random sequences; each half has every letter once."""
    n = options.letters
    letters = torch.rand(count, 2, n, generator=generator).argsort(dim=-1)
    positions = letters.argsort(dim=-1)  # position of each letter within its half
    twins = positions.flip(1).gather(2, letters) + torch.tensor([n, 0])[:, None]
    digits = torch.randint(options.digits, (count, 2 * n), generator=generator)
    previous = torch.cat([digits[:, :1], digits[:, :-1]], dim=1)
    answers = torch.stack([previous, digits.gather(1, twins.flatten(1))], dim=-1)
    return Cards(letters.flatten(1) * options.digits + digits, twins.flatten(1), answers)


class CardReader(nn.Module):
    """A Transformer encoder with a linear layer that answers both questions."""

    def __init__(self, heads: int, options: CardOptions) -> None:
        super().__init__()
        config = TransformerConfig(size=options.size, heads=heads, layers=options.layers, dropout=0)
        self.encoder = TransformerEncoder(config, options.letters * options.digits)
        self.answer = nn.Linear(options.size, 2 * options.digits)

    def forward(self, ids: Int[Tensor, "B n"]) -> Float[Tensor, "B n 2 digits"]:
        memory, _ = self.encoder(ids, torch.ones_like(ids, dtype=torch.bool))
        logits: Tensor = self.answer(memory.values)
        return logits.view(*ids.shape, 2, -1)


def losses(model: CardReader, cards: Cards) -> Float[Tensor, " 2"]:
    """Return the mean loss of each question, in nats per answer."""
    log_probs: Tensor = model(cards.ids).log_softmax(dim=-1)
    return -log_probs.gather(-1, cards.answers.unsqueeze(-1)).mean(dim=(0, 1, 3))


def train(heads: int, options: CardOptions) -> CardReader:
    """Return a new, trained reader. The training sequences do not depend on `heads`."""
    with seeded(options.seed):
        model = CardReader(heads, options)
        initialise(model)
    generator = torch.Generator().manual_seed(options.seed + 2**32)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.updates)
    for _ in range(options.updates):
        cards = draw_cards(options.batch, options, generator)
        update(optimizer, losses(model, cards).sum())
        schedule.step()
    return model.eval()
