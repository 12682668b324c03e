"""Maximum-likelihood fits of the distributions that failure models use, by `lifelines`.

Parameters are given in hours with 95 % confidence intervals. Intervals come from the curvature of
the likelihood (Wald), which is sound for the hundreds of gaps that a fit needs anyway; those of
parameters above zero are intervals of the logarithm, so that they stay above zero for few gaps too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import autograd.numpy as np
from autograd.scipy.special import gammaln
from autograd_gamma import gammainccln
from lifelines import ExponentialFitter, LogNormalFitter, WeibullFitter
from lifelines.exceptions import ConvergenceError, StatisticalWarning
from lifelines.fitters import ParametricUnivariateFitter
from scipy import stats

from intarsia.simulate.failures.gaps import Gaps, Hours
from intarsia.simulate.failures.records import RecordError

_CONFIDENCE = 0.95
# Beyond this the mean of a fit says something else than the records do.
_FAR_MEAN = 0.1
# Where the tail of the gamma distribution underflows; its leading term is exact to 1e-3 there.
_FAR = 600.0


class Family(StrEnum):
    """A family of distributions, by the name that a scenario uses."""

    EXPONENTIAL = "exponential"
    WEIBULL = "weibull"
    LOG_NORMAL = "log-normal"
    GAMMA = "gamma"


@dataclass(frozen=True)
class Parameter:
    """An estimate with its 95 % confidence interval; `unit` is `h`, `ln h` or empty."""

    name: str
    value: float
    low: float
    high: float
    unit: str


@dataclass(frozen=True)
class Fit:
    """One family fitted to gaps."""

    family: Family
    gaps: Gaps
    parameters: tuple[Parameter, ...]
    log_likelihood: float

    def __getitem__(self, name: str) -> float:
        """Return the estimate of parameter `name`."""
        return next(p.value for p in self.parameters if p.name == name)

    @property
    def aic(self) -> float:
        """Akaike's information criterion; the smaller, the better."""
        return 2 * len(self.parameters) - 2 * self.log_likelihood

    @property
    def distribution(self) -> Any:
        """The fitted distribution as one of `scipy.stats`, over hours."""
        return _FAMILIES[self.family].frozen(*(p.value for p in self.parameters))

    @property
    def mean_hours(self) -> float:
        """Mean of the fitted distribution: the mean time between failures."""
        return float(self.distribution.mean())

    @property
    def warning(self) -> str | None:
        """What is wrong with the mean, which says how often a simulation fails; none if little."""
        recorded = self.gaps.mean_hours
        ratio = self.mean_hours / recorded
        if abs(ratio - 1) <= _FAR_MEAN:
            return None
        way = f"{100 * (ratio - 1):+.0f} %" if ratio < 10 else f"{ratio:.0f} times as long"
        return (
            f"{self.gaps.what}: the mean of the {self.family} fit is {self.mean_hours:.3g} h, that "
            f"of the records {recorded:.3g} h ({way}): its tail does not describe them"
        )


class _GammaFitter(ParametricUnivariateFitter):  # type: ignore[misc]  # lifelines has no types
    """The gamma distribution, which lifelines offers only in its generalised form."""

    _fitted_parameter_names = ("shape_", "scale_")

    def _cumulative_hazard(self, parameters: Any, times: Any) -> Any:
        shape, scale = parameters
        return -_log_survival(shape, times / scale)

    def _log_hazard(self, parameters: Any, times: Any) -> Any:
        # The default differentiates the cumulative hazard, which fails in the far tail.
        shape, scale = parameters
        reduced = times / scale
        log_density = (shape - 1) * np.log(reduced) - reduced - gammaln(shape) - np.log(scale)
        return log_density - _log_survival(shape, reduced)

    def _create_initial_point(self, durations: Any, *_: Any) -> Any:
        hours = next(times for times in durations if times is not None)
        mean = hours.mean()
        # The maximum for complete gaps to within 1.5 % (Minka 2002).
        spread = np.log(mean) - np.log(hours).mean()
        shape = (3 - spread + np.sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
        return np.array([shape, mean / shape])


def _log_survival(shape: Any, reduced: Any) -> Any:
    """Return the logarithm of the gamma distribution's tail; far out by its leading term."""
    near = gammainccln(shape, np.minimum(reduced, _FAR))
    far = (shape - 1) * np.log(reduced) - reduced - gammaln(shape)
    return np.where(reduced < _FAR, near, far)


@dataclass(frozen=True)
class _Recipe:
    fitter: Callable[[], Any]
    # (our name, the name lifelines gives it, unit), in the order that `frozen` takes them.
    parameters: tuple[tuple[str, str, str], ...]
    frozen: Callable[..., Any]


_FAMILIES = {
    Family.EXPONENTIAL: _Recipe(
        ExponentialFitter, (("mean", "lambda_", "h"),), lambda mean: stats.expon(scale=mean)
    ),
    Family.WEIBULL: _Recipe(
        WeibullFitter,
        (("shape", "rho_", ""), ("scale", "lambda_", "h")),
        lambda shape, scale: stats.weibull_min(shape, scale=scale),
    ),
    Family.LOG_NORMAL: _Recipe(
        LogNormalFitter,
        (("mu", "mu_", "ln h"), ("sigma", "sigma_", "")),
        lambda mu, sigma: stats.lognorm(sigma, scale=np.exp(mu)),
    ),
    Family.GAMMA: _Recipe(
        _GammaFitter,
        (("shape", "shape_", ""), ("scale", "scale_", "h")),
        lambda shape, scale: stats.gamma(shape, scale=scale),
    ),
}


def fit(gaps: Gaps, family: Family = Family.WEIBULL) -> Fit:
    """Fit `family` to `gaps` by maximum likelihood, censored gaps included.

    >>> from intarsia.simulate import failures
    >>> found = failures.fit(failures.system_gaps(failures.lanl(), "20"))
    >>> round(found["shape"], 2), round(found["scale"], 1)
    (0.65, 9.6)
    """
    recipe = _FAMILIES[family]
    times, observed = _observations(gaps)
    # lifelines starts its search near one: times in units of their mean keep it there.
    unit = float(np.mean(gaps.hours))
    fitter = recipe.fitter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", StatisticalWarning)
            fitter.fit(times / unit, observed, alpha=1 - _CONFIDENCE)
    except (ConvergenceError, StatisticalWarning) as error:
        reason = str(error).split("\n")[0]
        raise RecordError(f"{gaps.what}: no {family} distribution fits: {reason}") from error
    summary = fitter.summary
    parameters = []
    for name, theirs, of_unit in recipe.parameters:
        row = summary.loc[theirs]
        bounds = _bounds(row["coef"], row["coef lower 95%"], row["coef upper 95%"], of_unit)
        value, low, high = (_back(float(bound), of_unit, unit) for bound in bounds)
        parameters.append(Parameter(name, value, low, high, of_unit))
    # The density of t / unit is `unit` times that of t.
    log_likelihood = float(fitter.log_likelihood_) - len(gaps.hours) * np.log(unit)
    return Fit(family, gaps, tuple(parameters), float(log_likelihood))


def fit_all(gaps: Gaps, families: Iterable[Family] = tuple(Family)) -> list[Fit]:
    """Fit each family and return the fits, best (smallest AIC) first."""
    return sorted((fit(gaps, family) for family in families), key=lambda found: found.aic)


def _observations(gaps: Gaps) -> tuple[Hours, Any]:
    times = np.concatenate([gaps.hours, gaps.censored_hours])
    observed = np.arange(len(times)) < len(gaps.hours)
    return times, observed


def _bounds(value: float, low: float, high: float, of_unit: str) -> tuple[float, float, float]:
    """Return an estimate and its interval; of a parameter above zero, that of its logarithm."""
    if of_unit == "ln h":
        return value, low, high
    width = np.exp((high - low) / 2 / value)
    return value, value / width, value * width


def _back(value: float, of_unit: str, unit: float) -> float:
    """Turn an estimate over times in units of `unit` hours into one over hours."""
    match of_unit:
        case "h":
            return value * unit
        case "ln h":
            return float(value + np.log(unit))
        case _:
            return value
