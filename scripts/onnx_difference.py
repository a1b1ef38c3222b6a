"""How far an exported model's numbers are from PyTorch's, along the references of a split.

    nmt export --run RUN --format onnx --checkpoint last --out FOLDER
    python scripts/onnx_difference.py --run RUN --checkpoint last --folder FOLDER --sentences 1000

Both models read the same sources and are fed the same target pieces, each with its own state. It
prints the largest difference of a log-probability and of an attention weight.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from onnx_translate import OnnxTranslator

from nmt.data.corpora import read_examples
from nmt.evaluation.examples import split_named
from nmt.ops.masks import keep_from_lengths
from nmt.runs.trained_run import TrainedRun
from nmt.text.vocabulary import BOS_ID, EOS_ID


@torch.inference_mode()
def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--checkpoint", default="best")
    parser.add_argument("--folder", type=Path, required=True, help="of nmt export")
    parser.add_argument("--split", default="test")
    parser.add_argument("--sentences", type=int, default=1000)
    options = parser.parse_args()
    run = TrainedRun.open(options.run)
    loaded = run.load_model(options.checkpoint, torch.device("cpu"))
    model, tokenizers = loaded.model, loaded.tokenizers
    consumer = OnnxTranslator(options.folder)
    after = consumer.manifest["state"]
    first = torch.zeros(1, dtype=torch.int64)
    largest = {"log_probs": 0.0, "weights": 0.0}
    n_steps = 0
    examples = read_examples(split_named(run.config.data, options.split), run.config.data)
    for example in examples[: options.sentences]:
        src = torch.tensor([[*tokenizers.src.encode(example.src_text).ids, EOS_ID]])
        lengths = torch.tensor([src.shape[1]])
        state = model.init_state(model.encode(src, keep_from_lengths(lengths, src.shape[1])))
        feeds = consumer.run("encoder", {"src_ids": src.numpy(), "src_lengths": lengths.numpy()})
        for piece in (BOS_ID, *tokenizers.tgt.encode(example.ref_texts[0]).ids):
            last = torch.tensor([piece])
            out = model.step(last, state)
            inputs = {"last_ids": last.numpy(), "sentences": first.numpy()}
            found = consumer.run("step", {**inputs, **feeds})
            ours = {"log_probs": out.logits.log_softmax(dim=1), "weights": out.weights}
            for name, values in ours.items():
                difference = np.abs(values.numpy() - found[name]).max()
                largest[name] = max(largest[name], float(difference))
            state = out.state.select(first)
            feeds.update({name: found[output] for output, name in after.items()})
            n_steps += 1
    print(f"{n_steps:,} steps of {len(examples[: options.sentences]):,} sentences")
    for name, value in largest.items():
        print(f"largest difference of {name}: {value:.1e}")


if __name__ == "__main__":
    main()
