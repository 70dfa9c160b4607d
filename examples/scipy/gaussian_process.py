# How smooth is what was measured? A Gaussian process has a number for that, the order nu of its Matern covariance. It
# is learned with the rest, by gradient of the marginal likelihood through `special.kve`, differentiable in its order.
import math
import sys

import scipy.optimize
import torch
from matplotlib.cbook import get_sample_data
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes

from torchgraft.scipy import special

USUAL = (0.5, 1.5, 2.5)  # where the covariance is elementary
LIMITS = ((0.01, 100), (0.1, 10), (1e-3, 2), (0.1, 30))  # of length, signal, noise and nu
BLUE, ORANGE, GREY = "#2a6f97", "#c8553d", "#6c757d"


def diabetes():
    """Ten measurements of each of 442 patients, and the progress of the disease."""
    x, y = map(torch.from_numpy, load_diabetes(return_X_y=True))
    return x / x.std(0), y


def terrain():
    """60 x 60 places in Tennessee, in km, and their heights in m."""
    with get_sample_data("jacksboro_fault_dem.npz") as file:
        heights = torch.from_numpy(file["elevation"][100:160, 100:160].astype(float))
        north, east = (111.2 * float(file[name]) for name in ("dy", "dx"))
        east *= math.cos(math.radians(float(file["ymin"])))
    rows, columns = torch.meshgrid(*[torch.arange(60.0, dtype=torch.float64)] * 2, indexing="ij")
    return torch.stack([columns.flatten() * east, rows.flatten() * north], 1), heights.flatten()


def matern(r, nu):
    """2^(1 - nu) / Gamma(nu) z^nu K_nu(z) where z = sqrt(2 nu) r (Rasmussen and Williams 2006, eq. 4.14)."""
    apart = r > 0  # at 0 the covariance is 1, whatever the length and the order
    z = (2 * nu).sqrt() * torch.where(apart, r, 1)
    log = (1 - nu) * math.log(2) - special.gammaln(nu) + nu * z.log() + special.kve(nu, z).log() - z
    return torch.where(apart, log.exp(), 1)


def covariance(x, length, signal, noise, nu):
    i, j = torch.triu_indices(len(x), len(x), 1)
    upper = x.new_zeros(len(x), len(x)).index_put((i, j), signal**2 * matern(torch.pdist(x) / length, nu))
    return upper + upper.mT + (signal**2 + noise**2) * torch.eye(len(x), dtype=x.dtype)


def fit(x, y, start, learned):
    """Length, signal, noise and nu of the greatest marginal likelihood, and its logarithm; nu stays unless learned."""

    def loss(logs):
        logs = torch.tensor(logs, requires_grad=True)
        *others, nu = logs.exp()
        k = covariance(x, *others, nu if learned else nu.detach())
        value = -torch.distributions.MultivariateNormal(torch.zeros_like(y), k).log_prob(y)
        value.backward()
        return value.item(), logs.grad.numpy()

    bounds = [(math.log(low), math.log(high)) for low, high in LIMITS]
    found = scipy.optimize.minimize(loss, start.log(), jac=True, method="L-BFGS-B", bounds=bounds)
    return torch.from_numpy(found.x).exp(), -found.fun


def predict(x, y, new, length, signal, noise, nu):
    """What is to be measured at new places, as a distribution."""
    across = signal**2 * matern(torch.cdist(new, x, compute_mode="donot_use_mm_for_euclid_dist") / length, nu)
    gain = torch.linalg.solve(covariance(x, length, signal, noise, nu), across.mT).mT
    return torch.distributions.Normal(gain @ y, (signal**2 + noise**2 - (gain * across).sum(1)).sqrt())


def compare(name, x, y, held_x, held_y):
    """Fits by nu: fixed ones, and last the one that is learned, which starts from the usual 2.5."""
    print(f"{name}: {len(y)} to learn from, {len(held_y)} held out")
    print("     nu   log marginal likelihood   log density held out")
    fits, theta = {}, torch.tensor([2.0, 1.0, 0.5, 0.5], dtype=torch.float64)
    for nu in (0.5, 1.0, 1.5, 2.5, 5.0, "learned"):
        start = fits[2.5][0] if nu == "learned" else torch.cat([theta[:3], theta.new_tensor([nu])])
        theta, likelihood = fits[nu] = fit(x, y, start, nu == "learned")
        if nu in (*USUAL, "learned"):
            density = predict(x, y, held_x, *theta).log_prob(held_y).mean()
            print(f"{theta[3]:7.2f} {likelihood:25.2f} {density:22.4f}" + "   learned" * (nu == "learned"))
    return fits


def draw(found, x, y, train):
    """The likelihood by nu, the covariances of the terrain, and a section through it."""
    figure = Figure(figsize=(10.5, 3.4), layout="constrained")
    likelihood, correlation, section = figure.subplots(1, 3)
    for name, colour in (("terrain", BLUE), ("diabetes", ORANGE)):
        learned, best = found[name]["learned"]
        fits = sorted((theta[3].item(), value - best) for theta, value in found[name].values())
        likelihood.plot(*zip(*fits, strict=True), ".-", color=colour, label=name)
        likelihood.plot(learned[3], 0, "*", color=colour, markersize=12)
    likelihood.set(xscale="log", ylim=(-10, 1), xlabel=r"order $\nu$", ylabel="log marginal likelihood, less the best")
    likelihood.set_xticks([0.5, 1, 2, 5, 10, 30], ["0.5", "1", "2", "5", "10", "30"])
    distance = torch.linspace(0, 2.5, 200, dtype=x.dtype)
    for nu, colour, style in ((1.5, GREY, "--"), (2.5, GREY, ":"), ("learned", BLUE, "-")):
        length, _, _, order = found["terrain"][nu][0]
        label = rf"$\nu$ = {order:.3g}" + ", learned" * (nu == "learned")
        correlation.plot(distance, matern(distance / length, order), style, color=colour, label=label)
    correlation.set(ylim=(0, 1.02), xlabel="distance (km)", ylabel="correlation of heights")
    row, mean, deviation = slice(30 * 60, 31 * 60), y[train].mean(), y[train].std()
    made = predict(x[train], (y[train] - mean) / deviation, x[row], *found["terrain"]["learned"][0])
    low, middle, high = (mean + deviation * (made.mean + i * made.stddev) for i in (-2, 0, 2))
    section.fill_between(x[row, 0], low, high, color=BLUE, alpha=0.2, linewidth=0, label="mean and 2 deviations")
    section.plot(x[row, 0], middle, color=BLUE)
    section.plot(x[row, 0], y[row], "k.", markersize=3, label="measured")
    section.set(xlabel="west to east (km)", ylabel="height (m)")
    for axes in (likelihood, correlation, section):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.legend(frameon=False, fontsize=9)
    return figure


if __name__ == "__main__":
    picture, count = [*sys.argv[1:], *("gaussian_process.png", 300)[len(sys.argv) - 1 :]]
    found = {}
    for data in (diabetes, terrain):
        x, y = data()
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
        train, held = order[: int(count)], order[int(count) : int(count) + 1000]
        scaled = (y - y[train].mean()) / y[train].std()
        found[data.__name__] = compare(data.__name__, x[train], scaled[train], x[held], scaled[held])
    draw(found, x, y, train).savefig(picture, dpi=100)
