"""spaCy: the pipe "banyan", which adds embeddings to documents and spans, and trees to documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from banyan.integrations import as_model
from banyan.support.needs import needs

with needs("BanyanPipe"):
    from spacy.language import Language
    from spacy.tokens import Doc, Span

if TYPE_CHECKING:
    from banyan.encoder import Banyan


@Language.factory("banyan", default_config={"model": "model", "device": "cpu"}, assigns=["doc._.banyan_tree"])
def make_banyan(nlp: Language, name: str, model: str, device: str) -> BanyanPipe:
    return BanyanPipe(as_model(model, device))


class BanyanPipe:
    """`nlp.add_pipe("banyan", config={"model": "model/"})`.

    `doc.vector`, `span.vector` and `similarity` then come from the model, and `doc._.banyan_tree` is the tree of the
    text. Each is computed when it is used.
    """

    def __init__(self, model: Banyan) -> None:
        self.model = model
        if not Doc.has_extension("banyan_tree"):
            Doc.set_extension("banyan_tree", getter=lambda doc: doc.user_hooks["banyan_tree"](doc))

    def __call__(self, doc: Doc) -> Doc:
        for hooks in (doc.user_hooks, doc.user_span_hooks):
            hooks["vector"] = self._vector
            hooks["vector_norm"] = lambda part: float(np.linalg.norm(self._vector(part)))
            hooks["has_vector"] = lambda part: bool(self._vector(part).any())
            hooks["similarity"] = self._similarity
        doc.user_hooks["banyan_tree"] = lambda doc: self.model.parse(doc.text)
        return doc

    def _vector(self, part: Doc | Span) -> np.ndarray:
        return self.model.encode(part.text)

    def _similarity(self, part: Doc | Span, other: Any) -> float:
        return self.model.similarity(part.text, other.text)
