"""Banyan: a trained model, used without torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np

from banyan import fingerprints
from banyan.backends import choose_for_encoding, on_cpu
from banyan.compact import Form, Precision
from banyan.config import Config, earlier_settings
from banyan.errors import BanyanError
from banyan.folders import (
    SETTINGS,
    TAUGHT_BY,
    TOKENIZER,
    UNFINISHED,
    WEIGHTS,
    model_folder,
    teacher_of,
    unfinished_in_words,
    unfinished_of,
    verify,
    write_teacher,
)
from banyan.model.functions import Functions
from banyan.model.graph import (
    Forest,
    check_ragged,
    from_merges,
    tokens_under,
)
from banyan.model.leaves import LeafChoice
from banyan.model.weights import check_values, load_weights
from banyan.model.word_ngrams import WordNgrams, spelling
from banyan.support import threads
from banyan.support.log import log
from banyan.support.rows import normalize_rows, slices
from banyan.tokenizer.rules import without_surrogates
from banyan.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    import torch

    from banyan.backends._native import Flags
    from banyan.backends.interface import CpuEncoder, LexicalSums
    from banyan.explanation import Explanation
    from banyan.integrations.sklearn import BanyanClassifier
    from banyan.tree import Tree

_Texts = list[str] | tuple[str, ...]
_GPU_BATCH = 1 << 16  # texts sent to a GPU at a time, at least
_CPU_BATCH = 64  # texts that a thread encodes at a time, at least, if there are so many


class Banyan:
    """A trained model: encodes texts as vectors, parses them as trees, compares and explains them.

    >>> model = Banyan.from_pretrained("model/")
    >>> model.encode(["Homer ate doughnuts.", "Lisa plays the saxophone."]).shape
    (2, 1024)
    """

    def __init__(
        self, config: Config, tokenizer: Tokenizer, weights: dict[str, np.ndarray], device: str = "cpu"
    ) -> None:
        self.folder: Path | None = None  # where it was loaded from
        self.taught_by: dict[str, Any] | None = None  # its teacher, if it had one: the content of taught_by.json
        self.unfinished: dict[str, int] | None = None  # how far its training has come, if it goes on
        self.device = device
        self.config = config
        self.tokenizer = tokenizer
        self.weights = weights
        self.embedding = weights["embedding"]
        self.functions = Functions(*(weights[name].astype(np.float64) for name in Functions._fields))
        backend, place = choose_for_encoding(device, config.matrix_width)
        spelt = spelling(tokenizer.pieces) if config.hashes_words else None
        self.leaf_choice = LeafChoice.of(config, tokenizer.pieces, spelt)
        self._on_device, self._native = backend.on_device, backend.name == "native"
        self._encoder = backend.encoder(self.embedding, self.functions, config.structure, place)
        self._explained: tuple[str, list[str], np.ndarray] | None = None  # the last text a of `explain`
        self._lexical: LexicalSums | None = None
        self._words: WordNgrams | None = None  # if they are in the lexical dimensions
        if config.hashes_words and spelt:
            self._words = WordNgrams.of(config, spelt, weights["lexical_idf"])
            self._lexical = backend.word_sums(self._words, config.lexical_weight, place)
        elif config.lexical_dim:
            self._lexical = backend.lexical_sums(weights["lexical"], config.lexical_weight, place)

    @property  # type: ignore[misc]
    def __class__(self) -> type[Banyan]:
        """What isinstance() asks for. When BERTopic asks, a model becomes one of its models: it takes no others."""
        from banyan.integrations import class_of

        return class_of(self)

    @classmethod
    def from_pretrained(
        cls, path: str | Path, device: str = "cpu", *, revision: str | None = None, token: str | None = None
    ) -> Banyan:
        """Load a folder written by `banyan train` or `save_pretrained`. If there is no such folder, load the model of
        that name, "owner/model", from the Hugging Face Hub.

        device: "cuda" encodes on a GPU (needs torch); everything else stays on the CPU.
        revision, token: for the Hub."""
        folder = model_folder(path, revision, token)
        verify(folder)
        config = Config.from_file(folder / SETTINGS)
        tokenizer = Tokenizer.from_file(folder / TOKENIZER)
        weights = load_weights(folder / WEIGHTS, config, tokenizer.vocab_size)
        model = cls(config, tokenizer, weights, device)
        model.folder, model.taught_by, model.unfinished = folder, teacher_of(folder), unfinished_of(folder)
        if model.unfinished:
            log.warning("%s is %s", folder, unfinished_in_words(model.unfinished))
        return model

    def save_pretrained(self, path: str | Path) -> None:
        """Write a folder for `from_pretrained` and for sentence-transformers. Each file is written atomically.

        If the folder holds this model with other weights, such as those of an earlier epoch, it can be loaded all the
        time.

        If the folder holds a classifier, it is removed: it belongs to the model that was there."""
        from safetensors.numpy import save_file

        from banyan.classify.classifier import ABOUT, CONFUSION, HEAD
        from banyan.integrations import opening
        from banyan.support import checksums, files

        folder, mark = Path(path), self.unfinished
        check_values(self.weights, "the model cannot be saved")
        folder.mkdir(parents=True, exist_ok=True)
        # Without the settings, the folder is not a model. They come after what they belong to, and the sums last.
        for name in (checksums.SUMS, ABOUT, HEAD, CONFUSION, *([] if self._fits(folder) else [SETTINGS])):
            (folder / name).unlink(missing_ok=True)
        with files.reported(folder / WEIGHTS), files.atomic(folder / WEIGHTS) as temporary:
            save_file(self.weights, temporary, metadata={"banyan": json.dumps(self.config.head())})
        self.tokenizer.save(folder / TOKENIZER)
        write_teacher(folder, self.taught_by)
        for name, text in opening.contents().items():
            files.write_text(folder / name, text)
        files.write_text(folder / SETTINGS, self.config.to_json(**({UNFINISHED: mark} if mark else {})))
        checksums.write(folder, (WEIGHTS, TOKENIZER, TAUGHT_BY, SETTINGS, *opening.FILES))

    def _fits(self, folder: Path) -> bool:
        """Whether the folder holds a model with the same settings and tokenizer, so that only weights differ."""
        try:
            same = Config.from_file(folder / SETTINGS) == self.config
            return same and (folder / TOKENIZER).read_text(encoding="utf-8") == self.tokenizer.to_json()
        except (BanyanError, OSError, UnicodeError):
            return False

    def tune(self, examples: Any, out: str | Path, **how: Any) -> Banyan:
        """Tune the model on texts that belong together, write the tuned model to the folder `out`, and return it.

        examples, how: as in banyan.tune. The model must have been loaded from a folder or from the Hub."""
        from banyan.support.needs import needs

        with needs("Tuning", "train"):
            from banyan.tuning import tune
        return tune(self, examples, out, **how)

    def classifier(self, **settings: Any) -> BanyanClassifier:
        """Return a scikit-learn classifier of texts on top of the model; `fit` trains it.

        settings: pair, frozen, balanced, epochs, batch_size, lr, seed, as in
        banyan.integrations.sklearn.BanyanClassifier."""
        from banyan.integrations.sklearn import BanyanClassifier

        return BanyanClassifier(self, **settings)

    def push_to_hub(self, name: str, **how: Any) -> str:
        """Upload the model to the Hugging Face Hub as "owner/model", with a model card. Return the URL of the commit.

        how: private, language, license, token, message, as in banyan.integrations.hub.push."""
        from banyan.integrations import hub

        return hub.push(self, name, **how)

    def __reduce__(self) -> tuple[Any, ...]:
        """What a copy is made from. It chooses its own kernels, because it may be on another machine."""
        state = self.config, self.tokenizer, self.weights, self.device, self.folder, self.taught_by, self.unfinished
        return object.__new__, (type(self),), state

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state[:4])  # type: ignore[misc]
        self.folder, self.taught_by, self.unfinished = state[4:]

    @property
    def dim(self) -> int:
        """The size of an embedding: the learnt dimensions and any lexical ones."""
        return self.config.embedding_dim

    def fingerprint(self) -> str:
        """Return 64 hexadecimal digits that change whenever a weight, the tokenizer or a setting changes embeddings."""
        return fingerprints.of(fingerprints.deciding(self.config), self.tokenizer, self.weights)

    def fingerprints(self) -> list[str]:
        """Return the fingerprint and, for a folder of an earlier version, the one that version computed."""
        earlier = earlier_settings(self.folder and self.folder / SETTINGS)
        return [self.fingerprint(), *(fingerprints.of(one, self.tokenizer, self.weights) for one in earlier)]

    def quick_fingerprint(self) -> str:
        """Return digits that change as those of the fingerprint do, in a third of the time. They rest on a CRC-32 of
        each array, so they are no protection against forgery."""
        return fingerprints.of(fingerprints.deciding(self.config), self.tokenizer, self.weights, fingerprints.crc)

    def __repr__(self) -> str:
        return f"Banyan(dim={self.dim}, vocabulary={len(self.embedding)}, preset={self.config.preset!r})"

    # --- Vectors -----------------------------------------------------------------------------------------------------

    @overload
    def encode(
        self,
        texts: str | Iterable[str],
        normalize: bool = ...,
        batch_size: int = ...,
        show_progress_bar: bool | None = ...,
        truncate_dim: int | None = ...,
        precision: Precision = ...,
        *,
        normalize_embeddings: bool | None = ...,
        convert_to_tensor: Literal[False] = ...,
    ) -> np.ndarray: ...
    @overload
    def encode(
        self,
        texts: str | Iterable[str],
        normalize: bool = ...,
        batch_size: int = ...,
        show_progress_bar: bool | None = ...,
        truncate_dim: int | None = ...,
        precision: Precision = ...,
        *,
        normalize_embeddings: bool | None = ...,
        convert_to_tensor: Literal[True],
    ) -> torch.Tensor: ...
    def encode(
        self,
        texts: str | Iterable[str],
        normalize: bool = False,
        batch_size: int = 1024,
        show_progress_bar: bool | None = None,
        truncate_dim: int | None = None,
        precision: Precision = "float32",
        *,
        normalize_embeddings: bool | None = None,
        convert_to_tensor: bool = False,
    ) -> np.ndarray | torch.Tensor:
        """Return embeddings, float32 [n, E], or one vector [E] for a single string.

        A text without tokens (empty, or only white space) gets the zero vector. A text gets the same bits alone, in any
        batch, and with any number of threads.

        normalize: scale vectors to length 1.
        truncate_dim: keep only the first dimensions (before normalising).
        precision: "int8" scales each vector separately, for cosines; "binary" keeps the sign of each dimension, eight
        to a byte, uint8 [n, ceil(E / 8)], for Hamming distances. See banyan.compact.
        normalize_embeddings: another name of normalize, that of sentence-transformers.
        convert_to_tensor: return a torch.Tensor, on the device of the model."""
        if normalize_embeddings is not None:
            if normalize and not normalize_embeddings:
                differ = f"normalize={normalize} and normalize_embeddings={normalize_embeddings} differ"
                raise BanyanError(f"{differ}: the second is another name of the first, so leave one out")
            normalize = normalize_embeddings
        several = [texts] if isinstance(texts, str) else texts
        found = self._encoded(several, normalize, batch_size, show_progress_bar, truncate_dim, precision)
        found = found[0] if isinstance(texts, str) else found
        if not convert_to_tensor:
            return found
        from banyan.support.needs import needs

        with needs("convert_to_tensor=True", "train"):
            import torch
        return torch.from_numpy(found).to(self.device)

    def _encoded(
        self,
        texts: Iterable[str],
        normalize: bool,
        batch_size: int,
        show_progress_bar: bool | None,
        truncate_dim: int | None,
        precision: Precision,
    ) -> np.ndarray:
        form = Form.of(self.dim, truncate_dim, precision, normalize)
        texts = _all_strings(texts)
        out = np.empty((len(texts), form.width), form.dtype)
        if batch_size < 1:
            raise BanyanError(f"batch_size must be at least 1, not {batch_size}")
        if self._on_device:  # large blocks, one after another
            block, together, each = max(batch_size, _GPU_BATCH), 1, None
        else:  # blocks side by side, each on one thread
            cores = threads.available()
            share = -(-len(texts) // (4 * cores)) if cores > 1 else batch_size
            block, together, each = min(batch_size, max(share, _CPU_BATCH)), 64, 1
        jobs = [(texts[rows], out[rows], normalize, form, each) for rows in slices(len(texts), block)]
        groups: Iterable[list] = [jobs]
        if _wants_bar(show_progress_bar, len(texts)):
            from banyan.support.display import progress

            groups = progress([jobs[some] for some in slices(len(jobs), together)], "encoding")
        for group in groups:
            threads.run(self._encode_block, group)
        return out

    def _encode_block(
        self, texts: Sequence[str], out: np.ndarray, normalize: bool, form: Form, n_threads: int | None
    ) -> None:
        whole = form == Form(self.dim)
        vectors = out if whole else np.empty((len(texts), self.dim), np.float32)
        if not self._embed(texts, vectors):
            vectors.fill(0)  # what follows writes only texts with tokens
            tokens, offsets = self.tokenizer.encode(texts, threads=n_threads)
            self._compose(tokens, offsets, vectors, n_threads)
        self._finish(vectors, texts)
        if not whole:
            out[:] = form.keep(vectors)
        if normalize:
            normalize_rows(out)

    def _embed(self, texts: Sequence[str], out: np.ndarray) -> bool:
        """Encode a block with the native kernels on one thread, without arrays of tokens. Return False if they cannot:
        for a tokenizer from elsewhere, or without them."""
        if not self._native or self.tokenizer.splits_natively is None:
            return False
        from banyan.backends._native import embed

        encoder, sums = cast(Any, self._encoder), cast(Any, self._lexical)
        left = embed(self.tokenizer.splits_natively, encoder, sums, self._flags, texts, out)
        if len(left):
            rows = np.zeros((len(left), self.dim), np.float32)
            self._compose(*self.tokenizer.encode([texts[i] for i in left], threads=1), rows, 1)
            out[left] = rows
        return True

    @cached_property
    def _flags(self) -> Flags:
        from banyan.backends._native import Flags

        return Flags.of(self.leaf_choice)

    def encode_tokens(self, tokens: np.ndarray, offsets: np.ndarray, normalize: bool = False) -> np.ndarray:
        """Return embeddings of tokenised texts, given as ragged tokens [T] and offsets [n+1]."""
        tokens = np.asarray(tokens)
        if tokens.size and not (tokens.min() >= 0 and tokens.max() < len(self.embedding)):
            raise BanyanError(f"tokens must be between 0 and {len(self.embedding) - 1}")
        tokens, offsets = check_ragged(tokens, offsets, empty=True)
        out = np.zeros((len(offsets) - 1, self.dim), np.float32)
        self._compose(tokens, offsets, out, None)
        self._finish(out)
        return normalize_rows(out) if normalize else out

    def _finish(self, out: np.ndarray, texts: Sequence[str] | None = None) -> None:
        if self.config.functions == "linear" and not np.isfinite(out).all():  # matrices can grow with every level
            row = int(np.flatnonzero(~np.isfinite(out).all(1))[0])
            text = f"{texts[row][:40]!r}..." if texts else f"text {row}"
            raise BanyanError(f"the embedding of {text} overflows: leave it out (the matrices of the model grow it)")
        if self.config.taught_dim:
            self._scale_parts(out)

    def _compose(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None) -> None:
        text = tokens, offsets
        tokens, offsets, joined = self.leaf_choice.leaves(tokens, offsets)
        some = np.diff(offsets) > 0
        if some.all():
            self._encoder.roots(tokens, offsets, out, n_threads, joined)
        elif some.any():
            roots = np.zeros((int(some.sum()), self.dim), np.float32)
            self._encoder.roots(tokens, np.append(offsets[:-1][some], len(tokens)), roots, n_threads, joined)
            out[some] = roots
        if self._lexical:
            self._lexical.put(*(text if self._words else (tokens, offsets)), out, n_threads)

    def lexical_parts(self, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return the lexical parts of tokenised texts, float32 [n, D], of norm 1; D is 0 for a model without them."""
        out = np.zeros((len(offsets) - 1, self.config.lexical_dim), np.float32)
        if not self._words:
            tokens, offsets, _ = self.leaf_choice.leaves(tokens, offsets)
        if self._lexical:
            self._lexical.put(tokens, offsets, out)
        return normalize_rows(out)

    def _scale_parts(self, rows: np.ndarray) -> None:
        """Scale each part of the rows to its norm, in place."""
        for first, end, norm in self.config.parts:
            rows[:, first:end] = normalize_rows(rows[:, first:end].copy()) * np.float32(norm)

    @overload
    def similarity(self, a: str, b: str) -> float: ...
    @overload
    def similarity(self, a: _Texts, b: str | _Texts | np.ndarray) -> np.ndarray: ...
    @overload
    def similarity(self, a: str | np.ndarray, b: _Texts) -> np.ndarray: ...
    @overload
    def similarity(self, a: Any, b: Any) -> Any: ...
    def similarity(self, a: Any, b: Any) -> Any:
        """Return cosines of texts or embeddings (float, int8): a number for a pair, a matrix [n, m] for two lists."""
        a, b = (x if _is_embedding(x) else self.encode(x) for x in (a, b))
        rows, columns = (normalize_rows(np.atleast_2d(x).astype(np.float32)) for x in (a, b))
        cosines = rows @ columns.T
        return float(cosines[0, 0]) if a.ndim == b.ndim == 1 else cosines

    # --- Trees -------------------------------------------------------------------------------------------------------

    def parse(self, text: str, whole_words: bool | None = None) -> Tree:
        """Return the tree that the model induces over a text, with the embedding of every phrase.

        A model with sublinear_tf keeps only some occurrences of a repeated token: the first, third, eighth, ... One
        without end_marks leaves out the marks that end a sentence. whole_words: whether the pieces of a word merge
        first (None: as when the model encodes)."""
        return self._tree(*self._read(text, self.leaf_choice.with_words(whole_words)))

    def _read(self, text: str, choice: LeafChoice) -> tuple[str, np.ndarray, np.ndarray, list[tuple[int, int]], Forest]:
        """Return a text, its tokens, which of them are leaves, the spans of these, and the tree over them."""
        _all_strings([text])
        text = without_surrogates(text)
        tokens, spans = self.tokenizer.encode_with_offsets(text)
        whole = np.array([0, len(tokens)])
        kept = np.flatnonzero(choice.kept(tokens, whole))
        leaves = choice.leaves(tokens, whole)
        return text, tokens, kept, choice.spans(tokens, spans, kept), self._induced(leaves.tokens, leaves.joined)

    def parse_brackets(self, brackets: str, labels: bool = True) -> list[Tree]:
        """Compose texts along given trees, such as `(S (NP the cat) (VP sat))`, instead of induced ones.

        The string may hold several trees. The pieces of a word merge from left to right, then words as bracketed. All
        occurrences of a repeated token are kept. Use labels=False for brackets without labels, `((the cat) sat)`."""
        from banyan.model.brackets import pieces_per_word, read_brackets

        trees = []
        for given in read_brackets(brackets, labels=labels):
            text = " ".join(given.words)
            tokens, spans = self.tokenizer.encode_with_offsets(text)
            merges = given.expand(pieces_per_word(given.words, spans))
            forest = from_merges(tokens, np.array([0, len(tokens)]), [merges])
            trees.append(self._tree(text, tokens, np.arange(len(tokens)), spans, forest))
        return trees

    @cached_property
    def _on_cpu(self) -> CpuEncoder:
        if not self._on_device:
            return cast("CpuEncoder", self._encoder)
        return cast("CpuEncoder", on_cpu().encoder(self.embedding, self.functions, self.config.structure, "cpu"))

    def _induced(self, tokens: np.ndarray, joined: np.ndarray | None) -> Forest:
        children = self._on_cpu.tree(tokens, joined) if len(tokens) else np.empty((0, 2), np.int32)
        return Forest(tokens, np.array([0, len(tokens)]), children)

    def _tree(
        self, text: str, tokens: np.ndarray, kept: np.ndarray, leaf_spans: list[tuple[int, int]], forest: Forest
    ) -> Tree:
        """kept: which tokens are leaves."""
        from banyan.tree import Tree

        embeddings = np.zeros((len(kept) + len(forest.children), self.dim), np.float32)
        learnt = embeddings[:, : self.config.dim]
        if len(kept):
            learnt[:] = self._on_cpu.phrases(forest.tokens, forest.children)
        children = forest.children
        spans = np.array(leaf_spans, np.int64).reshape(-1, 2).tolist()
        for left, right in children:
            spans.append([spans[left][0], spans[right][1]])
        unit = normalize_rows(learnt.copy())
        similarity = np.minimum((unit[children[:, 0]] * unit[children[:, 1]]).sum(1), 1)
        if self._lexical:
            if not self._words:
                tokens, kept = tokens[kept], np.arange(len(kept))
            self._lexical.put(*tokens_under(tokens, kept, children), embeddings)
        if self.config.taught_dim:
            self._scale_parts(embeddings)
        pieces = [self.tokenizer.pieces[token] for token in forest.tokens]
        return Tree(text, pieces, np.array(spans, np.int64).reshape(-1, 2), children, similarity, embeddings)

    def explain(self, a: str, b: str) -> Explanation:
        """Split the cosine of two texts into contributions of pairs of tokens.

        Composition is affine, so for fixed trees and norms the cosine is exactly the sum of a matrix of tokens of `a`
        by tokens of `b`, with one more row and column for the bias."""
        from banyan.explanation import Explanation

        known = self._explained  # a search explains one query with every result
        if known is None or known[0] != a:
            known = self._explained = (a, *self._contributions(a))
        (_, names_a, parts_a), (names_b, parts_b) = known, self._contributions(b)
        norms = np.linalg.norm(parts_a.sum(0)) * np.linalg.norm(parts_b.sum(0))
        matrix = parts_a @ parts_b.T / norms if norms > 0 else np.zeros((len(parts_a), len(parts_b)))
        return Explanation(list(names_a), names_b, matrix, float(matrix.sum()))

    def _contributions(self, text: str) -> tuple[list[str], np.ndarray]:
        """Return the contributions of each leaf and of the bias to the root: names and float64 vectors [n+1, E]."""
        from banyan.contributions import contributions

        return contributions(self, *self._read(text, self.leaf_choice))

    def token_sketches(self) -> np.ndarray:
        """Return the lexical sketch of every token by itself [V, D]."""
        if self._words is None:
            return self.weights["lexical"]
        return self._words.contributions(np.arange(len(self.embedding)), np.arange(len(self.embedding) + 1))


def _is_embedding(x: Any) -> bool:
    if isinstance(x, np.ndarray) and x.dtype == np.uint8:
        raise BanyanError("packed bits have no cosine: convert them with banyan.compact.expanded(bits, dimensions)")
    return isinstance(x, np.ndarray) and (x.dtype.kind == "f" or x.dtype == np.int8)


def _all_strings(texts: Iterable[Any]) -> list[str]:
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts[{index}] is {type(text).__name__}, not str")
    return texts


def _wants_bar(show: bool | None, n: int) -> bool:
    import sys

    return show if show is not None else n > 100_000 and sys.stderr.isatty()
