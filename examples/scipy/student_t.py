# How heavy are the tails? Student's t has a number for that, its degrees of freedom. It is learned with a regression
# whose errors follow it, by gradient through `special.gammaln`; `special.stdtrit` tells where these then have to lie.
import math
import sys

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer

from torchgraft.scipy import special

# Degrees of freedom to start from, whether they are learned, and a colour.
MODELS = {
    "normal": (math.inf, False, "#6c757d"),
    "t, fixed": (4.0, False, "#c8553d"),
    "t, learned": (4.0, True, "#2a6f97"),
}


def nuclei():
    """The area of cell nuclei in 569 biopsies, by radius, perimeter, smoothness and compactness; all as logarithms."""
    radius, _, perimeter, area, *shape = torch.from_numpy(load_breast_cancer().data)[:, :6].log().T
    x = torch.stack([radius, perimeter, *shape], 1)
    return torch.cat([torch.ones_like(x[:, :1]), (x - x.mean(0)) / x.std(0)], 1), area


def log_density(z, df):
    """Of Student's t (Johnson, Kotz and Balakrishnan 1995, eq. 28.2), which is normal where df is infinite."""
    if df.isinf():
        return -(z**2 + math.log(2 * math.pi)) / 2
    constant = special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - (df * math.pi).log() / 2
    return constant - (df + 1) / 2 * (z**2 / df).log1p()


def log_likelihood(x, y, theta):
    """Of each y. theta is the weights, and the logarithms of the scale and of the degrees of freedom."""
    scale, df = theta[-2:].exp()
    return log_density((y - x @ theta[:-2]) / scale, df) - scale.log()


def fit(x, y, df, learned):
    """The theta of the greatest likelihood; the degrees of freedom stay unless they are learned."""
    weights = torch.linalg.lstsq(x, y).solution
    scale = (y - x @ weights).std()
    theta = torch.cat([weights, torch.stack([scale, scale.new_tensor(df)]).log()]).requires_grad_()
    optimizer = torch.optim.LBFGS([theta], max_iter=200, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = -log_likelihood(x, y, theta).mean()
        value.backward()
        if not learned:
            theta.grad[-1] = 0
        return value

    optimizer.step(loss)
    return theta.detach()


def held_out(x, y, df, learned, folds):
    """The log density of each y, and its place in its distribution, by a fit without its fold."""
    fold = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)) % folds
    density, place = torch.empty(2, len(y), dtype=y.dtype)
    for i in range(folds):
        out = fold == i
        theta = fit(x[~out], y[~out], df, learned)
        scale, degrees = theta[-2:].exp()
        density[out] = log_likelihood(x[out], y[out], theta)
        place[out] = special.stdtr(degrees, (y[out] - x[out] @ theta[:-2]) / scale)
    return density, place


def draw(x, y, fits):
    """The errors beside the fitted densities, and their quantiles beside those of the densities."""
    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    density, quantiles = figure.subplots(1, 2)
    percent, p = torch.linspace(-8, 8, 400, dtype=x.dtype), (torch.arange(len(y), dtype=x.dtype) + 0.5) / len(y)
    errors = {name: 100 * (y - x @ theta[:-2]) for name, theta in fits.items()}
    density.hist(errors["t, learned"], 64, range=(-8, 8), density=True, color="0.85", label="errors, t learned")
    for name, (*_, colour) in MODELS.items():
        scale, df = fits[name][-2:].exp() * torch.tensor([100, 1])
        curve, label = log_density(percent / scale, df).exp() / scale, name + f" ({df:.3g})" * df.isfinite().item()
        density.plot(percent, curve, color=colour, label=label)
        quantiles.plot(scale * special.stdtrit(df, p), errors[name].sort().values, ".", color=colour, markersize=5)
    quantiles.axline((0, 0), slope=1, color="k", linewidth=0.6)
    density.set(yscale="log", ylim=(1e-3, 1), xlabel="error of the area (%)", ylabel="density (1 / %)")
    quantiles.set(xlim=(-8, 8), ylim=(-8, 8), xlabel="quantile of the density (%)", ylabel="quantile of the errors (%)")
    density.legend(frameon=False, fontsize=9)
    for axes in (density, quantiles):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
    return figure


if __name__ == "__main__":
    picture, folds = [*sys.argv[1:], *("student_t.png", 10)[len(sys.argv) - 1 :]]
    x, y = nuclei()
    fits = {}
    print(f"{len(y)} nuclei, each held out once")
    print("errors       degrees of freedom   log likelihood   log density held out   in the middle half")
    for name, (df, learned, _) in MODELS.items():
        theta = fits[name] = fit(x, y, df, learned)
        density, place = held_out(x, y, df, learned, int(folds))
        middle = ((place - 0.5).abs() < 0.25).double().mean()
        total = log_likelihood(x, y, theta).sum()
        print(f"{name:12} {theta[-1].exp():18.2f} {total:16.2f} {density.mean():22.4f} {100 * middle:18.1f} %")
    draw(x, y, fits).savefig(picture, dpi=100)
