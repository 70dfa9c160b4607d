"""What `jax.scipy.special` finds: a program of its own, for a Python that has JAX.

python in_jax.py POINTS.npz FOUND.npy
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
        point = [p if i in varied or (p % 1).any() else p.astype(int) for i, p in enumerate(point)]  # orders
        found = function(*point, **keywords)
        return found if isinstance(found, tuple) else (found,)

    chunks = [list(map(jnp.asarray, points[k : k + CHUNK].T)) for k in range(0, len(points), CHUNK)]
    return np.concatenate([columns(name, results, varied, chunk) for chunk in chunks])


def columns(name, results, varied, at):
    values = np.stack([np.asarray(v) for v in results(*at)], axis=1)
    table = np.full((*values.shape, 1 + len(varied)), np.nan)
    table[:, :, 0] = np.real(values)
    for position, i in enumerate(varied):
        try:
            slopes = derivative(results, at, i)
        except (NotImplementedError, ValueError, TypeError) as error:
            print(f"jax: {name}, argument {i}: {error}".splitlines()[0][:150], file=sys.stderr)
        else:
            table[:, :, 1 + position] = np.stack([np.asarray(slope) for slope in slopes], axis=1)
    return table


def derivative(results, at, i):
    """Of the other arguments nothing is asked, as some have none."""
    return jax.jvp(lambda x: results(*at[:i], x, *at[i + 1 :]), (at[i],), (jnp.ones_like(at[i]),))[1]


def main():
    jax.config.update("jax_enable_x64", True)
    given, found = sys.argv[1:]
    with np.load(given) as stored:
        name, varied, keywords = json.loads(str(stored["task"]))
        points = stored["points"]
    answer = np.empty((len(points), 1, 0))
    if hasattr(jax.scipy.special, name):
        try:
            answer = measured(name, varied, keywords, points)
        except (NotImplementedError, ValueError, TypeError) as error:
            print(f"jax: {name}: {error}".splitlines()[0][:150], file=sys.stderr)
    np.save(found, answer)


if __name__ == "__main__":
    main()
