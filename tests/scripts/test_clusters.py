"""The files for clusters: their commands run on this machine, through stand-ins for the cluster.

`srun`, `scontrol` and `scancel` are scripts that start a task for each node on loopback. The
containers' commands of the Kubernetes manifests run with the index that a Job gives its pod.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cli.test_launch import ended, wait_for_step, write_config
from training.ranks import free_port
from training.toy import assert_same_checkpoint, records

from nmt.config import load_config

CLUSTERS = Path(__file__).parents[2] / "scripts" / "clusters"

STAND_INS = {
    # A task for each node; `tasks` has their processes.
    "srun": """\
pids=()
for ((node = 0; node < SLURM_JOB_NUM_NODES; node++)); do
  SLURM_NODEID=$node "$@" & pids+=("$!")
done
echo "${pids[@]}" > tasks
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit $code
""",
    "scontrol": """\
case $1 in
  show) printf '127.0.0.1\\n127.0.0.2\\n' ;;  # of: scontrol show hostnames LIST
  requeue) echo "$2" >> requeued ;;
esac
""",
    "scancel": """\
read -ra pids < tasks
kill -s "${1#--signal=}" "${pids[@]}"
""",
    "nmt": f'exec {sys.executable} -m nmt "$@"\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a config of two processes, and the stand-ins in bin/."""
    write_config(tmp_path, epochs=12, every=15)
    (tmp_path / "bin").mkdir()
    for name, text in STAND_INS.items():
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/bash\n{text}", encoding="utf-8")
        path.chmod(0o755)
    return tmp_path


def start(folder: Path, command: list[str], **environment: str) -> "subprocess.Popen[str]":
    """The command with the stand-ins first on the path; PET_... is read by torchrun."""
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    loopback = {"PATH": path, "PET_LOCAL_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    variables = {**os.environ, **loopback, **environment}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=variables, stdout=pipe, stderr=pipe, text=True)


def sbatch(folder: Path) -> "subprocess.Popen[str]":
    """The batch script as Slurm starts it on the first node."""
    slurm = {"JOB_NUM_NODES": "2", "JOB_NODELIST": "n[0-1]", "CPUS_PER_TASK": "1"}
    slurm["JOB_ID"] = str(free_port())  # its last digits make the port
    slurm = {f"SLURM_{name}": value for name, value in slurm.items()}
    return start(folder, ["bash", str(CLUSTERS / "train.sbatch"), "toy.yaml", "two"], **slurm)


def assert_as_on_one_machine(folder: Path) -> None:
    """Compare with the same training in as many processes of one machine, never stopped."""
    command = [sys.executable, "-m", "nmt", "train", "toy.yaml", "--run", "one", "--processes", "2"]
    assert ended(start(folder, command))[0] == 0
    assert_same_checkpoint(folder / "two", folder / "one")


@pytest.mark.slow
@pytest.mark.usefixtures("hangup_heard")
def test_a_slurm_job_saves_before_its_time_is_over_and_goes_on(folder: Path) -> None:
    job = sbatch(folder)
    wait_for_step(folder, "two", 5, job)
    job.send_signal(signal.SIGHUP)  # --signal=B:HUP@600: to the batch shell alone
    code, _, err = ended(job)
    assert code != 0
    assert err.count("stopped: saved at step") == 1, err
    assert len((folder / "requeued").read_text().split()) == 1
    code, _, err = ended(sbatch(folder))
    assert code == 0, err
    assert "resuming after step" in err
    assert len((folder / "requeued").read_text().split()) == 1
    assert_as_on_one_machine(folder)
    steps = [record["step"] for record in records(folder / "two", "train")]
    assert steps == sorted(set(steps))


SERVICE, JOB = yaml.safe_load_all((CLUSTERS / "train.yaml").read_text(encoding="utf-8"))
POD = JOB["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
VARIABLES = {variable["name"]: variable["value"] for variable in CONTAINER["env"]}


def pods(folder: Path, **changes: str) -> "list[subprocess.Popen[str]]":
    """A process for each pod; `changes` are what a user of another cluster would edit."""
    command, variables = [*CONTAINER["command"], *CONTAINER["args"]], {**VARIABLES, **changes}
    indices = map(str, range(JOB["spec"]["completions"]))
    return [start(folder, command, **variables, JOB_COMPLETION_INDEX=index) for index in indices]


@pytest.mark.slow
def test_all_pods_save_and_end_where_one_is_evicted(folder: Path) -> None:
    changes = {"CONFIG": "toy.yaml", "RUN": "two", "PROCESSES": "1", "OMP_NUM_THREADS": "1"}
    changes["ADDRESS"] = f"127.0.0.1:{free_port()}"
    stays, goes = pods(folder, **changes)
    wait_for_step(folder, "two", 5, stays)
    goes.send_signal(signal.SIGTERM)
    results = [ended(pod) for pod in (goes, stays)]
    assert all(code != 0 for code, _, _ in results)
    assert sum(err.count("stopped: saved at step") for _, _, err in results) == 1
    results = [ended(pod) for pod in pods(folder, **changes)]  # as the Job makes them anew
    assert [code for code, _, _ in results] == [0, 0], results
    assert_as_on_one_machine(folder)


def test_the_parts_of_the_manifests_agree() -> None:
    name, spec = JOB["metadata"]["name"], JOB["spec"]
    assert SERVICE["spec"]["clusterIP"] == "None"
    assert SERVICE["spec"]["selector"] == {"job-name": name}
    assert POD["subdomain"] == SERVICE["metadata"]["name"]
    assert VARIABLES["ADDRESS"].startswith(f"{name}-0.{POD['subdomain']}:")
    assert spec["completions"] == spec["parallelism"] == int(VARIABLES["MACHINES"])
    assert CONTAINER["resources"]["limits"]["nvidia.com/gpu"] == VARIABLES["PROCESSES"]
    assert spec["completionMode"] == "Indexed"
    load_config(Path(VARIABLES["CONFIG"]))
