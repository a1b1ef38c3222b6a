#!/usr/bin/env bash
# All that is checked on a GPU, within 10 minutes: tests, agreement, speed. It needs torch for CUDA,
# pytest and no network. Packages that a machine lacks travel as wheels in the folder .whl:
#
#     pip download --no-deps --only-binary=:all: --python-version 3.12 \
#       --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 -d .whl -c constraints.txt \
#       typer pydantic pydantic-core typing-extensions typing-inspection annotated-types filelock \
#       safetensors sacrebleu sentencepiece jaxtyping beartype sentencex hypothesis pytest-xdist execnet
#
# Usage: scripts/gpu_day.sh FOLDER [SECTION ...]; the report and the log of the tests go to FOLDER.
set -uo pipefail
cd "$(dirname "$0")/.."
folder=$1
shift
mkdir -p "$folder"
export PYTHONPATH=$PWD PYTHONUNBUFFERED=1
if compgen -G ".whl/*.whl" >/dev/null; then
  python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
    --target /tmp/nmt-packages .whl/*.whl
  export PYTHONPATH=/tmp/nmt-packages:$PWD
fi
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader
status=0
if [ "${GPU_TESTS:-1}" = 1 ]; then
  NMT_TEST_DEVICE=cuda timeout -s INT 120 python3 -m pytest -q -n 8 -p no:cacheprovider \
    -p no:benchmark tests/laws tests/models tests/ops tests/optim tests/search \
    tests/training/test_graphs.py >"$folder/tests.log" 2>&1 || status=1
  tail -n 1 "$folder/tests.log"
fi
timeout 400 python3 scripts/gpu_day.py --out "$folder/report.json" "$@" || status=1
exit $status
