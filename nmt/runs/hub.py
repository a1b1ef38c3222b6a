"""Packed runs on the Hugging Face Hub, named `hf:USER/NAME` or `hf:USER/NAME@REVISION`."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nmt.errors import CheckpointError, ConfigError, pip_install
from nmt.runs.directory import RunDirectory
from nmt.runs.pack import pack
from nmt.types import FilePath

PREFIX, _FILE = "hf:", "run.zip"


def is_hub_name(run: FilePath) -> bool:
    """Return whether `run` names a run on the Hub."""
    return str(run).startswith(PREFIX)


def download(name: FilePath) -> Path:
    """Return the path of a packed run in huggingface_hub's cache, after a download if necessary.

    Raises CheckpointError if the download fails, and ConfigError without huggingface_hub.
    """
    repository, _, tag = Path(name).as_posix().removeprefix(PREFIX).partition("@")
    with _hub_errors(name):
        import huggingface_hub as hub

        revision = tag or None
        if not isinstance(hub.try_to_load_from_cache(repository, _FILE, revision=revision), str):
            # Without a network, hf_hub_download would retry for half a minute.
            url = hub.hf_hub_url(repository, _FILE, revision=revision)
            hub.get_hf_file_metadata(url, timeout=5)
        return Path(hub.hf_hub_download(repository, _FILE, revision=revision))


def push(run: RunDirectory, checkpoint: str, card: str, repository: str) -> str:
    """Upload a packed run, with `card` as README.md; return the address of the commit.

    A missing repository is created as a public one. Raises the errors of `download` and `pack`.
    """
    with tempfile.TemporaryDirectory() as folder:
        pack(run, checkpoint, Path(folder, _FILE))
        Path(folder, "README.md").write_text(card, encoding="utf-8")
        with _hub_errors(repository):
            from huggingface_hub import HfApi

            HfApi().create_repo(repository, exist_ok=True)
            return str(HfApi().upload_folder(repo_id=repository, folder_path=folder).commit_url)


@contextlib.contextmanager
def _hub_errors(name: FilePath) -> Iterator[None]:
    """Convert the errors of huggingface_hub, which have no common class, to a CheckpointError."""
    try:
        yield
    except ImportError:
        raise ConfigError(f"{name}: needs huggingface_hub: {pip_install('hub')}") from None
    except Exception as error:
        reason = " ".join(str(error).split())
        # Class names are compared, because some versions use httpx and others httpx2.
        if "TransportError" in {kind.__name__ for kind in type(error).__mro__}:
            problem = f"the Hugging Face Hub cannot be reached ({reason})"
            remedy = "check the network, or copy the file of `nmt runs pack` instead"
            raise CheckpointError(f"{name}: {problem}; {remedy}") from error
        raise CheckpointError(f"{name}: {reason}") from error
