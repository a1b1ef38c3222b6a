"""A pretend GPU: torch built for CPUs accepts the device cuda:0, whose numbers the CPU computes.

    PYTHONPATH=tests NMT_TEST_DEVICE=cuda python -m pytest -p pretend_cuda tests/laws

It must be imported before torch. A tensor on cuda:0 is a wrapper (`CudaTensor`) of a CPU tensor. A
dispatch mode, below torch's autograd and autocast, makes and unwraps it, and counts what a real GPU
would do. As there, an operation on tensors of two devices is an error, and so is `.numpy()`.

torch.nn's recurrent layers stand for cuDNN's: one operation each, which casts to fp16 under any
autocast. What a CPU cannot show is left out: the rounding of a GPU's products, atomic additions,
streams, memory, Triton, NCCL and a second GPU. Inference mode, without wrappers, is no_grad.
"""

import contextlib
import ctypes
import importlib.metadata
import importlib.util
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
TORCH = Path(importlib.util.find_spec("torch").origin).parent


def _load_device() -> None:
    """Compile device.cpp once for this torch, and load it before torch first asks for a GPU."""
    version = importlib.metadata.version("torch")
    library = FOLDER.parents[1] / "build" / f"pretend_cuda-{version}.so"
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        partial = library.with_suffix(f".{threading.get_native_id()}")
        command = ["g++", "-std=c++20", "-shared", "-fPIC", str(FOLDER / "device.cpp"), "-o"]
        paths = [f"-I{TORCH}/include", f"-L{TORCH}/lib", "-lc10", "-ltorch_cpu"]
        subprocess.run([*command, str(partial), *paths], check=True)
        partial.replace(library)
    for path in (TORCH / "lib" / "libtorch_cpu.so", library):
        ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)


_load_device()

import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map_only  # noqa: E402

from pretend_cuda import graphs  # noqa: E402

aten = torch.ops.aten

launches: Counter[str] = Counter()
"""Operations that launch a kernel, by name."""

waits: Counter[str] = Counter()
"""Operations for which the host waits, by name and place in the program."""

INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index}
COPIES = {aten._to_copy, aten.copy_}
WAITING = {aten._local_scalar_dense, aten.nonzero, aten._unique2, aten.unique_dim, aten.equal}
WAITING |= {aten.masked_select, aten.is_nonzero, aten.item}
PACKING = {aten._pack_padded_sequence, aten._pack_padded_sequence_backward}
SOFTMAX = {aten._softmax, aten._log_softmax}
SOFTMAX_BACKWARD = {aten._softmax_backward_data, aten._log_softmax_backward_data}

_pinned: set[int] = set()  # storages
_generator = [0, 0]  # seed and offset of the GPU's random numbers


class CudaTensor(torch.Tensor):
    """A tensor on cuda:0; `cpu_tensor` has its numbers."""

    cpu_tensor: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, tensor: torch.Tensor) -> "CudaTensor":
        options = {"strides": tensor.stride(), "dtype": tensor.dtype, "device": "cuda:0"}
        wrapper = torch.Tensor._make_wrapper_subclass(cls, tensor.shape, **options)
        wrapper.cpu_tensor = tensor
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(func, args, kwargs or {})

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["cpu_tensor"], None

    @staticmethod
    def __tensor_unflatten__(tensors: Any, *_: Any) -> "CudaTensor":
        return CudaTensor(tensors["cpu_tensor"])

    def __repr__(self) -> str:
        return f"CudaTensor({self.cpu_tensor})"

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        if id(self) not in memo:
            copy = self.detach().clone()
            is_parameter = getattr(self, "_is_param", False)
            memo[id(self)] = torch.nn.Parameter(copy, self.requires_grad) if is_parameter else copy
        return memo[id(self)]

    def data_ptr(self) -> int:
        return self.cpu_tensor.data_ptr()

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")


class PretendMode(TorchDispatchMode):
    """Sends every operation of its thread through `dispatch`."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(func, args, kwargs or {})


def dispatch(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the CPU; check and count it if it belongs to the GPU."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    from_cuda = any(isinstance(tensor, CudaTensor) for tensor in tensors)
    device = kwargs.get("device")
    to_cuda = from_cuda if device is None else torch.device(device).type == "cuda"
    operation = func.overloadpacket
    if operation is aten.is_pinned:
        return args[0].untyped_storage().data_ptr() in _pinned
    if operation is aten._pin_memory:
        copy = args[0].clone()
        _pinned.add(copy.untyped_storage().data_ptr())
        return copy
    if not from_cuda and not to_cuda:
        return _run(func, args, kwargs)
    _check_devices(operation, args, tensors)
    generator = kwargs.get("generator")
    if generator is not None and generator.device.type == "cpu":
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    if torch.Tag.inplace_view in func.tags:
        with torch._C._DisableTorchDispatch():
            func(*args, **kwargs)  # sizes and strides of the wrapper
    _count(func, args, tensors, to_cuda)
    wrappers = {id(x.cpu_tensor): x for x in tensors if isinstance(x, CudaTensor)}
    args, kwargs = tree_map_only(CudaTensor, lambda x: x.cpu_tensor, (args, kwargs))
    kwargs = {name: value for name, value in kwargs.items() if name != "pin_memory"}
    if device is not None:
        kwargs["device"] = "cpu"
    dtype = None  # of a gradient that the CPU's operation returns in fp32
    if operation in SOFTMAX and args[2]:  # half_to_float, which a CPU lacks
        args = (_run(aten._to_copy.default, args[:1], {"dtype": torch.float32}), args[1], False)
    elif operation in SOFTMAX_BACKWARD and args[3] != args[0].dtype:
        args, dtype = (*args[:3], args[0].dtype), args[3]
    is_random = torch.Tag.nondeterministic_seeded in func.tags
    context = _random_numbers if is_random else contextlib.nullcontext
    output = _run(func, args, kwargs, context, dtype)
    if operation is aten._pack_padded_sequence:
        return CudaTensor(output[0]), output[1]
    if not to_cuda or operation is aten._local_scalar_dense:
        return output

    def wrap(leaf: torch.Tensor) -> torch.Tensor:
        return wrappers[id(leaf)] if id(leaf) in wrappers else CudaTensor(leaf)

    return tree_map_only(torch.Tensor, wrap, output)


def _run(func, args, kwargs, context=contextlib.nullcontext, dtype=None) -> Any:
    """Return the output of an operation on tensors of the CPU, as `dtype`; a graph records it."""
    if graphs.recording is not None:
        return graphs.recording.run(func, args, kwargs, context, dtype)
    with context():
        output = func(*args, **kwargs)
    return output if dtype is None else output.to(dtype)


def _check_devices(operation: Any, args: Any, tensors: Sequence[torch.Tensor]) -> None:
    """Refuse what a GPU refuses: CPU tensors beside its own, except scalars, copies and indices."""
    if operation is aten._pack_padded_sequence and isinstance(args[1], CudaTensor):
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got cuda:0")
    on_cpu = [x for x in tensors if not isinstance(x, CudaTensor) and x.dim() > 0]
    if operation in COPIES | PACKING or not on_cpu or len(on_cpu) == len(tensors):
        return
    is_index = operation in INDEXING and isinstance(args[0], CudaTensor)
    indices = {id(x) for x in args[1]} if is_index else set()
    if not all(id(x) in indices for x in on_cpu):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"cuda:0 and cpu! ({operation})"
        )


def _count(func: Any, args: Any, tensors: Sequence[torch.Tensor], to_cuda: bool) -> None:
    operation, name = func.overloadpacket, str(func.overloadpacket)
    aliases = [result.alias_info for result in func._schema.returns]
    is_view = any(alias is not None and not alias.is_write for alias in aliases)
    if not is_view and not name.startswith(("aten.empty", "aten.new_empty", "aten._local")):
        launches[name] += 1
    if operation in COPIES:
        target, source = (None, args[0]) if operation is aten._to_copy else args[:2]
        is_upload = to_cuda if target is None else isinstance(target, CudaTensor)
        if is_upload and not isinstance(source, CudaTensor):
            if source.dim() and source.untyped_storage().data_ptr() not in _pinned:
                _refuse_in_capture(name)
        elif not is_upload:
            _wait(name)
    elif operation in WAITING and any(isinstance(x, CudaTensor) for x in tensors):
        _wait(name)
    elif operation in INDEXING and any(x is not None and x.dtype == torch.bool for x in args[1]):
        value = args[2] if len(args) > 2 else None
        if value is None or value.numel() > 1:  # a single value fills by the mask, without nonzero
            _wait(f"{name} by a mask")


def _wait(name: str) -> None:
    _refuse_in_capture(name)
    waits[f"{name} at {place()}"] += 1


def _refuse_in_capture(name: str) -> None:
    if graphs.recording is not None:
        raise RuntimeError(f"operation not permitted when stream is capturing: {name}")


def place() -> str:
    """Return the file and line of the innermost frame of nmt."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if "/nmt/" in path and "/site-packages/" not in path and "/tests/" not in path:
            return f"{path.rpartition('/nmt/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return "backward"


def reset() -> None:
    """Set all counts to 0."""
    launches.clear()
    waits.clear()


@contextlib.contextmanager
def _random_numbers() -> Iterator[None]:
    """Draw from the GPU's generator: Philox's seed and offset, without its numbers."""
    seed, offset = _generator
    _generator[1] += 4
    with torch.random.fork_rng(devices=()):
        torch._C.default_generator.manual_seed((seed * 1_000_003 + offset) % 2**63)
        yield


class _ToCuda(torch.autograd.Function):
    """The outputs of a layer that ran on the CPU, rounded to `dtype`."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
        return CudaTensor(tensor.detach().clone() if dtype is None else tensor.detach().to(dtype))

    @staticmethod
    def backward(ctx: Any, gradient: CudaTensor) -> tuple[torch.Tensor, None]:
        return gradient.cpu_tensor.float(), None


class _ToCpu(torch.autograd.Function):
    """The inputs of such a layer, rounded to `dtype` and cast to fp32, which every CPU has."""

    @staticmethod
    def forward(ctx: Any, tensor: CudaTensor, dtype: torch.dtype | None) -> torch.Tensor:
        ctx.dtypes = tensor.dtype, dtype
        number = tensor.cpu_tensor.detach().clone()
        return number if dtype is None else number.to(dtype).float()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        of_input, dtype = ctx.dtypes
        return CudaTensor((gradient if dtype is None else gradient.to(dtype)).to(of_input)), None


def _cudnn(layer: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return torch's recurrent `layer`, which counts as one launch on the GPU."""

    def call(*args: Any) -> Any:
        if not isinstance(args[0], CudaTensor):
            return layer(*args)
        autocast = torch.is_autocast_enabled("cuda")
        dtype = torch.float16 if autocast else args[0].dtype
        dtype = None if dtype in (torch.float32, torch.float64) else dtype
        launches[f"cudnn.{name}"] += 1
        inputs = tree_map_only(CudaTensor, lambda x: _ToCpu.apply(x, dtype), args)
        return tree_map_only(torch.Tensor, lambda x: _ToCuda.apply(x, dtype), layer(*inputs))

    return call


ANSWERS: dict[str, Any] = {
    **dict.fromkeys(("is_available", "is_initialized", "is_bf16_supported"), True),
    **dict.fromkeys(("_is_in_bad_fork", "is_current_stream_capturing"), False),
    **dict.fromkeys(("_lazy_init", "_lazy_call", "set_device", "synchronize", "empty_cache")),
    "reset_peak_memory_stats": None,
    "device_count": 1,
    "current_device": 0,
    "get_device_capability": (9, 0),
    "get_device_name": "pretend GPU",
    "memory_allocated": 2**30,
    "max_memory_allocated": 2**31,
}
"""Return values of the functions of torch.cuda."""


def _seed(number: int) -> None:
    _generator[:] = [number % 2**63, 0]


def _set_rng_state(state: torch.Tensor, *_: Any) -> None:
    _generator[:] = state.view(torch.int64).tolist()


def install() -> None:
    """Replace what torch knows of GPUs, and dispatch the operations of this and later threads."""
    for name, answer in ANSWERS.items():
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
    torch.cuda.device = torch.cuda.device_of = lambda *_: contextlib.nullcontext()
    torch.cuda.Stream = torch.cuda.current_stream = graphs.Stream
    torch.cuda.stream = lambda _: contextlib.nullcontext()
    torch.cuda.CUDAGraph, torch.cuda.graph = graphs.PretendGraph, graphs.graph
    graphs.generator = _generator
    torch.cuda.manual_seed = torch.cuda.manual_seed_all = _seed
    torch.cuda.get_rng_state = lambda *_: torch.tensor(_generator, device="cpu").view(torch.uint8)
    torch.cuda.set_rng_state = _set_rng_state
    for module in (torch.utils._foreach_utils, sys.modules["torch.optim.optimizer"]):
        module._foreach_supported_types.append(CudaTensor)
    for name in ("gru", "lstm", "gru_cell", "lstm_cell"):
        setattr(torch._VF, name, _cudnn(getattr(torch._VF, name), name))
    torch.nn.RNNBase.flatten_parameters = lambda _: None
    torch.inference_mode = lambda mode=True: torch.no_grad() if mode else contextlib.nullcontext()
    find_spec = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *rest: (
        None if name == "triton" else find_spec(name, *rest)  # it would ask the driver for a GPU
    )
    run = threading.Thread.run

    def run_in_mode(thread: threading.Thread) -> None:
        torch._C._set_only_lift_cpu_tensors(True)
        with PretendMode():
            run(thread)

    threading.Thread.run = run_in_mode
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device="cuda") copies visibly
    PretendMode().__enter__()


install()
