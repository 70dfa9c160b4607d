"""Complex numbers: the gradient conjugates, and |dz|^2 has a factor 2."""

import torch

from .bug import Bug, function, normal

GRADIENT = {"gradient"}
COMPLEX = torch.complex128


def matmul(x, y):
    return x @ y


def phase(x):
    return torch.complex(x.cos(), x.sin())


def magnitude(x):
    return x.real.square() + x.imag.square()


BUGS = [
    Bug(
        name="square_unconjugated",
        wrong=function("Square", lambda z: z * z, lambda grad, z: 2 * grad * z),
        right=function("Square", lambda z: z * z, lambda grad, z: 2 * grad * z.conj()),
        truth=lambda z: z * z,
        inputs=normal((4,), dtype=COMPLEX),
        expects=GRADIENT,
        cause=("conj",),
        source="real formulas, run with complex numbers",
    ),
    Bug(
        name="matmul_unconjugated",
        wrong=function("Matmul", matmul, lambda grad, x, y: (grad @ y.mT, x.mT @ grad)),
        right=function("Matmul", matmul, lambda grad, x, y: (grad @ y.mH, x.mH @ grad)),
        truth=matmul,
        inputs=normal((2, 3), (3, 4), dtype=COMPLEX),
        expects=GRADIENT,
        cause=("conj",),
        source="mT for mH",
    ),
    Bug(
        name="phase_unconjugated",
        wrong=function("Phase", phase, lambda grad, x: (grad * 1j * phase(x)).real),
        right=function("Phase", phase, lambda grad, x: (grad.conj() * 1j * phase(x)).real),
        truth=phase,
        inputs=normal((4,)),
        expects=GRADIENT,
        cause=("conj", "imaginary", "sign"),
        source="a real parameter of a complex signal",
    ),
    Bug(
        name="wirtinger_half",
        wrong=function("Magnitude", magnitude, lambda grad, z: grad * z),
        right=function("Magnitude", magnitude, lambda grad, z: 2 * grad * z),
        truth=magnitude,
        inputs=normal((4,), dtype=COMPLEX),
        expects=GRADIENT,
        cause=("1/2", "half", "0.5"),
        source="Wirtinger's d/dz* for torch's gradient, which is twice that",
    ),
    Bug(
        name="imaginary_sign",
        wrong=function("Imag", lambda z: z.imag.clone(), lambda grad, z: -1j * grad),
        right=function("Imag", lambda z: z.imag.clone(), lambda grad, z: 1j * grad),
        truth=lambda z: z.imag,
        inputs=normal((4,), dtype=COMPLEX),
        expects=GRADIENT,
        cause=("sign", "conj"),
        source="the same factor, conjugated once too often",
    ),
    Bug(
        name="transform_inverted",
        wrong=function("Fft", lambda z: torch.fft.fft(z), lambda grad, z: torch.fft.ifft(grad)),
        right=function("Fft", lambda z: torch.fft.fft(z), lambda grad, z: torch.fft.ifft(grad, norm="forward")),
        truth=torch.fft.fft,
        inputs=normal((5,), dtype=COMPLEX),
        expects=GRADIENT,
        cause=("number of elements", "1/5", "1/N", "0.2"),
        source="the inverse of a transform taken for its adjoint",
    ),
]
