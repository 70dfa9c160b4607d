# A dataclass of tensors and a number as one argument: the state of particles. The operator takes its fields one by one;
# the kernel and the rule see the dataclass again, and so do torch.func and torch.compile, with gradients in the fields.
import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


@dataclass
class State:
    """Pendulums, each with a mass, and the strength of what pulls them back."""

    position: Float[Tensor, "..."]
    velocity: Float[Tensor, "..."]
    mass: Float[Tensor, "..."]
    strength: float = 1.0

    def acceleration(self, position: Tensor) -> Tensor:
        """The force at a position, over the mass."""
        return -self.strength * torch.sin(position) / self.mass


class Moved(NamedTuple):
    """Positions and velocities after a step."""

    position: Float[Tensor, "..."]
    velocity: Float[Tensor, "..."]


@tg.op
@tg.domain(state_mass="[0.5, 4]")
def leapfrog(state: State, time: float) -> Moved:
    """One step of the leapfrog method: kick, drift, kick."""
    half = state.velocity + time / 2 * state.acceleration(state.position)
    position = state.position + time * half
    return Moved(position, half + time / 2 * state.acceleration(position))


@leapfrog.vjp("state")
def _(grad_position, grad_velocity, state, position, time):
    # The step backwards: each line is the transpose of one above.
    kick = time / 2 * grad_velocity
    grad_position = grad_position - kick * state.strength * torch.cos(position) / state.mass
    drift = grad_velocity + time * grad_position
    first = time / 2 * drift
    return State(
        position=grad_position - first * state.strength * torch.cos(state.position) / state.mass,
        velocity=drift,
        mass=-(kick * state.acceleration(position) + first * state.acceleration(state.position)) / state.mass,
    )


if __name__ == "__main__":
    state = State(torch.tensor([0.5, 1.0]), torch.zeros(2), torch.tensor([1.0, 2.0]), strength=9.81)

    def energy(state: State) -> Tensor:
        """The energy after a hundred steps; each begins where the last one ended."""
        for _ in range(100):
            moved = leapfrog(state, 0.01)
            state = dataclasses.replace(state, position=moved.position, velocity=moved.velocity)
        kinetic = 0.5 * state.mass * state.velocity**2
        return (kinetic - state.strength * torch.cos(state.position)).sum()

    print("energy:  ", energy(state))
    print("gradient:", torch.func.grad(energy)(state))
    print("compiled:", torch.compile(energy, fullgraph=True, backend="aot_eager")(state))
    print(tg.check(leapfrog))
