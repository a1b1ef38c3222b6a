"""The step of a search on a GPU as a CUDA graph, replayed without Python."""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from nmt.models.base import State, StepOutput
from nmt.models.state_tensors import named_tensors, with_tensors

StepFunction = Callable[[Int[Tensor, " R"], State], StepOutput]
"""`Seq2Seq.step`, or the step of a decoder over another kind of memory."""


class GraphedSteps:
    """Calls a search's step on selected rows of a state, as a CUDA graph if possible.

    `use_graphs` allows graphs, which need a CUDA GPU. The first call with `parents` then records a
    graph that selects the rows, runs the step and stores the next state. A step that cannot be
    recorded runs without a graph, such as a Transformer's, whose state grows.
    """

    def __init__(self, step: StepFunction, use_graphs: bool) -> None:
        self._step = step
        self._graph: torch.cuda.CUDAGraph | None = None
        self._use_graphs = use_graphs

    def __call__(
        self, last_ids: Int[Tensor, " R"], state: State, parents: Int[Tensor, " R"] | None
    ) -> StepOutput:
        """Return the step's output for the rows `parents` of `state` (None: for all rows).

        `state` must come from the output of the previous call; a recorded graph reads its own copy
        of it. The next call overwrites the output's features.
        """
        if parents is None:
            return self._step(last_ids, state)
        if self._graph is None:
            selected = state.select(parents)
            if self._use_graphs:
                with torch.cuda.device_of(last_ids):  # type: ignore[no-untyped-call]
                    self._graph = self._record(last_ids, selected)
                self._use_graphs = self._graph is not None
            if self._graph is None:
                return self._step(last_ids, selected)
        else:
            self._parents.copy_(parents)
        self._last_ids.copy_(last_ids)
        self._graph.replay()
        return replace(self._out, weights=self._out.weights.clone())

    def _record(self, last_ids: Int[Tensor, " R"], state: State) -> torch.cuda.CUDAGraph | None:
        """Record a step from a copy of `state`, whose rows are selected; None if that fails."""
        self._last_ids = last_ids.clone()
        self._parents = torch.arange(len(last_ids), device=last_ids.device)
        self._state = state.select(self._parents)  # a copy
        here = torch.cuda.current_stream()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(here)
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.stream(stream):
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    self._out = self._step(self._last_ids, self._state.select(self._parents))
                    _keep(self._out.state, self._state)
                finally:
                    graph.capture_end()
        except (RuntimeError, ValueError):  # the step waits for the GPU, or its state grows
            return None
        here.wait_stream(stream)
        return graph


def _keep(after: State, before: State) -> None:
    """Copy the tensors of the state after a step over those of the state before it.

    Raises ValueError if anything except the tensors' values differs: a shape, or a step count.
    """
    tensors, results = named_tensors(before), named_tensors(after)
    shapes_before = {name: tensor.shape for name, tensor in tensors.items()}
    shapes_after = {name: tensor.shape for name, tensor in results.items()}
    if shapes_after != shapes_before or with_tensors(after, tensors) != before:
        raise ValueError("the state grows")
    for name, tensor in tensors.items():
        tensor.copy_(results[name])
