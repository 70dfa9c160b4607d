"""The source of the ``__call__`` of an operator that writes. An ``@`` marks a name of ours, as in `hot_path`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import _torch
from .._kernels.written import written_places
from .hot_path import INDENT, OWNED, WITHOUT_GRAD, HotPath

_CALL = """\
def @make(@slow, @find, @compiled, @watches):
    @current = @never
    @compiled, @writing, @copies, @unrecorded = @compiled

    def @install(@entry):
        nonlocal @current
        @current = @entry

    def __call__(@self, {parameters}):{take}
        {draw}if @is_dynamo_compiling():
            {compiled}
        {convert}
        @admits, @run, @node, @entry = @current
        if not ({admitted}):
            @found = @find({key}, ({tensors},))
            if @found is None:
                return @slow({arguments})
            @install(@found)
            @admits, @run, @node, @entry = @found
        if @watches or @dispatch_modes() or @forward_ad._current_level >= 0 or @profiler._is_profiler_enabled:
            return @slow({arguments})
        if @node is not None and @is_grad_enabled():
            if {apart}:
                return @slow({arguments})
            {node}
            return {result}
        return @run({arguments})

    return __call__, @install
"""

_RUN = """
def {name}(@kernel, @entry, @slow):
    @returns, @settle, @kernel_of = @entry.returns, @entry.settle, @entry.kernel_of
    ({spans}) = @entry.spans
    def write({arguments}):
        {write}
        return ({outputs})
    def run({arguments}):
        {run}
        return {result}
    return write, run
"""

_TRUSTED = """\
try:
    @out = @kernel({arguments})
except @runtime_error as @error:
    {count}
    raise @kernel_of.explained(@error, ({arguments},)) from None
{apart}
{count}
{unpack}"""

_CHECKED = """\
{apart}
{versions}
try:
    {call}
finally:
    {count}
{unpack}
if not ({fit}):
    ({outputs}) = @settle(({arguments},), @out, {counted}){owned}"""

_SPAN = "@s{}"

_UNPACK = """\
try:
    ({outputs}) = @out
except @errors:
    {same} = None"""


class WritingPath(HotPath):
    """The generated functions of one operator that writes.

    Attributes:
        make_run: ``make_run(kernel, entry, slow)`` gives two functions that write: one returns all that the kernel
            returns; the other what callers get, and goes the slow path where arguments overlap.
        make_uncounted: the same for arguments that do not all count how often they are written: inference tensors.
    """

    template: ClassVar[str] = _CALL

    def _source(self) -> str:
        return super()._source() + self._function("@make_run", counted=True) + self._function("@make_uncounted")

    def _function(self, name: str, *, counted: bool = False) -> str:
        return _RUN.format(
            name=name,
            arguments=self.arguments,
            outputs=_several(self._returned),
            spans=_several(map(_SPAN.format, range(len(self.tensors)))),
            write=self._write(counted=counted, looking=False).replace("\n", INDENT),
            run=self._write(counted=counted, looking=True).replace("\n", INDENT),
            result=self._result(),
        )

    def _namespace(self, never: Any) -> dict[str, Any]:
        return super()._namespace(never) | {
            "__count": _torch.count_writes,
            "__unfit": unfit,
            "__count_some": _count_some,
            "__not_implemented": NotImplemented,
        }

    def _parts(self) -> dict[str, str]:
        return {
            "compiled": self._compiled().replace("\n", f"{INDENT}    "),
            "apart": " or ".join([self._overlapping("@entry.spans[{}]"), *self._unfit()]),
            "node": self._node(),
            "result": self._result(),
        }

    # -- names and tests --------------------------------------------------------------------------------------------

    @property
    def _written(self) -> list[str]:
        return [p.name for p in self.signature.written]

    @property
    def _returned(self) -> list[str]:
        """Names for all that the kernel returns."""
        return self.outputs[len(self._written) :]

    @property
    def _shown(self) -> list[str]:
        """Names for the outputs that callers get."""
        return [o for o, output in zip(self._returned, self.signature.returned, strict=True) if not output.saved]

    def _result(self) -> str:
        return self._packed(self._shown, self.signature.beside) if self._shown else "None"

    def _overlapping(self, span: str) -> str:
        """The test that something written and another argument have memory in common; `span` says its bytes."""
        tests: list[str] = []
        for (i, one), (j, other) in itertools.combinations(enumerate(self.tensors), 2):
            if one.written or other.written:
                there = "".join(f"{p.name} is not None and " for p in (one, other) if p.optional)
                apart = f"{one.name}.data_ptr() - {other.name}.data_ptr()"
                tests.append(f"({there}-{span.format(i)} < {apart} < {span.format(j)})")
        return " or ".join(tests) or "False"

    def _unfit(self) -> list[str]:
        """Tests that no node is to write into an argument: into a leaf, or into a view, which autograd may refuse."""
        return [f"{name}._is_view() or ({name}.requires_grad and {name}.is_leaf)" for name in self._written]

    # -- the three ways ---------------------------------------------------------------------------------------------

    def _compiled(self) -> str:
        """The call in Dynamo's graph: the function without effects, and then the writes.

        Compilers see into a torch function, and write in place where they can. A function that they do not see into
        writes by itself, where no gradient is recorded.
        """
        # A rule may read what is written afterwards; a compiler makes no copy that nobody needs.
        copies = {name: f"@before_{name}" for name in self._written}
        given = ", ".join(copies.get(name, name) for name in self.arguments.split(", "))
        lines = [
            f"({_several(copies.values())}) = @copies({', '.join(copies)})",
            f"({_several(self.outputs)}) = @compiled({given})",
        ]
        places = written_places(self.signature)
        moved = zip(places, self._written, self.outputs, strict=False)
        lines += [f"{name}.copy_(@unrecorded({i}, {output}, {self.arguments}))" for i, name, output in moved]
        # `copy_` rounds and broadcasts in silence: the call outside of the graph says what is wrong.
        unfit = " or ".join(f"@unfit({n}, {output})" for n, output in zip(self._written, self.outputs, strict=False))
        lines.insert(2, f"if {unfit}: return @slow({self.arguments})")
        apart = [*lines, f"return {self._result()}"]
        if not self.checks.owned:
            return "\n".join(apart)
        every = _several(f"*({p.name} or ())" if p.many else p.name for p in self.tensors)
        recorded = f"[@t for @t in ({every}) if @t is not None and @t.requires_grad]"
        written = [f"({_several(self._shown)}) = @writing({self.arguments})", f"return {self._result()}"]
        indented = [f"    {line}" for line in written]
        return "\n".join([f"if not (@is_grad_enabled() and {recorded}):", *indented, *apart])

    def _node(self) -> str:
        """The call of the node, which returns what is written, and what callers get."""
        call = f"@node({self._recorded()}, {self._node_leaves()}, *@entry.copies({', '.join(self._written)}))"
        return f"({_several(['@_'] * len(self._written) + self._shown)}) = {call}" if self._shown else call

    def _write(self, *, counted: bool, looking: bool) -> str:
        """The kernel, and the checks of what it did: versions tell whether it wrote into other arguments, too.

        Args:
            counted: all arguments count how often they are written.
            looking: nobody has looked whether arguments overlap.
        """
        count = f"@count{'' if counted else '_some'}(({_several(self._written)}))"
        # A function in C looks by itself, and then has written nothing.
        overlapping = "@out is @not_implemented" if self.checks.trusted else self._overlapping(_SPAN)
        apart = f"if {overlapping}: return @slow({self.arguments})" if looking else "pass"
        if self.checks.trusted:
            return _TRUSTED.format(arguments=self.arguments, apart=apart, count=count, unpack=self._unpack())
        fit = [self._fit()]
        versions: list[str] = []
        if counted:
            of = [(f"@v{i}", f"{p.name} is not None and {p.name}._version" if p.optional else f"{p.name}._version", p)
                  for i, p in enumerate(self.tensors)]  # fmt: skip
            versions = [f"{name} = {version}" for name, version, _ in of]
            count = "\n    ".join(f"if {v} == {name}: @count(({p.name},))" for name, v, p in of if p.written)
            fit += [f"({v}) == {name}" for name, v, p in of if not p.written]
        return _CHECKED.format(
            apart=apart,
            versions="\n".join(versions) or "pass",
            call=WITHOUT_GRAD.format(call=f"@out = @kernel({self.arguments})").replace("\n", "\n    "),
            count=count,
            unpack=self._unpack(),
            fit=" and ".join(fit),
            outputs=_several(self._returned),
            arguments=self.arguments,
            counted=f"({_several(f'@v{i}' for i in range(len(self.tensors)))})" if counted else "None",
            owned="" if self.checks.owned else "".join(OWNED.format(output=o) for o in self._returned),
        )

    def _fit(self) -> str:
        """The test that the kernel returned what it should."""
        return f"@returns({', '.join(self._returned)})" if self._returned else "@out is None"

    def _unpack(self) -> str:
        if not self._returned:
            return "pass"
        if len(self._returned) == 1 and self.signature.beside is None:
            return f"{self._returned[0]} = @out"
        return _UNPACK.format(outputs=_several(self._returned), same=" = ".join(self._returned))


def _several(names: Iterable[str]) -> str:
    """Names as a tuple has them, without its parentheses."""
    return "".join(f"{name}, " for name in names)


def unfit(tensor: Tensor, after: Tensor) -> bool:
    """Tell whether a tensor has not the shape of its new value, or a dtype that does not hold it."""
    return tensor.shape != after.shape or not holds(tensor.dtype, after.dtype)


def holds(dtype: torch.dtype, other: torch.dtype) -> bool:
    """Tell whether a dtype holds what another one does, but for rounding: `torch.can_cast`, which tracers record."""
    if dtype.is_complex or dtype is other:
        return True
    if dtype.is_floating_point:
        return not other.is_complex
    return dtype is not torch.bool and not other.is_complex and not other.is_floating_point


def _count_some(written: Iterable[Tensor]) -> None:
    """Count a write into each tensor that counts them: inference tensors do not."""
    _torch.count_writes([tensor for tensor in written if not tensor.is_inference()])
