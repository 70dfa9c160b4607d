"""Requirements of late sizes, checked when an operator is declared."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import DeclarationError
from .axes import Axes, Axis
from .late import PAD, Late
from .signature import Signature

Refuse = Callable[..., DeclarationError]


def check_late(signature: Signature, refuse: Refuse) -> None:
    """Late sizes are those of outputs alone, and each is the size of an axis in one of them.

    Raises:
        DeclarationError: they are not.
    """
    if not signature.late:
        return
    if signature.loop:
        raise refuse(
            'batch="loop" puts samples into one tensor, and their sizes would differ', "data_dependent",
            expected="outputs whose sizes are known before the call", got=" ".join(map(str, signature.late)),
            hint=PAD,
        )  # fmt: skip
    if signature.written:
        raise refuse(
            "an operator that writes has no outputs whose size is known only after the call", "data_dependent",
            expected="two operators: one that writes, and one whose outputs have such a size",
            got=", ".join(str(late) for late in signature.late), hint="return the values, and let the caller copy them",
        )  # fmt: skip
    outputs: list[tuple[str, Axis]] = []
    for output in signature.outputs:
        if output.type.axes is None:
            raise refuse(
                "an output without axes cannot stand beside late sizes", output.name,
                expected="annotated axes for every output", got="none",
            )  # fmt: skip
        outputs += [(output.name, token) for token in output.type.axes.tokens]
    for late in signature.late:
        _check_inputs(signature, late, refuse)
        _check_outputs(outputs, late, refuse)
        if late.bound is not None:
            _check_bound(signature, late, late.bound, refuse)


def _check_inputs(signature: Signature, late: Late, refuse: Refuse) -> None:
    for _, parameter in signature.tensors:
        axes = parameter.tensor.axes
        if axes is not None and late.name in {token.name for token in axes.tokens} | axes.reads()[0]:
            raise refuse(
                f"axis {late.name} is one of input '{parameter.name}', so that its size is known before the call",
                parameter.name, expected="an axis that no input has", got=axes.text,
                hint="delete it from data_dependent=, or give the output's axis another name",
            )  # fmt: skip


def _check_outputs(outputs: list[tuple[str, Axis]], late: Late, refuse: Refuse) -> None:
    for name, token in outputs:
        if token.name == late.name and token.text != late.name:
            raise refuse(f"axis {late.name} has a size of its own", name, expected=late.name, got=token.text)
    if any(token.name == late.name for _, token in outputs):
        return
    within = [token.text for _, token in outputs if late.name in token.reads[0]]
    raise refuse(
        f"no output has axis {late.name} by itself, from which its size could be read" if within
        else f"no output has axis {late.name}",
        "data_dependent", expected=f'an output with the axis, such as Float[Tensor, "{late.name}"]',
        got=", ".join(within) or ", ".join(f"{name}: '{token.text}'" for name, token in outputs),
    )  # fmt: skip


def _check_bound(signature: Signature, late: Late, bound: Axes, refuse: Refuse) -> None:
    (token, *more) = bound.tokens
    inputs = {name for _, p in signature.tensors if p.tensor.axes is not None for name in p.tensor.axes.binds}
    plain = not more and not token.variadic and not token.broadcast and not token.anonymous
    if not plain or (token.name is not None and token.name not in inputs):
        raise refuse(
            f"the bound of axis {late.name} cannot be read", "data_dependent",
            expected=f"a size that the inputs tell, such as {late.name} <= {min(inputs, default='100')}", got=str(late),
        )  # fmt: skip
