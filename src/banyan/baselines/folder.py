"""The folder of a baseline, described by its `baseline.json`. It is written atomically."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from banyan._version import __version__
from banyan.errors import BanyanError
from banyan.support import files

MANIFEST = "baseline.json"
FORMAT = 1  # raised when an older version could not read the folder


@dataclass(frozen=True)
class Manifest:
    name: str  # in banyan.baselines.BASELINES
    settings: dict[str, Any]
    source: str | None = None  # of kind "loads": the folder or name on the Hub
    about: dict[str, Any] = field(default_factory=dict)  # statistics of the training: words, tokens, losses, ...


def check_new(out: str | Path, besides: str = "") -> Path:
    """Refuse `out` if it is not new or empty. Call this before a long training run. besides: a name that may exist."""
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(path.name != besides for path in out.iterdir())):
        raise BanyanError(f"{out} exists already and is not an empty folder: choose another --out, or remove it first")
    if not out.absolute().parent.is_dir():
        raise BanyanError(f"cannot create {out}: there is no folder {out.absolute().parent}")
    return out


@contextmanager
def made(out: str | Path, manifest: Manifest) -> Iterator[Path]:
    """A temporary folder to write into. If the block succeeds, it gets the manifest and is renamed to `out`."""
    with files.new_folder(check_new(out)) as building:
        yield building
        write(building, manifest)


def write(folder: str | Path, manifest: Manifest) -> None:
    """Write the manifest. It comes last, because it makes the folder valid."""
    kept = {"format": FORMAT, "banyan_version": __version__, **asdict(manifest)}
    files.write_text(Path(folder) / MANIFEST, json.dumps(kept, indent=2, ensure_ascii=False) + "\n")


def add_cost(folder: str | Path, seconds: float) -> None:
    """Add the time and peak memory of this process to the manifest, unless it has them."""
    manifest = read(folder)
    for name, value in {"seconds": round(seconds, 1), "peak_memory_bytes": peak_memory()}.items():
        if value is not None:
            manifest.about.setdefault(name, value)
    write(folder, manifest)


def peak_memory() -> int | None:
    """Peak memory of this process in bytes; None on Windows."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def read(folder: str | Path) -> Manifest:
    path = Path(folder) / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        newer = found["format"] > FORMAT
        manifest = Manifest(**{name: found[name] for name in ("name", "settings", "source", "about")})
    except FileNotFoundError:
        raise BanyanError(f"{folder} is not a baseline: it has no {MANIFEST}; `banyan baseline` writes one") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BanyanError(f"cannot read {path}: {error}") from None
    if newer:
        raise BanyanError(f"{path} was written by a newer version (format {found['format']}): upgrade banyan-embed")
    return manifest
