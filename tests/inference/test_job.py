"""A translation that is stopped anywhere is continued or refused; its file appears whole."""

import contextlib
import errno
import json
import os
from pathlib import Path

import pytest
from disk import watched

from nmt.errors import ConfigError, DataError
from nmt.inference.job import job_output
from nmt.storage.output import NOTE_SUFFIX, PART_SUFFIX

JOB: dict[str, object] = {"input": "abc", "search": {"beam": 5}}


def write(
    out: Path,
    lines: list[str],
    resume: bool = False,
    unit: int = 1,
    job: dict[str, object] | None = JOB,
    force: bool = False,
) -> int:
    """Write what is missing of `lines`; returns how many were there."""
    with job_output(out, job, resume, unit, force) as (write_bytes, n_done):
        for line in lines[n_done:]:
            write_bytes(f"{line}\n".encode())
    return n_done


def stop(out: Path, content: bytes, job: dict[str, object] = JOB) -> None:
    """What a stopped process leaves."""
    out.with_name(out.name + PART_SUFFIX).write_bytes(content)
    out.with_name(out.name + NOTE_SUFFIX).write_text(json.dumps(job))


LINES = ["eins", "", "drei\u2028", "vier", "fünf"]
WHOLE = "eins\n\ndrei\u2028\nvier\nfünf\n".encode()


@pytest.mark.parametrize("unit", [1, 2, 3])
def test_wherever_it_was_stopped_the_rest_is_written(tmp_path: Path, unit: int) -> None:
    out = tmp_path / "out.fr"
    for n_bytes in range(len(WHOLE) + 1):
        stop(out, WHOLE[:n_bytes])
        n_done = write(out, LINES, resume=True, unit=unit)
        assert n_done == WHOLE[:n_bytes].count(b"\n") // unit * unit
        assert out.read_bytes() == WHOLE
        assert [path.name for path in tmp_path.iterdir()] == ["out.fr"]
        out.unlink()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_begun_lines_are_resumed_or_forced_away(tmp_path: Path) -> None:
    out = tmp_path / "out.fr"
    stop(out, b"old\nolder\noldest\n")
    with pytest.raises(ConfigError, match=r"`resume`.*`force`"):
        write(out, ["new"])
    assert (tmp_path / "out.fr.nmt-part").read_bytes() == b"old\nolder\noldest\n"
    assert write(out, ["new"], force=True) == 0
    assert out.read_bytes() == b"new\n"
    assert write(tmp_path / "other", ["new"], resume=True) == 0
    assert names(tmp_path) == ["other", "out.fr"]


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "out.fr"
    out.write_bytes(b"old\n")
    out.chmod(0o640)
    with contextlib.suppress(KeyboardInterrupt), job_output(out, JOB, force=True) as job:
        job[0](b"one\ntw")
        raise KeyboardInterrupt
    assert out.read_bytes() == b"old\n"
    assert names(tmp_path) == ["out.fr", "out.fr.nmt-part", "out.fr.nmt-part.json"]
    assert write(out, ["one", "two"], resume=True, force=True) == 1
    assert out.read_bytes() == b"one\ntwo\n"
    assert out.stat().st_mode & 0o777 == 0o640
    with job_output(out, None, force=True) as (_, n_done):
        assert (n_done, out.read_bytes()) == (0, b"one\ntwo\n")
    assert (names(tmp_path), out.read_bytes()) == (["out.fr"], b"")


def test_what_fails_before_its_first_line_changes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out.fr"
    out.write_bytes(b"precious\n")
    with contextlib.suppress(KeyError), job_output(out, JOB, force=True):
        raise KeyError
    assert (names(tmp_path), out.read_bytes()) == (["out.fr"], b"precious\n")
    stop(out, b"one\n")
    with contextlib.suppress(KeyError), job_output(out, {"input": "another"}, force=True):
        raise KeyError
    assert write(out, LINES, resume=True, force=True) == 1


class PowerCutError(Exception):
    """Ends a process between two calls of the system."""


@pytest.mark.parametrize("older", ["finished", "stopped", "both"])
@pytest.mark.parametrize("resume", [False, True])
def test_stopped_before_any_call_no_line_of_an_older_output_is_kept(
    tmp_path: Path, older: str, resume: bool
) -> None:
    """Whatever was there before, what goes on afterwards is this job's translation alone."""
    for count in range(99):
        folder = tmp_path / str(count)
        folder.mkdir()
        out, calls = folder / "out.fr", []
        if older != "stopped":
            out.write_bytes(b"old\nolder\noldest\n")
        if older != "finished":
            stop(out, b"of\nanother\n", {"input": "another"})

        def cut(name: str, _: Path, __: object, calls=calls, at=count) -> None:  # type: ignore[no-untyped-def]
            calls.append(name)
            if len(calls) > at:
                raise PowerCutError

        with contextlib.suppress(PowerCutError), watched(folder, cut):
            write(out, LINES, force=True)
        if out.is_file() and out.read_bytes() == WHOLE:
            assert names(folder) in (["out.fr"], ["out.fr", "out.fr.nmt-part.json"])
            break
        begun = (folder / "out.fr.nmt-part").exists()
        if resume and begun:
            with contextlib.suppress(DataError):
                write(out, LINES, resume=True, force=True)
                assert out.read_bytes() == WHOLE
        write(out, LINES, force=True)
        assert (names(folder), out.read_bytes()) == (["out.fr"], WHOLE)
    assert count > 5


def test_a_second_command_for_one_file_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out.fr"
    with job_output(out, JOB) as (write_bytes, _):
        write_bytes(b"one\n")
        for resume in (False, True):
            with pytest.raises(DataError, match="another command is writing it"):
                write(out, LINES, resume=resume)
    assert (names(tmp_path), out.read_bytes()) == (["out.fr"], b"one\n")


def test_a_link_is_followed(tmp_path: Path) -> None:
    out, far = tmp_path / "out.fr", tmp_path / "far" / "x"
    far.parent.mkdir()
    out.symlink_to(far)
    write(out, ["one"])
    assert (out.is_symlink(), far.read_bytes()) == (True, b"one\n")


def test_a_pipe_gets_the_lines_as_they_come_and_no_note(tmp_path: Path) -> None:
    out = tmp_path / "pipe"
    os.mkfifo(out)
    reader = os.open(out, os.O_RDONLY | os.O_NONBLOCK)
    with job_output(out, JOB) as (write_bytes, _):
        write_bytes(b"one\n")
        assert os.read(reader, 99) == b"one\n"
        assert names(tmp_path) == ["pipe"]
    os.close(reader)
    with job_output(Path("/dev/null"), JOB) as (write_bytes, _):
        write_bytes(b"one\n")
        assert not Path("/dev/null.nmt-part").exists()


@pytest.mark.parametrize(
    ("job", "keys"),
    [({"input": "abc", "search": {"beam": 4}, "x": 1}, "search, x"), ([], "input, search")],
)
def test_another_job_is_not_continued(tmp_path: Path, job: object, keys: str) -> None:
    out = tmp_path / "out.fr"
    stop(out, b"one\n", job)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=rf"^{out}: .* begun with another {keys}$"):
        write(out, LINES, resume=True)
    assert (tmp_path / "out.fr.nmt-part").read_bytes() == b"one\n"


def test_what_cannot_be_resumed_or_written_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out.fr"
    out.write_bytes(b"one\n")
    with pytest.raises(DataError, match=r"cannot be resumed: out\.fr\.nmt-part is not"):
        write(out, LINES, resume=True)
    stop(out, b"one\n")
    (tmp_path / "out.fr.nmt-part.json").unlink()
    with pytest.raises(DataError, match=r"cannot be resumed: out\.fr\.nmt-part\.json"):
        write(out, LINES, resume=True, force=True)
    (tmp_path / "out.fr.nmt-part").unlink()
    (tmp_path / "folder").mkdir()
    for name, reason in {"none/out": "No such file", "folder": "it is a folder"}.items():
        with pytest.raises(DataError, match=rf"^cannot write .*{name}: {reason}"):
            write(tmp_path / name, LINES)
    with pytest.raises(DataError, match=r"^cannot write /dev/full: No space left"):
        write(Path("/dev/full"), LINES)
    assert not list(Path("/dev").glob("full?*"))
    assert names(tmp_path) == ["folder", "out.fr"]


def test_a_full_disk_keeps_the_lines_that_fit(tmp_path: Path) -> None:
    out = tmp_path / "long"

    def write_until_full() -> None:
        with job_output(out, JOB) as (write_bytes, _):
            write_bytes(b"eins\n\ndr")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(DataError, match=r"^cannot write .*long: No space left on device$"):
        write_until_full()
    assert write(out, LINES, resume=True) == 2
    assert out.read_bytes() == WHOLE


def test_a_user_may_have_a_file_of_the_usual_name_for_a_part(tmp_path: Path) -> None:
    out = tmp_path / "out.fr"
    unrelated = [tmp_path / "out.fr.part", tmp_path / "out.fr.part.json"]
    for path in unrelated:
        path.write_text("mine")
    write(out, ["one"])
    assert names(tmp_path) == ["out.fr", "out.fr.part", "out.fr.part.json"]
    assert [path.read_text() for path in unrelated] == ["mine", "mine"]
