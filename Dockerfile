# nmt serve in a container: not root, nothing written but /tmp.
#
#   docker build --tag nmt .
#   docker run --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
#     --publish 127.0.0.1:5000:5000 --volume "$PWD/runs/starter:/model:ro" nmt
#
# pip takes PyTorch from its usual index, for GPUs. --build-arg PIP_EXTRA_INDEX_URL=URL names one that
# has it for CPUs, which makes the image several gigabytes smaller.

# The full image has the C++ compiler that hatch_build.py looks for.
FROM python:3.12-bookworm AS build
ARG PIP_EXTRA_INDEX_URL
ENV NMT_PORTABLE_WHEEL=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY constraints.txt ./
RUN python -m venv /opt/nmt && /opt/nmt/bin/pip install --constraint constraints.txt torch
COPY . .
RUN /opt/nmt/bin/pip install --constraint constraints.txt ".[serve]"

FROM python:3.12-slim-bookworm
COPY --from=build /opt/nmt /opt/nmt
RUN useradd --system --no-create-home --uid 10001 nmt
# The root file system may be read-only: what libraries cache goes to /tmp.
ENV PATH=/opt/nmt/bin:$PATH \
    HOME=/tmp \
    MPLCONFIGDIR=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001
WORKDIR /tmp
EXPOSE 5000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5000/health', timeout=4)"]
ENTRYPOINT ["nmt", "serve", "--host", "0.0.0.0", "--port", "5000"]
CMD ["--run", "/model"]
