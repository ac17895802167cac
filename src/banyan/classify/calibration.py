"""Probabilities from scores: Platt scaling on held-out texts.

As Platt (1999) does, it calibrates for targets that are a little less sure than the held-out labels, so that a few
texts, all classified correctly, do not make the classifier certain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_STEPS = 50
_UNSURE = 2  # texts of unknown class that are added to the held-out ones
_PRIOR = 1e-3  # keeps the slope finite if all scores are equal
_BINS = 10


class Calibration(NamedTuple):
    """Scores are multiplied by `slope` (one over a temperature). With several labels a text, `offset` is added."""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return scores * self.slope + self.offset


def probabilities(scores: np.ndarray, several: bool) -> np.ndarray:
    """The probability of each class [n, C]. several: classes do not exclude each other."""
    if several:
        return 0.5 * (1 + np.tanh(scores / 2))
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def log_loss(scores: np.ndarray, target: np.ndarray, several: bool) -> float:
    """The mean negative log-likelihood of the true classes. target: 0 or 1 [n, C]."""
    scores = scores.astype(np.float64)
    if several:
        return float((np.logaddexp(0, scores) - target * scores).sum(1).mean())
    shifted = scores - scores.max(1, keepdims=True)
    return float((np.log(np.exp(shifted).sum(1)) - (shifted * target).sum(1)).mean())


def calibrated(scores: np.ndarray, target: np.ndarray, several: bool) -> Calibration:
    """The calibration that minimises the log loss, by Newton's method on the log slope (and the offset)."""
    n, C = target.shape
    scores = scores.astype(np.float64)
    target = (n * target.astype(np.float64) + _UNSURE / (2 if several else C)) / (n + _UNSURE)
    log_slope, offset = 0.0, 0.0
    for _ in range(_STEPS):
        slope = np.exp(log_slope)
        p = probabilities(scores * slope + offset, several)
        error, z = p - target, scores * slope
        if several:
            spread = p * (1 - p)
            gradient = np.array([(error * z).sum(), error.sum()])
            curvature = np.array([[(spread * z * z).sum(), (spread * z).sum()], [(spread * z).sum(), spread.sum()]])
        else:
            mean = (p * z).sum(1, keepdims=True)
            gradient, curvature = np.array([(error * z).sum()]), np.array([[(p * (z - mean) ** 2).sum()]])
        gradient[0] += _PRIOR * n * log_slope
        curvature += np.eye(len(gradient)) * (_PRIOR * n + 1e-9)
        step = np.clip(np.linalg.solve(curvature, gradient), -0.5, 0.5)
        log_slope -= step[0]
        offset -= step[1] if several else 0.0
        if np.abs(step).max() < 1e-8:
            break
    return Calibration(float(np.exp(log_slope)), float(offset))


def calibration_error(p: np.ndarray, target: np.ndarray, several: bool) -> float:
    """The mean difference between how sure the classifier is and how often it is right, over bins of confidence."""
    if several:
        sure, right = p.ravel(), target.ravel()
    else:
        best = p.argmax(1)
        sure, right = p.max(1), target[np.arange(len(p)), best]
    bins = np.minimum((sure * _BINS).astype(np.int64), _BINS - 1)
    gap = np.abs(np.bincount(bins, sure, _BINS) - np.bincount(bins, right, _BINS))
    return float(gap.sum() / max(len(sure), 1))
