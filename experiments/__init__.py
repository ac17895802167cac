"""The experiments behind RESULTS.md and docs/. Imports point downwards only (tests/experiments/test_imports.py).

    pages/        write RESULTS.md, parts of README.md, docs/experiments.md, docs/latin.md, docs/baselines/*.md
    figures/      measure trained models and draw: the paper's figures, its claims, quality against cost
    latin/        the Latin case: four sets, and echoes of the Aeneid in Lucan
    measuring/    score what is not a training run: baselines, other systems, smaller vectors, paired differences
    training/     the training runs and ideas, by name; train, evaluate and record them
    translations/ the held-out translations, and a baseline that translates words
    records/      read and write the JSON in results/
    data.py       where the corpora and evaluation sets lie
    places.py     where results, pictures and pages go
"""
