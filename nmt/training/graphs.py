"""CUDA graphs of training: the kernel launches of an update, replayed without Python.

A recurrent model launches hundreds of small kernels per update, and the GPU computes them faster
than Python launches them. A graph records the launches once for each padded shape of a batch
(https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs).
"""

import warnings
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nmt.batches.batching import Batch
from nmt.device import is_out_of_memory

PassFunction = Callable[[Batch, Tensor], Tensor]
"""A function that runs the forward and the backward pass of a batch and returns the sum of -log p.
The second argument is the token count of the update, by which the loss is divided."""

_CAPTURE_AT = 3  # records a shape's third batch; a recording takes as long as dozens of updates
_MOST_GRAPHS = 128  # the largest number of graphs; batches of further shapes run without a graph


@dataclass
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: Batch
    n_tokens: Tensor
    nll_sum: Tensor
    parameters: list[nn.Parameter]


class TrainingGraphs:
    """The CUDA graphs of the forward and backward passes of one model.

    A pass gives the same bits with and without a graph, because the padded shapes and the kernels
    are the same. Gradients keep their memory addresses. If a model cannot be recorded, for example
    because it waits for the GPU, it runs without graphs, and a warning gives the reason.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._buffers = list(model.buffers())
        self._device = self._parameters[0].device
        self._gradients: dict[nn.Parameter, Tensor] = {}
        self._counts: Counter[Hashable] = Counter()
        self._graphs: dict[Hashable, _Recording] = {}
        self._pool: Any = None
        self._can_record = True

    def run(self, key: Hashable, passes: PassFunction, batch: Batch, n_tokens: int) -> Tensor:
        """Accumulate the gradients of a batch on the GPU, and return its sum of -log p.

        `key` identifies everything that `passes` depends on, apart from the shape of the batch.
        """
        shape = key, batch.src_ids.shape, batch.tgt_in.shape
        recording = self._graphs.get(shape)
        if recording is None:
            self._counts[shape] += 1
            is_due = self._counts[shape] >= _CAPTURE_AT and len(self._graphs) < _MOST_GRAPHS
            inputs = batch.to(self._device), torch.full((), float(n_tokens), device=self._device)
            if self._can_record and is_due and batch.links is None:
                with torch.cuda.device(self._device):
                    recording = self._record(passes, *inputs)
            if recording is None:
                return passes(*inputs)
            self._graphs[shape] = recording
        self._begin_gradients(recording.parameters)
        recording.batch.copy_(batch)
        recording.n_tokens.fill_(n_tokens)
        recording.graph.replay()
        return recording.nll_sum.clone()

    def _begin_gradients(self, parameters: list[nn.Parameter]) -> None:
        """Copy the gradients accumulated so far to the tensors to which the graphs add."""
        zeros = []
        for parameter in parameters:
            gradient = self._gradients[parameter]
            if parameter.grad is None:
                zeros.append(gradient)
            elif parameter.grad is not gradient:
                gradient.copy_(parameter.grad)
            parameter.grad = gradient
        if zeros:
            torch._foreach_zero_(zeros)

    def _record(self, passes: PassFunction, batch: Batch, n_tokens: Tensor) -> _Recording | None:
        """Record the launches of a pass. Returns None if the pass cannot be recorded."""
        gradients = [parameter.grad for parameter in self._parameters]
        for parameter in self._parameters:
            if parameter not in self._gradients:
                self._gradients[parameter] = torch.zeros_like(parameter)
            parameter.grad = None
        inputs = batch.clone()
        try:
            graph = torch.cuda.CUDAGraph()
            # The optimiser must not update parameters without a gradient.
            parameters = self._warm_up(passes, inputs, n_tokens)
            for parameter in parameters:
                parameter.grad = self._gradients[parameter]
            # Another thread pins memory for the next batches at the same time.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                nll_sum = passes(inputs, n_tokens)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            self._can_record = False
            reason = str(error).strip().split("\n")[0]
            warnings.warn(f"training without CUDA graphs: {reason}", RuntimeWarning, stacklevel=2)
            return None
        finally:
            for parameter, gradient in zip(self._parameters, gradients, strict=True):
                parameter.grad = gradient
        self._pool = self._pool or graph.pool()
        return _Recording(graph, inputs, n_tokens, nll_sum, parameters)

    def _warm_up(self, passes: PassFunction, batch: Batch, n_tokens: Tensor) -> list[nn.Parameter]:
        """Run a pass on a side stream, as capture requires; return the parameters with gradients.

        The random generators and the buffers are restored afterwards.
        """
        buffers = [buffer.clone() for buffer in self._buffers]
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.random.fork_rng([self._device]), torch.cuda.stream(stream):
            passes(batch, n_tokens)
        torch.cuda.current_stream(self._device).wait_stream(stream)
        for buffer, copy in zip(self._buffers, buffers, strict=True):
            buffer.copy_(copy)
        parameters = [parameter for parameter in self._parameters if parameter.grad is not None]
        for parameter in parameters:
            parameter.grad = None
        return parameters
