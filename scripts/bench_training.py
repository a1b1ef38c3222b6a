"""Training and decoding speed of the attentional GRU on this machine, on fixed shapes.

Prints tokens a second beside the matrix-product speed measured in the same run, so that two
machines, or two versions, can be compared by ratios. Run it with nothing else running:

    make bench
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

import torch

from nmt.models.catalog import build_model
from nmt.models.masks import keep_from_lengths
from nmt.models.rnn import RNNConfig
from nmt.training.loss import cross_entropy
from nmt.translation.search import SearchConfig, search

S, T, VOCAB = 16, 17, 8000


def _median_seconds(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """The median, and the spread (max - min) over it, after one uncounted run."""
    work()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds)
    return median, (max(seconds) - min(seconds)) / median


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--embedding", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    torch.manual_seed(1)
    B = args.batch
    model = build_model(
        RNNConfig(embedding=args.embedding, hidden=args.hidden, dropout=0.0), VOCAB, VOCAB
    )
    optimizer = torch.optim.Adam(model.parameters())
    src_ids, lengths = torch.randint(4, VOCAB, (B, S)), torch.full((B,), S)
    tgt_in, tgt_out = torch.randint(4, VOCAB, (B, T)), torch.randint(4, VOCAB, (B, T))
    keep = keep_from_lengths(lengths, S)
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)

    def update() -> None:
        loss = cross_entropy(model(src_ids, keep, tgt_in).logits, tgt_out, VOCAB)
        optimizer.zero_grad()
        (loss.loss_sum / loss.n_tokens).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    def decode() -> None:
        config = SearchConfig(beam=5, max_length_factor=1.0, max_length_extra=0)
        search(model, src_ids, lengths, config, VOCAB)

    print(f"{torch.get_num_threads()} threads, load of others {os.getloadavg()[0]:.2f}, torch "
          f"{torch.__version__}; B {B}, S {S}, T {T}, embedding {args.embedding}, "
          f"hidden {args.hidden}, vocabulary {VOCAB:,}, fp32")  # fmt: skip
    product, spread = _median_seconds(lambda: left @ right, 5 * args.repeats)
    print(f"matrix products  {2 * 1024**3 / product / 1e9:10,.0f} GFLOP/s   spread {spread:.0%}")
    training, spread = _median_seconds(update, args.repeats)
    print(f"training         {B * (S + T) / training:10,.0f} tokens/s  spread {spread:.0%}"
          f"   ({B * T / training:,.0f} of them target)")  # fmt: skip
    model.eval()
    decoding, spread = _median_seconds(decode, args.repeats)
    print(f"decoding, beam 5 {B / decoding:10,.1f} sentences/s of {S} pieces  spread {spread:.0%}")


if __name__ == "__main__":
    main()
