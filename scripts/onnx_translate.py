"""Translate the lines of stdin by an exported model: NumPy and ONNX Runtime, without PyTorch.

python scripts/onnx_translate.py FOLDER [--beam 5] [--int8] < source.txt
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from nmt.text.tokenizer import Tokenizers  # SentencePiece and text rules; imports no PyTorch


class OnnxTranslator:
    """Greedy and beam search over the graphs in `folder`, one sentence at a time."""

    def __init__(self, folder: Path, int8: bool = False, **search: Any) -> None:
        self.manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self.search = {**self.manifest["search"], **search}
        kind = "int8" if int8 else "file"
        files = {name: graph[kind] for name, graph in self.manifest["graphs"].items()}
        self.check(folder, (*files.values(), f"{self.manifest['tokenizer']}/tokenizer.json"))
        self.tokenizers = Tokenizers.load(folder / self.manifest["tokenizer"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        load = onnxruntime.InferenceSession
        self.graphs = {name: load(folder / file, options) for name, file in files.items()}

    def check(self, folder: Path, needed: Sequence[str]) -> None:
        """Raise ValueError unless the folder's files are those that the manifest describes."""
        checksums = self.manifest["sha256"]
        for name in (*needed, *checksums):
            path = (folder / name).resolve()
            if name not in checksums or not path.is_relative_to(folder.resolve()):
                allowed = f"files in {folder} with a checksum in manifest.json"
                raise ValueError(f"{name}: allowed: {allowed}")
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != checksums[name]:
                    raise ValueError(f"{path}: its checksum is not the one in manifest.json")

    def translate(self, text: str) -> str:
        """The best translation of a text; nothing for a text without pieces."""
        ids = self.tokenizers.src.encode(text).ids
        eos = self.manifest["ids"]["eos"]
        return self.tokenizers.tgt.decode(self.best((*ids, eos))) if ids else ""

    def run(self, graph: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """The outputs of a graph by name."""
        names = [output["name"] for output in self.manifest["graphs"][graph]["outputs"]]
        return dict(zip(names, self.graphs[graph].run(names, inputs), strict=True))

    def best(self, src: Sequence[int]) -> tuple[int, ...]:
        """The ids of the best translation of `src`, whose last id is eos."""
        search, ids = self.search, self.manifest["ids"]
        bound = int(search["max_length_factor"] * len(src) + search["max_length_extra"])
        bound = max(1, min(bound, search["max_length"]))
        if (places := self.manifest["max_positions"]) is not None:  # a table of learned positions
            if len(src) > places:
                raise ValueError(f"got a source of {len(src)} ids, allowed: at most {places}")
            bound = min(bound, places)
        forbidden = [ids["pad"], ids["bos"], *([] if search["allow_unk"] else [ids["unk"]])]
        source = {"src_ids": np.array([src]), "src_lengths": np.array([len(src)])}
        state = self.run("encoder", source)
        rows: list[tuple[int, ...]] = [()]
        totals = np.zeros(1)
        ends: list[tuple[bool, float, tuple[int, ...]]] = []  # (is cut, -score, ids)
        for length in range(1, bound + 1):
            last = [row[-1] if row else ids["bos"] for row in rows]
            sentences = np.zeros(len(rows), dtype=np.int64)  # all rows read the one source
            out = self.run("step", {"last_ids": np.array(last), "sentences": sentences, **state})
            scores = totals[:, None] + out["log_probs"].astype(np.float64)
            scores[:, forbidden] = -np.inf
            for row, one in zip(rows, scores, strict=True):
                one[list(self.blocked(row, src))] = -np.inf
            best = np.argsort(-scores, axis=None, kind="stable")[: search["beam"]]
            ahead = []
            for parent, piece in zip(*np.unravel_index(best, scores.shape), strict=True):
                total, sequence = float(scores[parent, piece]), (*rows[parent], int(piece))
                if total == -np.inf:
                    continue
                if piece == ids["eos"] or length == bound:
                    score = total / self.penalty(length)
                    ends.append((bool(piece != ids["eos"]), -score, sequence))
                else:
                    ahead.append((int(parent), total, sequence))
            finished = [-score for is_cut, score, _ in ends if not is_cut]
            # A total only falls: what cannot come before the best finished one is left out.
            least = max(finished, default=-np.inf) * self.penalty(bound)
            ahead = [row_ahead for row_ahead in ahead if row_ahead[1] > least]
            if not ahead:
                break
            parents, sums, rows = map(list, zip(*ahead, strict=True))
            totals = np.array(sums)
            after = self.manifest["state"]
            state.update({name: out[output][parents] for output, name in after.items()})
        is_cut, _, translation = min(ends, key=lambda end: end[:2])
        return translation if is_cut else translation[:-1]

    def penalty(self, length: int) -> float:
        """((5 + length) / 6)^alpha (arXiv 1609.08144, equation 14)."""
        return float(((5 + length) / 6) ** self.search["length_penalty"])

    def blocked(self, row: Sequence[int], src: Sequence[int]) -> Iterator[int]:
        """The pieces that would repeat the end of `row` more often than allowed."""
        if self.search["max_repeats"] is None:
            return
        allowed = max(self.search["max_repeats"], self.repeats(src))
        for period in range(1, len(row) // allowed + 1):
            end = row[-allowed * period :]
            if end[period:] == end[:-period]:
                yield end[-period]

    def repeats(self, src: Sequence[int]) -> int:
        """How often in a row the source has the same pieces; one that has begun counts."""
        most = 1
        for period in range(1, len(src)):
            run = 0
            for before, piece in zip(src, src[period:], strict=False):
                run = run + 1 if before == piece != self.manifest["ids"]["unk"] else 0
                most = max(most, (run + period - 1) // period + 1 if run > 0 else 1)
        return most


def main() -> int:
    """Translate line by line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--beam", type=int)
    parser.add_argument("--int8", action="store_true")
    options = parser.parse_args()
    search = {} if options.beam is None else {"beam": options.beam}
    translator = OnnxTranslator(options.folder, options.int8, **search)
    for line in sys.stdin:
        print(translator.translate(line.rstrip("\n")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
