# A server for one model: docker build -t banyan . && docker run -p 8080:8080 -v "$PWD/model:/model:ro" banyan
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE constraints.txt ./
COPY src ./src
# `search` is for --index. Without it, the image is half a gigabyte smaller: --build-arg EXTRAS=serve
ARG EXTRAS=serve,search
RUN python -m venv /opt/banyan && /opt/banyan/bin/pip install --no-cache-dir --constraint constraints.txt ".[$EXTRAS]"

FROM python:3.12-slim
COPY --from=build /opt/banyan /opt/banyan
ENV PATH=/opt/banyan/bin:$PATH NUMBA_CACHE_DIR=/var/cache/banyan PYTHONUNBUFFERED=1
RUN useradd --system --create-home banyan && mkdir -p /var/cache/banyan && chown banyan /var/cache/banyan
USER banyan
# The native kernels need no warming up. Without them, this compiles those of Numba.
RUN banyan warmup
VOLUME /model
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/health', timeout=2).read()"]
ENTRYPOINT ["banyan", "serve"]
CMD ["/model", "--host", "0.0.0.0", "--port", "8080"]
