"""The losses in plain torch are torch's own, in blocks and with their gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cosine_similarity

from banyan.backends import losses
from banyan.backends.losses import cross_entropy


@pytest.mark.parametrize("largest", [0.0, 60.0], ids=["the usual way", "factored"])
@pytest.mark.parametrize("logits", [1, 10, 15, 512])
def test_blocked_cross_entropy_is_torchs_and_passes_gradcheck(logits, largest, monkeypatch):
    monkeypatch.setattr(losses, "LOGITS", logits)
    monkeypatch.setattr(losses, "LARGEST", largest)
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)
        for shape in ((7, 4), (5, 4), (5,))
    )
    target = torch.tensor([0, 1, 4, 4, 2, 3, 0])
    expected = torch.nn.functional.cross_entropy(x @ weight.T + bias, target)
    torch.testing.assert_close(cross_entropy(x, weight, bias, target), expected)
    assert torch.autograd.gradcheck(lambda *w: cross_entropy(*w, target), (x, weight, bias))
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy(x, weight, bias, target), expected.detach())


def test_cross_entropy_survives_huge_logits():
    x, weight, bias = torch.tensor([[3e4, 0.0]]), torch.eye(2), torch.zeros(2)
    assert cross_entropy(x, weight, bias, torch.tensor([0])).item() == 0
    assert cross_entropy(x, weight, bias, torch.tensor([1])).item() == pytest.approx(3e4)


@pytest.mark.parametrize("held", [1, 3 * 9 * 8, 1 << 20])  # bytes: a row, three rows or all of P at a time
def test_contrastive_loss_is_that_of_the_whole_matrix(held, monkeypatch):
    monkeypatch.setitem(losses.HELD, "cpu", held)
    generator = torch.Generator().manual_seed(0)
    up, down = (torch.randn(9, 4, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(2))
    cosines = cosine_similarity(up[:, None], down[None], dim=-1) * losses.SCALE
    itself, by_torch = torch.arange(9), torch.nn.functional.cross_entropy
    expected = (by_torch(cosines, itself) + by_torch(cosines.T, itself)) / 2
    torch.testing.assert_close(losses.contrastive(up, down), expected)
    assert torch.autograd.gradcheck(losses.contrastive, (up, down))


def test_rows_that_are_no_nodes_count_for_nothing():
    here = torch.tensor([True, False, True, True])
    up, down = (torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(i)) for i in range(2))
    expected = losses.contrastive(up[here], down[here])
    up[1] = down[1] = torch.nan
    up.requires_grad_()
    got = losses.contrastive(up, down, here)
    torch.testing.assert_close(got, expected)
    got.backward()
    assert up.grad.isfinite().all()
    assert (up.grad[1] == 0).all()
