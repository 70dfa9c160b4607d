"""A call of what is checked: its arguments as a flat list of primals, its outputs as a flat list."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .. import _torch
from . import children
from .endless import GUARD
from .finding import LeftOut, Skip
from .late import require_sizes
from .target import OWN, Target, differentiable, on_the_same

FEW_PARAMETERS = 4
"""A module's parameters that are told one by one."""
FEW_NUMBERS = 16
"""Integers of a tensor that are told one by one."""


@dataclass(frozen=True)
class Linearization:
    """A forward pass that was recorded, and what flows back through it.

    Attributes:
        primals: the tensors that it was called with; those that are wanted require grad.
        outputs: its differentiable outputs, of which some may not require grad.
        accumulated: places of primals to whose ``grad`` a backward has added itself.
    """

    primals: list[Tensor]
    outputs: list[Tensor]
    accumulated: set[int] = field(default_factory=set)

    def vjp(
        self,
        cotangents: Sequence[Tensor | None],
        *,
        create_graph: bool = False,
        retain_graph: bool = True,
        as_given: bool = False,
    ) -> list[Tensor | None]:
        """The VJP: a gradient for each primal, None where none flows or the primal does not require grad.

        An output whose cotangent is None, or that does not require grad, is left out. Contiguous cotangents are copied,
        unless they are wanted `as_given`: a backward that writes into its upstream gradient would spoil other calls.
        """
        wanted = [i for i, primal in enumerate(self.primals) if primal.requires_grad]
        pairs = [(o, c) for o, c in zip(self.outputs, cotangents, strict=True) if c is not None and o.requires_grad]
        gradients: list[Tensor | None] = [None] * len(self.primals)
        if not pairs or not wanted:
            return gradients
        outputs, given = zip(*pairs, strict=True)
        given = given if as_given else tuple(c.clone() if c.is_contiguous() else c for c in given)
        options = {"retain_graph": retain_graph, "create_graph": create_graph}
        found = _flown(outputs, given, [self.primals[i] for i in wanted], options)
        for i, gradient in zip(wanted, found, strict=True):
            primal = self.primals[i]
            added = primal.grad if primal.is_leaf else None
            if added is not None:  # A backward inside of it has added this, as in reversible blocks.
                primal.grad = None
                self.accumulated.add(i)
                gradient = added if gradient is None else gradient + added
            gradients[i] = gradient
        return gradients


class Case:
    """A target, and one set of arguments for it.

    The *primals* are the tensors whose derivatives are checked, wherever they lie in the arguments (in lists, in the
    parameters of a module); all else is passed as it is. Where some tensors require grad, they are the primals; where
    none does, all that may have a derivative. A sparse tensor's primal is its values.

    Args:
        target: what is called.
        args: its positional arguments.
        kwargs: its keyword arguments.
        seed: of the random numbers that each call draws.
        traits: what is odd about the arguments, such as ``"ties"``, ``"edges"``, ``"empty"``, ``"float16"``.
        scales: for each output the size of the numbers that it is computed from and rounded with, where that is known.

    Attributes:
        names: of the primals.
        parameters: places of the primals that are a module's own parameters.
        memo: what was found out about it, for those who look again.
    """

    def __init__(
        self,
        target: Target,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
        traits: frozenset[str] = frozenset(),
        scales: Sequence[float] = (),
    ) -> None:
        self.target = target
        self.seed = seed
        self.traits = traits
        self.scales = tuple(scales)
        flat, self._tree = _torch.pytree.tree_flatten_with_path((tuple(args), dict(kwargs or {})))
        names = [target.name_of(path) for path, _ in flat]
        values = [value for _, value in flat]
        candidates = [i for i, v in enumerate(values) if differentiable(v) and names[i] not in target.constants]
        self._positions = [i for i in candidates if values[i].requires_grad] or candidates
        keywords = tuple(kwargs or {})
        # To rebuild a tree takes longer than many a call, and mostly each argument is a leaf.
        is_flat = len(flat) == len(args) + len(keywords) and all(len(path) == 2 for path, _ in flat)
        self._keywords = keywords if is_flat else None
        self._hold(values)
        self._names = names
        self._in_place = False
        self.memo: dict[str, Any] = {}
        self.names = [names[i] for i in self._positions]
        own = {name for name, _ in target.origin.named_parameters()} if target.kind == "module" else set()
        self.parameters = frozenset(i for i, name in enumerate(self.names) if name in own)

    def _hold(self, leaves: Sequence[Any]) -> None:
        self._flat = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self._dense = all(self._flat[i].layout == torch.strided for i in self._positions)

    def nothing_to_differentiate(self) -> Skip | None:
        """The reason why there are no primals, if a declaration is it."""
        if self.primals or not self.target.constants:
            return None
        return LeftOut(f"{', '.join(sorted(self.target.constants))}: nondifferentiable")

    @property
    def label(self) -> str:
        """The arguments in words, such as ``"x: float64[3, 4]"``; a module's parameters, if many, by their number."""
        own = {self._positions[place] for place in self.parameters}
        many = own if len(own) > FEW_PARAMETERS else set[int]()
        told = [f"{self._names[i]}: {describe(value)}" for i, value in enumerate(self._flat) if i not in many]
        if many:
            dtypes = sorted({_dtype(self._flat[i]) for i in many})
            told.append(f"{len(many)} parameters in {' and '.join(dtypes)}")
        return ", ".join(told)

    @property
    def is_own(self) -> bool:
        """True if derivatives that are not torch's own take part."""
        if "own" not in self.memo:
            self.memo["own"] = self.target.kind in OWN or bool(_torch.functions_in_graph(self.linearize().outputs))
        return bool(self.memo["own"])

    @property
    def identity(self) -> str:
        """The label, and the numbers of small tensors of integers: by them kernels are told where to read."""
        data = [(n, leaf) for n, leaf in zip(self._names, self._flat, strict=True) if isinstance(leaf, Tensor)]
        few = [(n, leaf) for n, leaf in data if not differentiable(leaf) and leaf.numel() <= FEW_NUMBERS]
        return "; ".join([self.label, *(f"{n} = {leaf.tolist()}" for n, leaf in few)])

    @property
    def device_type(self) -> str:
        """The type of the device that the arguments are on, such as ``"cuda"``."""
        return next((leaf.device.type for leaf in self._flat if isinstance(leaf, Tensor)), "cpu")

    @property
    def primals(self) -> list[Tensor]:
        """The tensors to differentiate by, without graph; a sparse tensor's values."""
        chosen = [self._flat[i] for i in self._positions]
        return chosen if self._dense else [_values(value) for value in chosen]

    @property
    def leaves(self) -> list[Any]:
        """All arguments, tensors and others, in one list; tensors without graph."""
        return list(self._flat)

    @property
    def leaf_names(self) -> list[str]:
        """The names of `leaves`."""
        return list(self._names)

    def replaced(self, primals: Sequence[Tensor]) -> Case:
        """Return the case with other primals, of any size that the target takes."""
        leaves = self.leaves
        self._put(leaves, primals)
        return self.with_leaves(leaves)

    def _put(self, leaves: list[Any], primals: Sequence[Tensor]) -> None:
        for i, primal in zip(self._positions, primals, strict=True):
            leaves[i] = primal if self._dense else _packed(self._flat[i], primal)

    def with_leaves(self, leaves: Sequence[Any]) -> Case:
        """Return the case with other arguments in place of `leaves`; its primals have the same places."""
        other = copy.copy(self)
        other._hold(leaves)
        other.memo, other._in_place = {}, False
        return other

    def of(self, target: Target) -> Case:
        """Return the case of another target."""
        other = self.with_leaves(self.leaves)
        other.target, other._in_place = target, self._in_place
        return other

    def calling(self, function: Callable[..., Any]) -> Case:
        """Return the case with another function."""
        return self.of(self.target.calling(function))

    def surrogates(self) -> dict[int, Case]:
        """Return the case of the function whose derivative is meant, for each primal that has a surrogate."""
        declared = self.target.declared.surrogates.items()
        return {
            i: self.calling(on_the_same(self.target, of))
            for i, name in enumerate(self.names)
            for argument, of in declared
            if name == argument or name.startswith(f"{argument}[")
        }

    def arguments(self, primals: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments: these very primals, and copies of the other tensors."""
        chosen = set(self._positions)
        flat = [v.clone() if isinstance(v, Tensor) and i not in chosen else v for i, v in enumerate(self._flat)]
        self._put(flat, primals)
        if self._keywords is None:
            args, kwargs = _torch.pytree.tree_unflatten(flat, self._tree)
            return args, kwargs
        places = len(flat) - len(self._keywords)
        return tuple(flat[:places]), dict(zip(self._keywords, flat[places:], strict=True))

    def call(self, primals: Sequence[Tensor] | None = None) -> Any:
        """Call the target with these primals, with the same random numbers in each call."""
        return self.call_with(*self.arguments(_copies(self.primals) if primals is None else primals))

    def call_with(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the target with these very arguments."""
        process = os.getpid()
        children.begins(lambda: self.identity)
        state = torch.default_generator.get_state()
        torch.default_generator.manual_seed(self.seed)
        try:
            with GUARD:
                made = self.target.function(*args, **kwargs)
        finally:
            torch.default_generator.set_state(state)
        if os.getpid() != process:  # The target forked: two processes would go on.
            os._exit(0)
        return made

    def outputs(self, primals: Sequence[Tensor] | None = None) -> list[Tensor]:
        """The differentiable outputs, dense, in the order in which they are returned."""
        made = self.target.differentiable(self.call(primals))
        return [leaf if leaf.layout == torch.strided else leaf.to_dense() for leaf in made]

    def nearby(self, primals: Sequence[Tensor]) -> list[Tensor]:
        """The outputs at a point nearby, of the sizes that they have at the case's own.

        Raises:
            Inconclusive: sizes hang on values, and are others there.
        """
        made = self.outputs(primals)
        if self.target.late:
            if "sizes" not in self.memo:
                with torch.no_grad():
                    self.memo["sizes"] = [output.shape for output in self.outputs()]
            require_sizes(self.target, made, self.memo["sizes"])
        return made

    def values(self, primals: Sequence[Tensor] | None = None) -> list[Tensor]:
        """The outputs' values for copies of the primals: without grad mode, in memory that no later call writes to."""
        with torch.no_grad():
            return [o.detach().clone() for o in self.nearby(_copies(self.primals if primals is None else primals))]

    def linearize(self, primals: Sequence[Tensor] | None = None, wanted: Sequence[bool] | None = None) -> Linearization:
        """A recorded forward pass, on fresh copies of the primals that keep their strides.

        Args:
            wanted: which primals require grad; all by default.
        """
        given = self.primals if primals is None else primals
        try:
            return self.record(self.leaves_of(given, wanted))
        except RuntimeError as error:
            if "leaf Variable that requires grad" not in str(error):
                raise
        self._in_place = True
        return self.record(self.leaves_of(given, wanted))

    def leaves_of(self, tensors: Sequence[Tensor], wanted: Sequence[bool] | None = None) -> list[Tensor]:
        """Copies of tensors in the place of the primals, which require grad if wanted; parameters are parameters."""
        wanted = wanted or [True] * len(tensors)
        leaves = [tensor.detach().clone().requires_grad_(want) for tensor, want in zip(tensors, wanted, strict=True)]
        for i in self.parameters:
            leaves[i] = nn.Parameter(leaves[i], leaves[i].requires_grad)
        return leaves

    def record(self, primals: Sequence[Tensor]) -> Linearization:
        """A recorded forward pass on these very tensors; on copies, if `linearize` found that it writes into them."""
        with torch.enable_grad():
            given = [primal.clone() for primal in primals] if self._in_place else primals
            return Linearization(list(primals), self.nearby(given))


def describe(value: Any) -> str:
    """A value as reports show it: ``float64[3, 4]``."""
    if not isinstance(value, Tensor):
        return repr(value)
    layout = "" if value.layout == torch.strided else f" {str(value.layout).removeprefix('torch.')}"
    return f"{_dtype(value)}{list(value.shape)}{layout}"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _flown(
    outputs: Sequence[Tensor], given: Sequence[Tensor], wanted: Sequence[Tensor], options: dict[str, bool]
) -> Sequence[Tensor | None]:
    """Gradients by `torch.autograd.grad`; by ``backward()`` where that is refused, as by reentrant checkpoints."""
    try:
        with GUARD:
            return torch.autograd.grad(outputs, wanted, given, allow_unused=True, **options)
    except RuntimeError as error:
        if ".grad()" not in str(error) or not all(tensor.is_leaf for tensor in wanted):
            raise
    for tensor in wanted:
        tensor.grad = None
    with GUARD:
        torch.autograd.backward(outputs, given, **options)  # type: ignore[arg-type] # The stubs want no sequences.
    found = [tensor.grad for tensor in wanted]
    for tensor in wanted:
        tensor.grad = None
    return found


def _copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def _values(value: Tensor) -> Tensor:
    if value.layout == torch.strided:
        return value
    return value.coalesce().values() if value.layout == torch.sparse_coo else value.values()


def _packed(template: Tensor, values: Tensor) -> Tensor:
    """A tensor of the template's layout that has these values."""
    if template.layout == torch.strided:
        return values
    if template.layout == torch.sparse_coo:
        indices = template.coalesce().indices()
        return torch.sparse_coo_tensor(indices, values, template.shape, is_coalesced=True, check_invariants=False)
    columns = template.layout in (torch.sparse_csc, torch.sparse_bsc)
    outer = template.ccol_indices() if columns else template.crow_indices()
    inner = template.row_indices() if columns else template.col_indices()
    return torch.sparse_compressed_tensor(
        outer, inner, values, template.shape, layout=template.layout, check_invariants=False
    )
