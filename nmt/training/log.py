"""The log of a training: metrics.jsonl, train.log, stderr."""

import contextlib
import json
import math
import os
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from nmt.runs.metrics import METRICS, WALL_CLOCK, Record, read_metrics
from nmt.storage.atomic import flush, named_errors, open_append, write_text
from nmt.storage.terminal import discard_output, escape_controls


class RunLog:
    """A context manager that logs a run to `folder` and to stderr, or nowhere if `folder` is None.

    Records go to metrics.jsonl. Lines go to train.log and, unless `quiet`, to stderr, with a
    progress bar if stderr is a terminal. If stderr fails (a closed pipe, a lost terminal), the
    training continues without it.
    """

    def __init__(self, folder: Path | None, quiet: bool = False) -> None:
        self._folder = folder
        self._quiet = quiet or folder is None
        self._path, self._log_path = (
            Path(os.devnull) if folder is None else folder / name for name in (METRICS, "train.log")
        )
        self._metrics = open_append(self._path)
        self._log = open_append(self._log_path)
        self._bar: "tqdm[Any] | None" = None
        self.checksum = 0
        """The checksum of all records without their WALL_CLOCK fields. Checkpoints contain it."""

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with contextlib.suppress(OSError):  # `error` may already report the full disk
            if error is not None:
                self._write_log(f"stopped: {type(error).__name__}: {error}")
        self.close_bar()
        for file in (self._metrics, self._log):
            with contextlib.suppress(OSError):
                file.close()

    def say(self, text: str) -> None:
        """Write `text`, of one or more lines, to train.log and, unless quiet, to stderr."""
        if not self._quiet:
            with self._stderr():
                tqdm.write(text, file=sys.stderr)
        self._write_log(text)

    def note(self, text: str) -> None:
        """Write a line to train.log and, if there is no progress bar, to stderr."""
        if self._bar is None:
            self.say(text)
        else:
            self._write_log(text)

    def record(self, record: Record) -> None:
        """Write a record to metrics.jsonl, as a line.

        NaN and infinity, such as the gradient norm of an update that fp16 skips, become null.
        """
        values = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in record.items()
        }
        with named_errors(self._path):
            self._metrics.write(json.dumps(values, allow_nan=False) + "\n")
            self._metrics.flush()
        self._count(values)

    def write(self, name: str, text: str) -> None:
        if self._folder is None:
            return
        path = self._folder / name
        if not path.parent.is_dir():
            path.parent.mkdir()
            flush(self._folder)
        write_text(path, text)

    def sync(self) -> None:
        """Flush the records to the disk. Raises OSError if a record cannot be written.

        Call this before each save, so that a checkpoint is never newer than its records.
        """
        if self._folder is None:
            return
        with named_errors(self._path):
            self._metrics.flush()
            os.fsync(self._metrics.fileno())

    def rewind(self, step: int, validated: bool = True, checksum: object = None) -> list[str]:
        """Delete damaged lines, and the records that a resumed run will write again.

        These are the records after `step` and, unless `validated`, the validation at `step`. Call
        this once, before the first record. `checksum` is the checkpoint's value, or None to skip
        the check. Returns a warning as a list if the remaining records do not match it, else an
        empty list. Raises CheckpointError if the file cannot be read.
        """
        if self._folder is None:
            return []
        self._metrics.close()
        lines = [
            line
            for line in read_metrics(self._path)
            if line.step < step or (line.step == step and (validated or line.kind != "valid"))
        ]
        write_text(self._path, "".join(f"{line.text}\n" for line in lines))
        self._metrics = open_append(self._path)
        for line in lines:
            self._count(line.record)
        if checksum in (None, self.checksum):
            return []
        end = f"ends at step {lines[-1].step:,}" if lines else "is empty"
        problem = f"it {end}, the checkpoint is of step {step:,}"
        return [f"{self._path}: records are missing or changed: {problem}"]

    def _count(self, record: Record) -> None:
        timeless = [item for item in record.items() if item[0] not in WALL_CLOCK]
        self.checksum = zlib.crc32(json.dumps(timeless).encode(), self.checksum)

    def open_bar(self, name: str, total: int, done: int) -> None:
        """Show a progress bar for an epoch of `total` batches, of which `done` are done."""
        self.close_bar()
        if self._quiet or not sys.stderr.isatty():
            return  # even a disabled tqdm would start a thread
        with self._stderr():
            self._bar = tqdm(
                total=total, initial=done, desc=name, unit="batch", leave=False, dynamic_ncols=True
            )

    def advance_bar(self, batches: int, measured: str) -> None:
        """Advance the progress bar by `batches`, and show `measured` after it."""
        if self._bar is not None:
            with self._stderr():
                self._bar.set_postfix_str(measured, False)
                self._bar.update(batches)

    def close_bar(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            with self._stderr():
                bar.close()

    @contextlib.contextmanager
    def _stderr(self) -> Iterator[None]:
        """Suppress an OSError in this block, and write nothing more to stderr after it."""
        try:
            yield
        except OSError as error:
            discard_output(sys.stderr)
            self._quiet = True
            if self._bar is not None:
                self._bar.disable = True
                self._bar = None
            self._write_log(f"stderr: {error.strerror}: further messages are in this file only")

    def _write_log(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        with named_errors(self._log_path):
            lines = escape_controls(text).split("\n")  # users show train.log on a terminal too
            self._log.writelines(f"{stamp} {line}\n" for line in lines)
            self._log.flush()
