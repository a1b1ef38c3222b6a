"""Every score and every weighting learns to find the place that a query asks for."""

import pytest
import torch
from laws.family import ATTENTIONS

from nmt.models.attention.base import Attention
from nmt.models.base import Memory
from nmt.models.initialisation import initialise

B, S, SIZE, VALUES = 32, 7, 12, 5
LEARNING = [
    *("additive", "dot", "scaled_dot", "general", "concat", "gaussian", "cosine", "multi_head"),
    *("additive-sparsemax", "additive-hard", "additive-hard_gumbel", "multi_head-additive"),
    *("general-hard", "gaussian-hard_gumbel", "multi_head-gaussian-hard_gumbel"),
]
"""Not the options to which places matter: what is asked for stands anywhere."""


class _Lookup(torch.nn.Module):
    """Keys and values in one annotation: the query is a key, the answer its value."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention
        self.embedding = torch.nn.Embedding(S, SIZE)
        self.annotate = torch.nn.Linear(SIZE + VALUES, SIZE)
        self.answer = torch.nn.Linear(SIZE, VALUES)

    def loss(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        order = torch.stack([torch.randperm(S, generator=generator) for _ in range(B)])
        letters = torch.randint(VALUES, (B, S), generator=generator)
        hot = torch.nn.functional.one_hot(letters, VALUES).float()
        values = self.annotate(torch.cat([self.embedding(order), hot], dim=-1))
        memory = Memory(values, torch.ones(B, S).bool(), values[:, :1])
        wanted = torch.randint(S, (B,), generator=generator)
        query = self.embedding(order.gather(1, wanted.unsqueeze(1)))
        look = self.attention(query, self.attention.begin(memory))
        right = letters.gather(1, wanted.unsqueeze(1)).squeeze(1)
        logits = self.answer(look.context.squeeze(1))
        nlls = torch.nn.functional.cross_entropy(logits, right, reduction="none")
        total = nlls.sum()
        auxiliary_loss = self.attention.auxiliary_loss([look])
        if auxiliary_loss is not None:
            total = total + auxiliary_loss.loss_sum(torch.ones(B, 1).bool(), -nlls.detach())
        return total / B, (logits.argmax(-1) == right).float().mean()


@pytest.mark.parametrize("name", LEARNING)
def test_lookup_is_learned(name: str) -> None:
    torch.manual_seed(0)
    config = ATTENTIONS[name]
    if config.kind == "multi_head":
        config = config.model_copy(update={"size": 30, "heads": 3})
    model = _Lookup(config.build(SIZE, SIZE))
    initialise(model)
    generator = torch.Generator().manual_seed(1)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(400):
        loss, _ = model.loss(generator)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()
    with torch.no_grad():
        accuracy = sum(float(model.loss(generator)[1]) for _ in range(20)) / 20
    assert accuracy > 0.8, f"{name}: {accuracy:.2f}; chance is {1 / VALUES}"
