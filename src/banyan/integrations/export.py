"""Exports for programs that do not use Banyan.

static: a table of token vectors whose mean is the embedding, in the format of model2vec and of sentence-transformers'
StaticEmbedding. It builds no trees, so it is a different model: docs/integrations.md has the loss in quality.
onnx: the whole model, trees included, as a graph from tokens to embeddings. It differs only by rounding.
"""

from __future__ import annotations

import json
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from banyan._version import __version__
from banyan.encoder import SETTINGS, TAUGHT_BY, TOKENIZER, WEIGHTS, write_teacher
from banyan.errors import BanyanError
from banyan.model.functions import per_channel, sigmoid
from banyan.model.graph import KEPT
from banyan.support import checksums, files
from banyan.support.needs import needs
from banyan.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from banyan.encoder import Banyan
    from banyan.model.leaves import LeafChoice

GRAPH = "model.onnx"
_MODEL2VEC = "model2vec"
_STATIC = "sentence_transformers.sentence_transformer.modules.StaticEmbedding"


def token_table(model: Banyan) -> np.ndarray:
    """Token vectors [V, E] whose mean is the static embedding: the leaves and, next to them, the lexical sketches. If
    there are several parts, they are scaled so that on average they weigh as much as in the model."""
    rows, parts = model.embedding, model.config.parts
    if model.leaf_choice.marks is not None:
        rows = np.where(model.leaf_choice.marks[:, None], np.float32(0), rows)
    if len(parts) == 1:
        return rows
    if model.config.lexical_dim:
        rows = np.hstack([rows, model.token_sketches().astype(np.float32)])
    norms = [np.linalg.norm(rows[:, start:end], axis=1).mean() for start, end, _ in parts]
    factors = [norm * norms[0] / (parts[0][2] * own) for (_, _, norm), own in zip(parts, norms, strict=True)]
    return rows * np.repeat(np.array(factors, np.float32), [end - start for start, end, _ in parts])


def _new(folder: str | Path) -> Path:
    folder = Path(folder)
    files.remove_orphans(folder)
    if (folder / SETTINGS).exists():
        raise BanyanError(f"{folder} already holds a model: export to another folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# --- A bag of tokens -------------------------------------------------------------------------------------------------


def static(model: Banyan, folder: str | Path, lexical: bool = True) -> None:
    """Write a folder for `model2vec.StaticModel.from_pretrained` and `SentenceTransformer`.

    lexical: False leaves the lexical dimensions out.
    """
    from safetensors.numpy import save_file

    folder = _new(folder)
    settings = {"model_type": _MODEL2VEC, "normalize": False, "max_length": None, "banyan_version": __version__}
    modules = [{"idx": 0, "name": "0", "path": ".", "type": _STATIC}]
    with files.reported(folder / WEIGHTS), files.atomic(folder / WEIGHTS) as temporary:
        width = model.dim if lexical else model.config.dim
        save_file({"embeddings": np.ascontiguousarray(token_table(model)[:, :width])}, temporary)
    model.tokenizer.save(folder / TOKENIZER)
    write_teacher(folder, model.taught_by)
    files.write_text(folder / "modules.json", json.dumps(modules, indent=2) + "\n")
    text = json.dumps(settings, indent=2) + "\n"
    checksums.write(folder, (WEIGHTS, TOKENIZER, TAUGHT_BY, "modules.json"), {SETTINGS: text})
    files.write_text(folder / SETTINGS, text)  # last: with it, the folder is a model, and is not written again


def is_static(folder: Path) -> bool:
    """Whether a folder holds what `static` writes, or model2vec itself."""
    try:
        settings = files.read_json(folder / SETTINGS)
    except (BanyanError, OSError):
        return False
    return isinstance(settings, dict) and settings.get("model_type") == _MODEL2VEC


def check_static(folder: Path) -> None:
    """Raise an error unless there is a vector for every token."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        shape = load_file(folder / WEIGHTS)["embeddings"].shape
    except (OSError, SafetensorError, KeyError) as error:
        raise BanyanError(f"cannot read {folder / WEIGHTS}: {error}") from None
    tokens = len(Tokenizer.from_file(folder / TOKENIZER).pieces)
    if len(shape) != 2 or shape[0] != tokens:
        raise BanyanError(f"{folder / WEIGHTS} has vectors of shape {shape}, and {TOKENIZER} has {tokens:,} tokens")


# --- The trees themselves --------------------------------------------------------------------------------------------

# For each text, a loop merges the closest neighbours among the leaves (reference.greedy) until one node is left. A text
# without tokens has no node, and the sum of no rows is zero.
_GRAPH = Template("""
<ir_version: 9, opset_import: ["" : 18], producer_name: "banyan-embed", producer_version: "$version">
banyan (int64[T] tokens, int64[n_and_1] offsets) => (float[n, $width] embeddings) {
    bounds = Size(offsets)
    texts = Sub(bounds, step)
    embeddings = Loop (texts, true) <body = text (int64 i, bool more) => (bool go_on, float[$width] embedding) {
        go_on = Identity(more)
        here = Reshape(i, one)
        next = Add(here, one)
        start = Gather(offsets, here)
        end = Gather(offsets, next)
        own = Slice(tokens, start, end)
        $kept
        frontier = Gather(leaves, kept)
        size = Size(kept)
        merges = Sub(size, step)
        root_row$no_pairs = Loop (merges, true, frontier$pairs) <
            body = merge (int64 k, bool on, float[m, E] rows$inside) => (bool still, float[l, E] merged$inside_left) {
            still = Identity(on)
            left = Slice(rows, zero, last, zero)
            right = Slice(rows, one, all, zero)
            products = Mul(left, right)
            dots = ReduceSum <keepdims = 0> (products, one)
            squares = Mul(rows, rows)
            lengths = ReduceSum <keepdims = 0> (squares, one)
            norms = Sqrt(lengths)
            of_left = Slice(norms, zero, last, zero)
            of_right = Slice(norms, one, all, zero)
            both = Mul(of_left, of_right)
            null = Equal(both, zero_)
            divisor = Where(null, one_, both)
            cosines = Div(dots, divisor)
            clamped = Min(cosines, one_)
            difference = Sub(left, right)
            distance = Abs(difference)
            furthest = ReduceMax <keepdims = 0> (distance, one)
            same = Equal(furthest, zero_)
            scores = Where(same, one_, clamped)
            $worth
            best = ArgMax <axis = 0> (worth)
            second = Add(best, one)
            rest = Add(best, two)
            before = Slice(rows, zero, best, zero)
            a = Slice(rows, best, second, zero)
            b = Slice(rows, second, rest, zero)
            after = Slice(rows, rest, all, zero)
            $through
            sum = Add(of_a, of_b)
            parent = Add(sum, bias)
            merged = Concat <axis = 0> (before, parent, after)
            $left
        }>
        root = ReduceSum <keepdims = 0> (root_row, zero)
        $embedding
    }>
}
""")
_DIAGONAL = "of_a = Mul(a, gate_l) of_b = Mul(b, gate_r)"
_LINEAR = " ".join(
    f"c_{x} = Reshape({x}, channels) m_{x} = MatMul(c_{x}, gate_{side}) of_{x} = Reshape(m_{x}, whole)"
    for x, side in (("a", "l"), ("b", "r"))
)
_ALL = "counts = Identity(own)"
_WITH_MARKS = "kept = Identity(counts)"
_FEW = """
        column = Unsqueeze(own, one)
        equal = Equal(column, own)
        ones = Cast <to = 7> (equal)
        so_far = Trilu <upper = 0> (ones)
        times = ReduceSum <keepdims = 0> (so_far, one)
        of_each = Unsqueeze(times, one)
        hits = Equal(of_each, counted)
        hit = Cast <to = 7> (hits)
        some_hit = ReduceSum <keepdims = 0> (hit, one)
        keeps = Cast <to = 9> (some_hit)
        counts = Compress <axis = 0> (own, keeps)
"""
# A text of nothing but end marks keeps them.
_WITHOUT_MARKS = """
        mark = Gather(marks, counts)
        word = Sub(step, mark)
        words = ReduceSum <keepdims = 1> (word, zero)
        no_words = Equal(words, zero)
        is_word = Equal(word, one)
        stays = Or(is_word, no_words)
        kept = Compress <axis = 0> (counts, stays)
"""
# Which neighbours among the leaves are in one word (model.whole_words.joined_tokens, model.leaves).
_IN_WORDS = """
        tokens_of_text = Size(own)
        places = Range(nought, tokens_of_text, step)
        begin_of = Gather(begins, own)
        at_start = Equal(places, nought)
        starts = Cast <to = 7> (at_start)
        begun = Max(begin_of, starts)
        word_of = CumSum(begun, nought)
        letters = Gather(solids, own)
        blank_of = Gather(blanks, own)
        later_letters = Slice(letters, one, all, zero)
        next_letters = Concat <axis = 0> (later_letters, zero)
        later_begun = Slice(begun, one, all, zero)
        next_begun = Concat <axis = 0> (later_begun, one)
        goes_on_here = Sub(step, next_begun)
        blank_before = Mul(blank_of, next_letters)
        leads = Mul(blank_before, goes_on_here)
        solid = Max(letters, leads)
        word_column = Unsqueeze(word_of, one)
        in_one_word = Equal(word_column, word_of)
        as_numbers = Cast <to = 7> (in_one_word)
        solid_in_word = Mul(as_numbers, solid)
        up_to_here = Trilu <upper = 0> (solid_in_word)
        from_here = Trilu <upper = 1> (solid_in_word)
        number_so_far = ReduceSum <keepdims = 0> (up_to_here, one)
        number_before = Sub(number_so_far, solid)
        number_from_here = ReduceSum <keepdims = 0> (from_here, one)
        some_before = Min(number_before, step)
        some_from_here = Min(number_from_here, step)
        joined = Mul(some_before, some_from_here)
        run = CumSum(joined, nought)
"""
_PAIRS = """
        left_place = Slice(kept_places, zero, last, zero)
        right_place = Slice(kept_places, one, all, zero)
        left_run = Gather(run, left_place)
        right_run = Gather(run, right_place)
        distance_apart = Sub(right_place, left_place)
        joined_between = Sub(right_run, left_run)
        pairs = Equal(distance_apart, joined_between)
"""
_WORTH = """
            numbers = Cast <to = 7> (inside)
            most = ReduceMax <keepdims = 1> (numbers, zero)
            none_inside = Equal(most, zero)
            may_merge = Or(inside, none_inside)
            worth = Where(may_merge, scores, never)
"""
_LEFT = """
            inside_before = Slice(inside, zero, best, zero)
            inside_after = Slice(inside, second, all, zero)
            inside_left = Concat <axis = 0> (inside_before, inside_after)
"""
_SKETCH = "sketches = Gather(beside, kept) sums = ReduceSum <keepdims = 0> (sketches, zero)"
_PART = Template("""
        part_$i = Slice($row, first_$i, end_$i)
        squares_$i = Mul(part_$i, part_$i)
        square_$i = ReduceSum <keepdims = 0> (squares_$i, zero)
        length_$i = Sqrt(square_$i)
        null_$i = Equal(length_$i, zero_)
        divisor_$i = Where(null_$i, one_, length_$i)
        unit_$i = Div(part_$i, divisor_$i)
        scaled_$i = Mul(unit_$i, norm_$i)
""")


def onnx(model: Banyan, folder: str | Path, lexical: bool = True) -> None:
    """Write model.onnx and tokenizer.json. The graph takes the concatenated tokens of n texts, int64 [T], and the
    offsets of the texts in them, int64 [n + 1]. It returns embeddings, float32 [n, E].

    lexical: False leaves the lexical dimensions out, as encode(texts, truncate_dim=model.config.dim) does. ONNX cannot
    compute those of lexical_ngrams="words".
    """
    with needs("Exporting to ONNX", "onnx"):
        import onnx as library
    config = model.config
    if config.structure != "induced":
        raise BanyanError(f"only models with induced trees can be exported to ONNX, not {config.structure} ones")
    if lexical and config.hashes_words:
        raise BanyanError(
            "ONNX cannot hash the n-grams of words: export without the lexical dimensions (--no-lexical), "
            "or train with --lexical-ngrams pieces"
        )
    parts = _parts(model, lexical)
    folder = _new(folder)
    graph = library.parser.parse_model(
        _GRAPH.substitute(
            version=__version__,
            width=parts[-1].end,
            kept=_chosen(model.leaf_choice),
            **_words_first(config.whole_words),
            through=_LINEAR if config.functions == "linear" else _DIAGONAL,
            embedding=_scaled(parts) if len(config.parts) > 1 else "embedding = Identity(root)",
        )
    )
    graph.graph.initializer.extend(_constants(model, parts))
    if model.taught_by:
        graph.metadata_props.add(key="taught_by", value=json.dumps(model.taught_by, ensure_ascii=False))
    library.checker.check_model(graph)
    with files.atomic(folder / GRAPH) as temporary:
        temporary.write_bytes(graph.SerializeToString())
    model.tokenizer.save(folder / TOKENIZER)


def _chosen(choice: LeafChoice) -> str:
    """The part of the graph that chooses leaves."""
    steps = [_FEW if choice.sublinear_tf else _ALL, _WITH_MARKS if choice.marks is None else _WITHOUT_MARKS]
    if choice.words:
        some = "Compress <axis = 0> (places, keeps)" if choice.sublinear_tf else "Identity(places)"
        kept = "Identity(some_places)" if choice.marks is None else "Compress <axis = 0> (some_places, stays)"
        steps += [_IN_WORDS, f"some_places = {some} kept_places = {kept}", _PAIRS]
    return "\n".join(steps)


def _words_first(wanted: bool) -> dict[str, str]:
    """The parts of the loop over merges that let pairs within words merge first."""
    if not wanted:
        nothing = dict.fromkeys(("pairs", "no_pairs", "inside", "inside_left", "left"), "")
        return {**nothing, "worth": "worth = Identity(scores)"}
    return {
        "pairs": ", pairs",
        "no_pairs": ", no_pairs",
        "inside": ", bool[p] inside",
        "inside_left": ", bool[q] inside_left",
        "worth": _WORTH,
        "left": _LEFT,
    }


class _Part(NamedTuple):
    """A part of an embedding that is scaled by itself: which dimensions, and their norm."""

    first: int
    end: int
    norm: float
    lexical: bool


def _parts(model: Banyan, lexical: bool) -> list[_Part]:
    parts = [_Part(*part, part[0] == model.config.dim) for part in model.config.parts]
    return [part for part in parts if lexical or not part.lexical]


def _scaled(parts: list[_Part]) -> str:
    """The part of the graph that scales each part of an embedding to its norm."""
    steps = [_SKETCH] if parts[-1].lexical else []
    steps += [_PART.substitute(i=i, row="sums" if part.lexical else "root") for i, part in enumerate(parts)]
    names = ", ".join(f"scaled_{i}" for i in range(len(parts)))
    return "\n".join([*steps, f"embedding = Concat <axis = 0> ({names})"])


def _constants(model: Banyan, parts: list[_Part]) -> list[Any]:
    from onnx import numpy_helper

    f, E, U = model.functions, model.config.dim, model.config.width
    gates = f[:2] if model.config.functions == "linear" else [per_channel(sigmoid(gate), E) for gate in f[:2]]
    floats: dict[str, Any] = {
        "leaves": model.embedding,
        "beside": model.weights["lexical"] if parts[-1].lexical else [],
        "gate_l": gates[0],
        "gate_r": gates[1],
        "bias": per_channel(f.comp_b, E),
        "zero_": 0,
        "one_": 1,
    }
    whole: dict[str, Any] = {"counted": KEPT} if model.config.sublinear_tf else {}
    if model.leaf_choice.marks is not None:
        whole["marks"] = model.leaf_choice.marks
    if words := model.leaf_choice.words:
        whole |= {"begins": words.begins, "solids": words.solid, "blanks": words.blank, "nought": 0}
        floats["never"] = -np.inf
    whole |= {"zero": [0], "one": [1], "two": [2], "last": [-1], "all": [np.iinfo(np.int64).max], "step": 1}
    for i, part in enumerate(parts):
        start = part.first if part.lexical else 0  # where the row begins that it is a slice of
        floats[f"norm_{i}"] = part.norm
        whole |= {f"first_{i}": [part.first - start], f"end_{i}": [part.end - start]}
    shapes = {"channels": [E // U, U], "whole": [1, E]} if model.config.functions == "linear" else {}
    arrays = {name: np.ascontiguousarray(value, np.float32) for name, value in floats.items() if np.size(value)}
    arrays |= {name: np.array(value, np.int64) for name, value in {**whole, **shapes}.items()}
    return [numpy_helper.from_array(value, name) for name, value in {**arrays, "true": np.array(True)}.items()]
