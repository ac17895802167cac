"""The table of what smaller vectors cost."""

from __future__ import annotations

import json

import numpy as np

from banyan.evaluate import suites
from experiments.measuring import compact as experiment
from tests.helpers.sets import write_sets


def test_experiment_makes_a_table_of_every_form(model_folder, model, tmp_path, capsys):
    data = write_sets(tmp_path / "data")
    out = tmp_path / "compact.json"
    experiment.main([str(model_folder), "--data", str(data), "--out", str(out)])
    experiment.main([str(model_folder), "--data", str(data), "--out", str(out), "--suite", "sts"])
    kept = json.loads(out.read_text())
    assert list(kept) == ["model dev", "model sts"]
    columns = ["precision", "dimensions", "bytes", "dev, spearman", "dev retrieval, nDCG@10"]
    assert kept["model dev"]["columns"] == columns
    assert [row[:3] for row in kept["model dev"]["rows"]] == [
        ["float32", 16, 64], ["float32", 8, 32], ["float32", 4, 16], ["float32", 2, 8],
        ["int8", 16, 16], ["int8", 8, 8], ["int8", 4, 4], ["int8", 2, 2],
        ["binary", 16, 2], ["binary", 8, 1], ["binary", 4, 1], ["binary", 2, 1],
    ]  # fmt: skip
    values = [row.outcome.value for row in suites.run(model.encode, "sts", data) if row.outcome]
    assert kept["model sts"]["rows"][0][3] == round(float(np.mean(values)), 2)
    assert "Smaller vectors: model, suite dev" in capsys.readouterr().out
