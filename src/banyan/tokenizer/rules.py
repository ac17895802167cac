"""How our own tokenizers normalise text, split it into chunks, and decode it again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

START = "▁"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WHITE = r"\s"
MARKS = r"\p{M}\x{200C}\x{200D}"  # the joiners in Indic and Persian words and in emoji stay with what they join
CUT = rf"{START}?(?:[\p{{L}}{MARKS}]+|\p{{N}}[\p{{N}}{MARKS}]*|([^{START}\p{{L}}\p{{N}}{MARKS}])\1*[{MARKS}]*)"
LARGEST = 1 << 21  # the limit for ids if they have gaps, and for pieces and merges in the kernels
BLOCK = 2048  # texts in one job
BLOCK_CHARACTERS = 1 << 20  # or fewer texts, if they are long


def character_steps(lowercase: bool, zero_digits: bool) -> list[normalizers.Normalizer]:
    """Return the normalisation steps that, after NFKC, treat each character independently."""
    steps: list[normalizers.Normalizer] = [normalizers.NFKC()]
    if lowercase:
        steps.append(normalizers.Lowercase())
    if zero_digits:
        steps.append(normalizers.Replace(Regex(r"\p{Nd}"), "0"))
    return [*steps, normalizers.Replace(START, "_")]


def assemble(model: models.Model, lowercase: bool, zero_digits: bool) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [
            *character_steps(lowercase, zero_digits),
            normalizers.Replace(Regex(WHITE + "+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(START, prepend_scheme="always", split=False),
            pre_tokenizers.Split(Regex(CUT), "isolated"),
        ]
    )
    tokenizer.decoder = decoder()
    return tokenizer


def decoder() -> decoders.Decoder:
    return decoders.Sequence(
        [decoders.Replace(START, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )


def make_fast(settings: tuple[bool, bool], pieces: Sequence[str], **model: Any) -> Any:
    """The kernels of one of our own tokenizers, or, without pieces, those that cut text into chunks."""
    from banyan.tokenizer import lookup, tables

    def marked(kind: str) -> Callable[[str], str]:
        return normalizers.Replace(Regex(kind), "_").normalize_str

    kinds = {
        tables.LETTER: marked(r"\p{L}"),
        tables.NUMBER: marked(r"\p{N}"),
        tables.MARK: marked(f"[{MARKS}]"),
        tables.SPACE: marked(WHITE),
    }
    normalize = normalizers.Sequence(character_steps(*settings)).normalize_str
    return lookup.native_or_numba(pieces, normalize, kinds, **model)


def pair_of(merge: str | list[str]) -> tuple[str, str]:
    """Read a merge of tokenizer.json: a pair or, in older files, the two separated by a space."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which are not characters and cannot be encoded, by U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def utf8(texts: Iterable[str], first: int) -> list[bytes]:
    """Encode texts in UTF-8. Lone surrogates become U+FFFD. first: the number of texts[0], for errors."""
    texts = list(texts)
    try:
        return list(map(str.encode, texts))
    except UnicodeEncodeError:
        return [without_surrogates(text).encode() for text in texts]
    except TypeError:
        for number, text in enumerate(texts, first):
            if not isinstance(text, str):
                raise TypeError(f"text {number} is {type(text).__name__}, not a string") from None
        raise


