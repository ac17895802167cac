"""Builds the native kernels, if there is a C compiler. Everything else about the package is in pyproject.toml."""

from setuptools import Extension, setup

FLAGS = ["-std=gnu11", "-O3", "-ffp-contract=off", "-fwrapv", "-fvisibility=hidden", "-Wall", "-Wextra"]
FILES = ("module", "objects", "pieces", "trees", "vectors", "words")
HEADERS = ("native", "objects", "vectors")

setup(
    ext_modules=[
        Extension(
            "banyan.native._kernels",
            [f"src/banyan/native/{name}.c" for name in FILES],
            depends=[f"src/banyan/native/{name}.h" for name in HEADERS],
            extra_compile_args=FLAGS,
            optional=True,  # without a compiler, Banyan compiles its kernels with Numba when it first needs them
        )
    ]
)
