"""What `jax.scipy.special` finds: a program of its own, for a Python that has JAX.

python in_jax.py POINTS.npz FOUND.npz
"""

import json
import sys

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np

CHUNK = 200  # some of its methods take the time of the slowest point at each


def measured(name, varied, keywords, points):
    """Values and derivatives, as (points, results, 1 + derivatives); NaN where JAX has none."""
    function = getattr(jax.scipy.special, name)

    def results(*point):
        point = [p if i in varied else p.astype(int) for i, p in enumerate(point)]
        found = function(*point, **keywords)
        return found if isinstance(found, tuple) else (found,)

    chunks = [list(map(jnp.asarray, points[k : k + CHUNK].T)) for k in range(0, len(points), CHUNK)]
    return np.concatenate([columns(name, results, varied, chunk) for chunk in chunks])


def columns(name, results, varied, at):
    values = np.stack([np.asarray(v) for v in results(*at)], axis=1)
    table = np.full((*values.shape, 1 + len(varied)), np.nan)
    table[:, :, 0] = np.real(values)
    for position, i in enumerate(varied):
        tangents = tuple(jnp.ones_like(x) if j == i else jnp.zeros_like(x) for j, x in enumerate(at))
        try:
            _, slopes = jax.jvp(results, tuple(at), tangents)
        except (NotImplementedError, ValueError, TypeError) as error:
            print(f"jax: {name}, argument {i}: {error}".splitlines()[0][:150], file=sys.stderr)
        else:
            table[:, :, 1 + position] = np.stack([np.asarray(slope) for slope in slopes], axis=1)
    return table


def main():
    jax.config.update("jax_enable_x64", True)
    given, found = sys.argv[1:]
    with np.load(given) as stored:
        tasks = json.loads(str(stored["tasks"]))
        points = {label: stored[label] for label, *_ in tasks}
    answers = {}
    for label, name, varied, keywords in tasks:
        if hasattr(jax.scipy.special, name):
            try:
                answers[label] = measured(name, varied, keywords, points[label])
            except (NotImplementedError, ValueError, TypeError) as error:
                print(f"jax: {label}: {error}".splitlines()[0][:150], file=sys.stderr)
    np.savez(found, **answers)


if __name__ == "__main__":
    main()
