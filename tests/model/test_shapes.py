from __future__ import annotations

from banyan.model.functions import Functions
from banyan.model.shapes import BIASES, GATES, shapes_of


def test_gates_and_biases_are_all_functions():
    assert sorted((*GATES, *BIASES)) == sorted(Functions._fields)


def test_shapes_are_those_of_the_weights(model, model_folder):
    shapes = shapes_of(model_folder / "model.safetensors", model.config)
    assert {name: shapes[name] for name in model.weights} == {n: w.shape for n, w in model.weights.items()}
