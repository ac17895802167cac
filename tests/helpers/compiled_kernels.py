"""Compile every GPU kernel, as a training step and an encoder would call it, for cards that are not here.

    python tests/helpers/compiled_kernels.py 80 90
    python tests/helpers/compiled_kernels.py --one-variant 80    # of each kernel, the first that is called

Triton's interpreter runs the kernels as Python; this is what finds the mistakes that only its compiler sees. Nothing is
launched: results are whatever memory holds, and are not looked at.
"""

from __future__ import annotations

from argparse import ArgumentParser

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from banyan.backends._triton import loss, passes, trees
from banyan.backends._triton.batch import Batch, Noise
from banyan.backends._triton.functions import g_functions
from banyan.config import SETTINGS, Config
from banyan.model import BanyanModel
from banyan.model.dropout import Dropout
from banyan.model.functions import Functions
from banyan.training import gpu_steps as steps

POINTERS = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.int32: "*i32", torch.int64: "*i64"}
CPU = torch.device("cpu")


class Compiler:
    """Takes the place of a launch."""

    def __init__(self, capability: int, one_variant: bool) -> None:
        self.target = GPUTarget("cuda", capability, 32)
        self.one_variant = one_variant
        self.compiled: set[tuple] = set()

    def __call__(self, kernel: JITFunction, args: tuple, kwargs: dict) -> None:
        names = [parameter.name for parameter in kernel.params]
        given = dict(zip(names, args, strict=False)) | {name: v for name, v in kwargs.items() if name in names}
        options = {name: value for name, value in kwargs.items() if name not in names}
        signature, constants = {}, {}
        for place, parameter in enumerate(kernel.params):
            value = given[parameter.name]
            if parameter.is_constexpr:
                signature[parameter.name], constants[(place,)] = "constexpr", value
            elif isinstance(value, torch.Tensor):
                signature[parameter.name] = POINTERS[value.dtype]
            else:
                signature[parameter.name] = "fp32" if isinstance(value, float) else "i32"
        variant = (kernel.fn.__name__,)
        if not self.one_variant:
            variant += (*signature.items(), *constants.items())
        if variant not in self.compiled:
            compiled = triton.compile(ASTSource(kernel, signature, constants), target=self.target, options=options)
            self.compiled.add(variant)
            if kernel in (trees._frontier_kernel, trees._induce_kernel):
                assert "fma." not in compiled.asm["ptx"], "threads disagree about a cosine (trees.FUSED)"


def use_all() -> None:
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(4, 90, 64))])
    tokens = rng.integers(0, 900, offsets[-1])
    for settings, longest, rate in (
        ({}, 128, 0.1),
        ({"dim": 8, "channels": 4}, 128, 0.1),
        ({"trees": "plain", "halves": "age"}, 128, 0.1),
        ({"structure": "random"}, 900, 0.0),
        ({"trees": "plain", "halves": "random", "functions": "linear", "channels": 16}, 128, 0.0),
        ({"trees": "plain", "functions": "linear", "channels": 16, "structure": "right-branching"}, 128, 0.1),
        ({"functions": "linear", "channels": 16}, 900, 0.1),
        ({"functions": "linear", "channels": 2, "dim": 8, "structure": "balanced"}, 900, 0.1),
    ):
        config = Config(**settings)
        model, plain = BanyanModel(config, 900, "triton"), config.trees == "plain"
        batch = Batch.of(tokens, offsets, CPU, plain)._replace(longest=longest)
        noise = Noise.of(Dropout(rate, 0, 1), CPU)
        graph = steps.graph_of_batch(model, batch, noise, salt=1)
        up = passes.up_pass(graph)
        down, rebuilt = passes.down_pass(graph, up)
        for more in (None, torch.empty_like(up)):
            g_leaves, g_gates = passes.backward(graph, up, down, more, more, rebuilt)
        passes.returned(graph, g_leaves, 900)
        g_functions(g_gates, model.functions)
    matrix, vector = np.zeros((16, 16)), np.zeros(16)
    linear = Functions(matrix, matrix, vector, matrix, matrix, vector, vector)
    for structure in SETTINGS["structure"].choices:
        for functions in (Functions(*[np.zeros(2)] * 7), linear):
            encoder = trees.Encoder(np.zeros((9, 256), np.float32), functions, CPU, structure)
            tokens, offsets = torch.zeros(9, dtype=torch.int32), torch.tensor([0, 4, 9], dtype=torch.int32)
            for joined in (None, tokens) if structure == "induced" else (None,):
                encoder.on_device(tokens, offsets, 5, joined)
    loss.product = lambda a, b, out=None: torch.empty(a.shape[0], b.shape[1])  # the library's, and not on the CPU
    x, target, count = torch.zeros(30, 256), torch.arange(30, dtype=torch.int32), torch.tensor([29], dtype=torch.int32)
    for precision in ("bf16", "float32"):
        for limited in (False, True):
            weight = torch.zeros(30 if limited else 900, 256)
            for share in (None, torch.zeros(30)):
                distinct = share is None
                loss.cross_entropy(x, weight, weight[:, 0].clone(), target, precision, count, distinct, limited, share)
    loss.exponentials(x, x, None, None)
    at = torch.zeros(1, dtype=torch.int32)
    steps._next_kernel[(1,)](target, target, at, 8, BLOCK=1024)
    void = torch.zeros(())
    steps._record_kernel[(1,)](void, torch.zeros(2), target, torch.zeros(2, 5), at, void, TERMS=2)


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("capability", type=int, nargs="+")
    parser.add_argument("--one-variant", action="store_true")
    options = parser.parse_args()
    for capability in options.capability:
        compiler = Compiler(capability, options.one_variant)
        JITFunction.run = lambda kernel, *args, grid, warmup, c=compiler, **kwargs: c(kernel, args, kwargs)
        use_all()
        names = {variant[0] for variant in compiler.compiled}
        print(f"{capability}: {len(compiler.compiled)} variants of {len(names)} kernels: {' '.join(sorted(names))}")


if __name__ == "__main__":
    main()
