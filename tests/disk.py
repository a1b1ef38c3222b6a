"""A disk that fails at a given call, and one whose power is cut between any two of them.

Everything that nmt changes in a run directory but for lines added to its logs goes through these
functions of `os`; what a log holds is looked up when it is flushed.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CALLS = ("open", "write", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir")


def _path_of(name: str, arguments: tuple[Any, ...]) -> Path:
    """Return the file of a call; of a rename the source."""
    if name in ("write", "fsync"):
        return Path(os.readlink(f"/proc/self/fd/{arguments[0]}"))
    return Path(os.fspath(arguments[0])).absolute()


def _remove_tree(path: Path | str) -> None:
    """shutil.rmtree by the calls that are watched, with whole paths."""
    for entry in sorted(Path(path).iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            _remove_tree(entry)
        else:
            os.unlink(entry)
    os.rmdir(path)


@contextmanager
def watched(root: Path, watch: Callable[[str, Path, tuple[Any, ...]], None]) -> Iterator[None]:
    """Call `watch` before every call that changes something under `root`."""
    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, _wrapped(name, getattr(os, name), root, watch))
        patch.setattr(shutil, "rmtree", _remove_tree)
        yield


def _wrapped(
    name: str, call: Callable[..., Any], root: Path, watch: Callable[..., None]
) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **options: Any) -> Any:
        changes = name != "open" or arguments[1] & (os.O_CREAT | os.O_APPEND) == os.O_CREAT
        if changes and not isinstance(options.get("dir_fd"), int):
            path = _path_of(name, arguments)
            if path.is_relative_to(root):
                watch(name, path, arguments)
        return call(*arguments, **options)

    return wrapped


@contextmanager
def failing(root: Path, at: int, code: int, once: bool = False) -> Iterator[list[str]]:
    """Have the call number `at`, and unless `once` all after it, fail with the error `code`.

    Gives the list of the calls so far. Nothing can be deleted on a disk that is read-only.
    """
    calls: list[str] = []

    def watch(name: str, path: Path, arguments: tuple[Any, ...]) -> None:
        calls.append(f"{name} {path.name}")
        if len(calls) - 1 == at or (len(calls) > at and not once):
            raise OSError(code, os.strerror(code), *(() if name in ("write", "fsync") else (path,)))

    with watched(root, watch):
        yield calls


@dataclass
class Node:
    """A file or folder: what a reader sees, and what the disk is sure to hold.

    `changes` are the changes of a folder's names that are not flushed, in their order.
    """

    kind: str
    content: Any = b""
    durable: Any = b""
    changes: list[dict[str, "Node | None"]] = field(default_factory=list)


@dataclass
class Recorder:
    """The calls that changed `root`, to be played again up to any of them."""

    root: Path
    calls: list[tuple[str, Path, Any]] = field(default_factory=list)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is done meanwhile."""

        def watch(name: str, path: Path, arguments: tuple[Any, ...]) -> None:
            about: Any = None
            if name in ("rename", "replace"):
                about = Path(os.fspath(arguments[1])).absolute()
            elif name == "write":
                about = bytes(arguments[1])
            elif name == "fsync" and path.is_file():
                about = path.read_bytes()
            self.calls.append((name, path, about))

        with watched(self.root, watch):
            yield

    def cut(self, count: int, chance: random.Random, keep: str, into: Path) -> None:
        """Write into `into` what the disk may hold when the power goes after `count` calls.

        What was flushed is there. Of what was not, `keep` says: "names" of files without their
        bytes, "nothing", "all" (as after kill -9), or "some": of each folder the first few
        changes, of each file a part. File systems with a journal keep the order of the changes.
        """
        tree = Node("dir", {}, {})
        for call in self.calls[:count]:
            self._play(tree, *call)
        _write(tree, chance, keep, into)

    def _play(self, tree: Node, name: str, path: Path, about: Any) -> None:
        if path == self.root and name == "mkdir":
            return
        if path == self.root:
            folder, node = tree, tree
        else:
            folder = _find(tree, path.parent.relative_to(self.root))
            node = folder.content.get(path.name)
        if name == "open" and node is None:
            _rename(folder, {path.name: Node("file")})
        elif name == "open":
            node.content = b""
        elif name == "write":
            node.content += about
        elif name == "fsync" and node.kind == "file":
            node.content = node.durable = about
        elif name == "fsync":
            node.durable, node.changes = dict(node.content), []
        elif name == "mkdir" and node is not None:
            pass  # the call fails
        elif name == "mkdir":
            _rename(folder, {path.name: Node("dir", {}, {})})
        elif name in ("rename", "replace"):
            assert about.parent == path.parent, "a move between folders is not modelled"
            _rename(folder, {path.name: None, about.name: node})
        else:
            _rename(folder, {path.name: None})


def _find(tree: Node, path: Path) -> Node:
    for part in path.parts:
        tree = tree.content[part]
    return tree


def _rename(folder: Node, change: dict[str, Node | None]) -> None:
    folder.changes.append(change)
    _apply(folder.content, change)


def _apply(names: dict[str, Node], change: dict[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _write(node: Node, chance: random.Random, keep: str, path: Path) -> None:
    if node.kind == "file":
        content = node.content if keep == "all" else node.durable
        if keep == "some" and node.content != node.durable:
            content = node.content[: chance.randint(0, len(node.content))]
        path.write_bytes(content)
    else:
        names = dict(node.durable)
        count = {"nothing": 0, "some": chance.randint(0, len(node.changes))}
        for change in node.changes[: count.get(keep, len(node.changes))]:
            _apply(names, change)
        path.mkdir()
        for name, child in names.items():
            _write(child, chance, keep, path / name)
