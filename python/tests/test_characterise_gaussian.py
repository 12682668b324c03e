"""What the model of a store is made of: its trend, its processes, and what they say left out."""

import numpy as np
import pytest
from intarsia.characterise import design
from intarsia.characterise.load import OUTSTANDING
from intarsia.characterise.model import trend
from intarsia.characterise.model.base import Samples
from intarsia.characterise.model.gaussian import Kernel, LeftOut, Posterior, features


def test_the_closed_form_says_of_a_load_what_a_process_without_it_says() -> None:
    points = design.spread(30, seed=1)
    inputs, targets = features(points), np.random.default_rng(1).normal(0, 1, 30)
    kernel = Kernel(0.8, 0.1, (1.0,) * inputs.shape[1])
    left_out = LeftOut.of(kernel, inputs)
    for number in (0, 7, 29):
        rest = np.arange(30) != number
        # The mean is taken off beforehand: let it be the same with the load and without.
        centred = targets - targets[rest].mean()
        centred[number] = 0.0
        mean, deviation = left_out.at(centred)
        posterior = Posterior.of(kernel, inputs[rest], centred[rest])
        wanted, spread = posterior.at(inputs[number : number + 1])
        assert mean[number] == pytest.approx(wanted[0])
        assert deviation[number] == pytest.approx(spread[0])


def test_a_store_that_serves_four_requests_at_once_has_its_knee_there() -> None:
    points = design.spread(120, design.Region(4096, 2**18, 1, 32), seed=2)
    depth = points[:, OUTSTANDING]
    noise = np.random.default_rng(2).normal(0, 0.02, len(points))
    times = trend.fit(Samples(points, 8 * np.maximum(1, depth / 4) * np.exp(noise)))
    for outstanding, latency in ((1, 8), (3, 8), (4, 8), (6, 12), (32, 64)):
        asked = points.copy()
        asked[:, OUTSTANDING] = outstanding
        found = np.exp(trend.logarithm(times, asked)) * outstanding
        assert np.median(found) == pytest.approx(latency, rel=0.05), outstanding
