# syntax=docker/dockerfile:1
# One target per role: admin (schema and tokens), api, tuner, worker, worker-cuda, measurer. Each holds its role's requirements
# (deploy/requirements) and the server's own packages; docs/adr/0004-images.md says what is in which, and why.
#
#   docker build --target api --tag tilefarm-api .

FROM python:3.11-slim-bookworm AS base
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    LANG=C.UTF-8 \
    HOME=/tmp \
    PATH=/opt/tilefarm/bin:$PATH
RUN groupadd --gid 10001 tilefarm \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin tilefarm

# The server's packages as a wheel: the only step that sees the sources.
FROM base AS wheel
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY services services
COPY workers workers
COPY tuner tuner
COPY sandbox sandbox
COPY checks checks
COPY db db
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

# What a role needs comes before the wheel, so that a change of code does not install it again.
FROM base AS install-admin
COPY constraints.txt deploy/requirements/admin.txt /build/
RUN python -m venv /opt/tilefarm \
    && /opt/tilefarm/bin/pip install --no-cache-dir --constraint /build/constraints.txt --requirement /build/admin.txt
RUN --mount=type=bind,from=wheel,source=/wheel,target=/wheel \
    /opt/tilefarm/bin/pip install --no-cache-dir --no-deps /wheel/*.whl

FROM base AS install-api
COPY constraints.txt deploy/requirements/api.txt /build/
RUN python -m venv /opt/tilefarm \
    && /opt/tilefarm/bin/pip install --no-cache-dir --constraint /build/constraints.txt --requirement /build/api.txt
RUN --mount=type=bind,from=wheel,source=/wheel,target=/wheel \
    /opt/tilefarm/bin/pip install --no-cache-dir --no-deps /wheel/*.whl

FROM base AS install-tuner
COPY constraints.txt deploy/requirements/tuner.txt /build/
RUN python -m venv /opt/tilefarm \
    && /opt/tilefarm/bin/pip install --no-cache-dir --constraint /build/constraints.txt --requirement /build/tuner.txt
RUN --mount=type=bind,from=wheel,source=/wheel,target=/wheel \
    /opt/tilefarm/bin/pip install --no-cache-dir --no-deps /wheel/*.whl

FROM base AS install-worker
COPY constraints.txt deploy/requirements/worker.txt /build/
RUN python -m venv /opt/tilefarm \
    && /opt/tilefarm/bin/pip install --no-cache-dir --constraint /build/constraints.txt --requirement /build/worker.txt
RUN --mount=type=bind,from=wheel,source=/wheel,target=/wheel \
    /opt/tilefarm/bin/pip install --no-cache-dir --no-deps /wheel/*.whl

FROM install-worker AS install-worker-cuda
COPY constraints.txt deploy/requirements/worker-cuda.txt /build/
RUN /opt/tilefarm/bin/pip install --no-cache-dir --constraint /build/constraints.txt --requirement /build/worker-cuda.txt

# TVM without its compiler, 260 MB smaller: what loads and times needs the runtime alone.
FROM install-worker AS install-measurer
RUN find /opt/tilefarm -name 'libtvm_compiler.so' -delete

FROM base AS admin
COPY --from=install-admin /opt/tilefarm /opt/tilefarm
USER 10001:10001
ENTRYPOINT ["tilefarm-server"]
CMD ["db", "upgrade"]

FROM base AS api
COPY --from=install-api /opt/tilefarm /opt/tilefarm
ENV TILEFARM_HOST=0.0.0.0
EXPOSE 8765
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8765/healthz', timeout=4)"]
ENTRYPOINT ["tilefarm-server"]
CMD ["api"]

FROM base AS tuner
COPY --from=install-tuner /opt/tilefarm /opt/tilefarm
ENV TILEFARM_TUNER_METRICS_PORT=9101 \
    TILEFARM_METRICS_HOST=0.0.0.0
EXPOSE 9101
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9101/healthz', timeout=4)"]
ENTRYPOINT ["tilefarm-server"]
CMD ["tuner"]

# binutils for `ld`: linking a candidate costs 2 ms with it; without it code is loaded in process.
FROM base AS worker
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils \
    && rm -rf /var/lib/apt/lists/*
COPY --from=install-worker /opt/tilefarm /opt/tilefarm
# Candidates are loaded from /work: mount it writable and executable. /locks is shared by the workers of a host.
ENV TILEFARM_WORK_DIR=/work \
    TILEFARM_LOCK_DIR=/locks \
    TILEFARM_WORKER_METRICS_PORT=9102 \
    TILEFARM_METRICS_HOST=0.0.0.0
RUN install --directory --owner=10001 --group=10001 --mode=0700 /work \
    && install --directory --mode=1777 /locks
EXPOSE 9102
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9102/healthz', timeout=4)"]
ENTRYPOINT ["tilefarm-server"]
CMD ["worker"]

# A worker for a target of CUDA, on a host with a GPU, or without one where it only builds. The driver comes from
# the host, by NVIDIA's container runtime.
FROM worker AS worker-cuda
COPY --from=install-worker-cuda /opt/tilefarm /opt/tilefarm
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility

# A worker that only times what others built: no compiler, no linker. TILEFARM_WORKER_TARGET names its target.
FROM base AS measurer
COPY --from=install-measurer /opt/tilefarm /opt/tilefarm
ENV TILEFARM_WORK_DIR=/work \
    TILEFARM_LOCK_DIR=/locks \
    TILEFARM_WORKER_ROLE=measure \
    TILEFARM_WORKER_METRICS_PORT=9102 \
    TILEFARM_METRICS_HOST=0.0.0.0 \
    TVM_USE_RUNTIME_LIB=1
RUN install --directory --owner=10001 --group=10001 --mode=0700 /work \
    && install --directory --mode=1777 /locks
EXPOSE 9102
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9102/healthz', timeout=4)"]
ENTRYPOINT ["tilefarm-server"]
CMD ["worker"]
