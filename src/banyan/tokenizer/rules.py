"""How our own tokenizers normalise text, split it into chunks, and decode it again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

if TYPE_CHECKING:
    from banyan.tokenizer.lookup import Fast

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


def settings_of(state: dict[str, Any]) -> tuple[bool, bool] | None:
    """Return (lowercase, zero_digits) if a tokenizer works exactly like ours, else None."""
    if state["added_tokens"] or state["post_processor"] or not _is_plain(state["model"]):
        return None
    for lowercase in (False, True):
        for zero_digits in (False, True):
            ours = json.loads(assemble(models.BPE(), lowercase, zero_digits).to_str())
            if all(state[part] == ours[part] for part in ("normalizer", "pre_tokenizer")):
                return lowercase, zero_digits
    return None


def _is_plain(model: dict[str, Any]) -> bool:
    """Whether a model is BPE or unigram with byte fallback and no unusual options."""
    if model["type"] == "BPE":
        options = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
        plain = not any(model.get(option) for option in options)
        pieces = sorted(model["vocab"], key=model["vocab"].get)
        plain &= [model["vocab"][piece] for piece in pieces] == list(range(len(pieces)))
        plain &= len(model["merges"]) < LARGEST
    elif model["type"] == "Unigram":
        plain = model["unk_id"] is not None
        pieces = [piece for piece, _ in model["vocab"]]
    else:
        return False
    return plain and model["byte_fallback"] and {*BYTES} <= {*pieces} and len({*pieces}) == len(pieces) < LARGEST


def make_fast(settings: tuple[bool, bool], pieces: Sequence[str], **model: Any) -> Fast:
    from banyan.tokenizer import kernels, lookup  # imported here because importing Numba is slow

    def marked(kind: str) -> Callable[[str], str]:
        return normalizers.Replace(Regex(kind), "_").normalize_str

    kinds = {
        kernels.LETTER: marked(r"\p{L}"),
        kernels.NUMBER: marked(r"\p{N}"),
        kernels.MARK: marked(f"[{MARKS}]"),
        kernels.SPACE: marked(WHITE),
    }
    return lookup.Fast(pieces, normalizers.Sequence(character_steps(*settings)).normalize_str, kinds, **model)


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


