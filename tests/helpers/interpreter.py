"""Triton's interpreter, without what it does again and again."""

from __future__ import annotations

from functools import cache


def hasten() -> None:
    """Make it replace the language's functions once for each launch instead of at every call from one kernel to
    another, and look up the numpy type of each type once. It computes what it did."""
    from triton import language
    from triton.runtime import interpreter

    if not hasattr(interpreter, "_LangPatchScope"):  # another version of it
        return
    replace, numpy_type = interpreter._patch_lang, interpreter._get_np_dtype
    numpy_type_once = cache(numpy_type)

    @cache
    def used(fn) -> list:
        values = list(map(id, fn.__globals__.values()))
        return [module for module in (language, language.core) if id(module) in values]

    def replace_once(fn):
        if used(fn) and not any(language.core.is_builtin(module.load) for module in used(fn)):
            return interpreter._LangPatchScope()  # nothing to undo: whoever replaced them does
        return replace(fn)

    interpreter._patch_lang = replace_once
    interpreter._get_np_dtype = lambda of: numpy_type(of) if of.scalar.is_ptr() else numpy_type_once(of.scalar)
