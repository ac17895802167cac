"""What the command line says about scaling out. Imports nothing that takes long."""

from __future__ import annotations

import argparse
from typing import Any

from banyan.errors import BanyanError


def engine_argument(parser: argparse.ArgumentParser) -> None:
    told = "ray: INPUT and OUT are folders of Parquet files, or URLs of such; the Ray cluster at RAY_ADDRESS does the "
    told += "work, or this machine if none is named: docs/scaling.md (default: local)"
    parser.add_argument("--engine", choices=["local", "ray"], default="local", help=told)


def encode(options: argparse.Namespace, **given: Any) -> str:
    """`banyan encode --engine ray`; what became of the rows. given: what encode_folder takes beside the places."""
    if len(options.input) != 1:
        raise BanyanError(f"--engine ray takes one folder of Parquet files, not {len(options.input)} inputs")
    if options.device != "cpu":
        raise BanyanError(f"--engine ray encodes on CPUs, not on {options.device}: leave --device out")
    try:
        import ray  # noqa: F401  # before anything is planned

        from banyan.scale.folder import encode_folder
    except ModuleNotFoundError as error:
        raise BanyanError(f'--engine ray needs {error.name}: pip install "banyan-embed[scale]"') from None
    return str(encode_folder(options.model, options.input[0], options.out, **given))
