"""An output file that is stopped anywhere holds whole lines, and is continued or refused."""

import contextlib
import errno
import json
import os
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.translation.job import NOTE_SUFFIX, job_output

JOB: dict[str, object] = {"input": "abc", "search": {"beam": 5}}


def write(
    out: Path,
    lines: list[str],
    resume: bool = False,
    unit: int = 1,
    job: dict[str, object] | None = JOB,
) -> int:
    """Write what is missing of `lines`; returns how many were there."""
    with job_output(out, job, resume, unit) as (stream, n_done):
        for line in lines[n_done:]:
            stream.write(f"{line}\n".encode())
    return n_done


def stop(out: Path, content: bytes, job: dict[str, object] = JOB) -> None:
    """What a stopped process leaves."""
    out.write_bytes(content)
    out.with_name(out.name + NOTE_SUFFIX).write_text(json.dumps(job))


def write_until_full(out: Path) -> None:
    with job_output(out, JOB) as (stream, _):
        stream.write(b"eins\n\ndr")
        stream.flush()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


LINES = ["eins", "", "drei\u2028", "vier", "fünf"]
WHOLE = "eins\n\ndrei\u2028\nvier\nfünf\n".encode()


@pytest.mark.parametrize("unit", [1, 2, 3])
@pytest.mark.parametrize("n_bytes", range(0, len(WHOLE) + 1, 3))
def test_wherever_it_was_stopped_the_rest_is_written(
    tmp_path: Path, n_bytes: int, unit: int
) -> None:
    out = tmp_path / "out.fr"
    stop(out, WHOLE[:n_bytes])
    n_done = write(out, LINES, resume=True, unit=unit)
    assert n_done == WHOLE[:n_bytes].count(b"\n") // unit * unit
    assert out.read_bytes() == WHOLE
    assert [path.name for path in tmp_path.iterdir()] == ["out.fr"]


def test_without_resume_it_begins_anew(tmp_path: Path) -> None:
    out = tmp_path / "out.fr"
    stop(out, b"old\nolder\noldest\n")
    assert write(out, ["new"]) == 0
    assert out.read_bytes() == b"new\n"
    assert write(tmp_path / "other", ["new"], resume=True) == 0


def test_the_note_is_there_from_the_first_line_and_goes_with_the_last(tmp_path: Path) -> None:
    out = tmp_path / "out.fr"
    with contextlib.suppress(KeyboardInterrupt), job_output(out, JOB) as (stream, _):
        assert (tmp_path / "out.fr.job.json").is_file()
        stream.write(b"one\ntw")
        raise KeyboardInterrupt
    assert write(out, ["one", "two"], resume=True) == 1
    assert out.read_bytes() == b"one\ntwo\n"
    with job_output(out, None) as (stream, n_done):
        assert (n_done, [path.name for path in tmp_path.iterdir()]) == (0, ["out.fr"])


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"input": "abd", "search": {"beam": 5}}, "it was begun with another input$"),
        ({"input": "abc", "search": {"beam": 4}, "x": 1}, "it was begun with another search, x$"),
        ([], "it was begun with another input, search$"),
    ],
)
def test_another_job_is_not_continued(tmp_path: Path, job: object, message: str) -> None:
    out = tmp_path / "out.fr"
    stop(out, b"one\n", job)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=rf"^{out}: cannot be resumed: {message}"):
        write(out, LINES, resume=True)
    assert out.read_bytes() == b"one\n"


def test_what_cannot_be_resumed_or_written_is_said(tmp_path: Path) -> None:
    out = tmp_path / "out.fr"
    out.write_bytes(b"one\n")
    with pytest.raises(DataError, match=r"cannot be resumed: out\.fr\.job\.json is not beside it"):
        write(out, LINES, resume=True)
    with pytest.raises(DataError, match=r"^cannot write .*none/out: No such file or directory$"):
        write(tmp_path / "none" / "out", LINES)
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"^cannot write .*: Is a directory$"):
        write(tmp_path / "folder", LINES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "out.fr"]
    with pytest.raises(DataError, match=r"^cannot write /dev/full: No space left on device$"):
        write(Path("/dev/full"), LINES, job=None)
    goes_on = "the same command with --resume goes on there"
    with pytest.raises(DataError, match=rf"^cannot write .*: No space left on device; {goes_on}$"):
        write_until_full(tmp_path / "long")
    assert write(tmp_path / "long", LINES, resume=True) == 2
    with pytest.raises(PermissionError), job_output(out, None):
        raise PermissionError(13, "of another file", "other")
