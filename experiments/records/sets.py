"""The names of evaluation sets, languages and measures: the paper's, and those of banyan.evaluate."""

from __future__ import annotations

from banyan.evaluate.suites import LANGUAGES

STS = {
    "STS-12": "sts12", "STS-13": "sts13", "STS-14": "sts14", "STS-15": "sts15", "STS-16": "sts16", "STS-B": "stsb",
    "SICK-R": "sick", "SemRel": "semrel",
}  # fmt: skip
WORDS = {"Simlex": "simlex", "Wordsim-S": "wordsim-s", "Wordsim-R": "wordsim-r"}
NAMES = dict(
    zip(
        LANGUAGES,
        ("Indonesian", "Arabic", "Telugu", "Marathi", "Hausa", "Afrikaans", "Spanish", "Amharic", "Hindi"),
        strict=True,
    )
)
CUTS = {"NDCG@1": "nDCG@1", "NDCG@10": "nDCG@10", "R@1": "R@1", "R@10": "R@10"}
SPEARMAN = "spearman"
