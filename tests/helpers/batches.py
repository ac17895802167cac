"""Random batches and functions, and what two ways to compute on them must agree in."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from banyan.config import SETTINGS
from banyan.model.functions import Functions
from banyan.model.graph import Graph
from banyan.model.shapes import GATES

seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(SETTINGS["functions"].choices)
structures = st.sampled_from(SETTINGS["structure"].choices)


def random_functions(rng: np.random.Generator, U: int) -> Functions:
    return Functions(*(rng.uniform(-1, 1, U) for _ in Functions._fields))


def functions_of(kind: str, rng: np.random.Generator, U: int) -> Functions:
    if kind == "diagonal":
        return random_functions(rng, U)
    return Functions(*(rng.uniform(-1, 1, (U, U) if n in GATES else U) * U**-0.5 for n in Functions._fields))


def random_batch(rng: np.random.Generator, sentences: int, vocab: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    lengths = rng.integers(1, longest + 1, sentences)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return rng.integers(0, vocab, offsets[-1]).astype(np.int32), offsets


def assert_holds(batch, tokens: np.ndarray, offsets: np.ndarray, plain: bool) -> None:
    """A batch that was drawn on the device is that ragged one."""
    T, L = batch.sizes[:2].tolist()
    np.testing.assert_array_equal(batch.tokens[:T].cpu(), tokens)
    np.testing.assert_array_equal(batch.offsets.cpu(), offsets)
    np.testing.assert_array_equal(batch.token[batch.leaf[:T].long()].cpu(), tokens)
    np.testing.assert_array_equal(batch.token[:L].cpu(), tokens if plain else np.unique(tokens))


def graph_edges(graph: Graph) -> set[tuple]:
    spans: list[tuple] = [(int(token),) for token in graph.token]
    for left, right in graph.children:
        spans.append((spans[left], spans[right]))
    return set(spans[graph.n_leaves :])


def repeats_a_pair(graph: Graph) -> bool:
    """Some sentence holds one node twice."""
    leaves_below = [1] * graph.n_leaves
    nodes_below = [{i} for i in range(graph.n_leaves)]
    for node, (left, right) in enumerate(graph.children, start=graph.n_leaves):
        leaves_below.append(leaves_below[left] + leaves_below[right])
        nodes_below.append(nodes_below[left] | nodes_below[right] | {node})
    return any(len(nodes_below[root]) < 2 * leaves_below[root] - 1 for root in graph.root)


def canonical(graph: Graph) -> dict[str, list]:
    """What a graph says, however its nodes are numbered."""
    names = [f"{t}" for t in graph.token]
    for left, right in graph.children:
        names.append(f"({names[left]} {names[right]})")
    inner = np.arange(graph.n_leaves, graph.n_nodes)
    return {
        "nodes": sorted(names),
        "keys": sorted(zip(names, graph.key.tolist(), strict=True)),
        "roots": [names[r] for r in graph.root],
        "node_of": [names[n] for n in graph.node_of],
        "levels": graph.levels.tolist(),
        "messages": sorted(zip(names, graph.messages.tolist(), strict=True)),
        "receivers": sorted(map(tuple, graph.key[np.column_stack([inner, graph.receivers])].tolist())),
    }
