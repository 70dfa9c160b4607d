"""`Op`: an operator, its rules, and what it says of itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar
from weakref import WeakSet

import torch

from . import _torch
from ._kernels.make import make_kernel
from ._lower.eager_call import Call, EagerCall
from ._lower.lowering import Lowering
from ._lower.writing_operator import WritingOperator
from ._record import Record
from ._rules.kinds import Kind
from ._rules.rule import make_rule
from ._spec.reading import with_structures, with_workspaces
from ._spec.reference import read_reference
from ._spec.structures import gathering
from .errors import DeclarationError, UnsupportedError

if TYPE_CHECKING:
    from ._build.source import Source
    from ._capabilities import Capability

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Op(Generic[P, R_co]):
    """An operator: a typed function that PyTorch treats as its own.

    Made by `op`. Calling it runs its kernel; autograd, `torch.func`, compilers, exporters and autocast know it.
    To type checkers ``Op[P, R]`` has the parameters and the result of the function that was declared.

    Attributes:
        __wrapped__: the function that was declared.

    Raises:
        ArgumentError: in a call, as are all these: an argument has the wrong type.
        ShapeError: a shape is not what the annotations say.
        DtypeError: a dtype is not, or two do not go together.
        DeviceError: there is no kernel for the device, or tensors are on several.
        KernelError: the kernel did not return what its annotation says, or wrote into its inputs.
        RuleError: a rule did not return the gradient or tangent that was asked of it.
        DerivativeError: a derivative is asked for that the rules do not give.
        UnsupportedError: a feature of PyTorch would give a wrong result.

    Example:
        >>> print(linear)
        examples::linear(input: Float[Tensor, "*batch n"], weight: Float[Tensor, "m n"], ...) -> ...
    """

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]
    _record: Record
    _lowering: Lowering

    def __init__(self) -> None:
        _await_call(self)

    @property
    def torch_op(self) -> Any:
        """The `OpOverload` in `torch.ops`, which returns `Saved` outputs too; that of an operator that writes, writes.

        Example:
            >>> torch.library.opcheck(linear.torch_op, (input, weight, bias))
        """
        return self._lowering.torch_op

    # -- rules --------------------------------------------------------------------------------------------------

    def vjp(
        self, *inputs: str, kernel: Source | None = None, independent: str | Sequence[str] = ()
    ) -> Callable[[F], F]:
        """Declare the gradient with respect to named inputs.

        The rule asks for what it needs by parameter name: inputs, outputs (``out`` or their names), non-tensor
        arguments, and ``grad`` (``grad_NAME`` where several outputs have one). It returns one gradient for each of
        `inputs`, each with its input's shape and dtype. Undefined gradients reach it as zeros. Of a list of tensors,
        input or output, value, gradient and tangent are lists. Made of torch functions
        it also gives forward mode and higher orders; a parameter annotated ``np.ndarray`` makes it a rule on arrays.

        A field of a structure is an input, ``"state.velocity"``, and rules ask for it as ``state_velocity``, or for the
        whole structure. ``"state"`` names all of its differentiable fields: the rule returns a structure with their
        gradients, whose numbers are not looked at.

        A rule reads the gradient of every floating output: what came back through another one would be lost. Outputs
        that the inputs do not move are named by `independent`, and those without a derivative by `nondifferentiable`;
        else the rule is refused when it is first used.

        With `kernel` the rule is a function in C or C++, and the decorated function a stub that names what it reads.
        The C function has the stub's name, or ``OPERATOR_vjp_INPUT`` where that is ``_``, and sees one sample: the
        sizes that the operator's own function takes, what the rule reads, then ``grad_INPUT`` for each input
        (``grad_INPUT_before`` for one that is written).
        The gradients of samples that share an input are summed. `Op.prototype` shows it.

        Raises:
            DeclarationError: a name does not exist, or an input has such a rule already, or no derivative.

        Example:
            >>> @linear.vjp("bias")
            ... def _(grad):
            ...     return grad.reshape(-1, grad.shape[-1]).sum(0)
            >>> @sine_and_exp.vjp("x", independent="exp")
            ... def _(grad_sine, x):
            ...     return grad_sine * torch.cos(x)
            >>> @energy.vjp("state.velocity")
            ... def _(grad, state_velocity, state_mass):
            ...     return grad * state_mass * state_velocity
        """
        return self._rule("vjp", inputs, kernel, (independent,) if isinstance(independent, str) else independent)

    def jvp(self, *inputs: str, kernel: Source | None = None) -> Callable[[F], F]:
        """Declare the tangent of the outputs by hand; tangents of several rules are summed.

        The rule asks for ``NAME_tangent`` of its inputs (that of a structure is one) and for anything that a vjp may
        ask for but `grad`. It returns one tangent for each differentiable output, with its shape and dtype; in C (see
        `vjp`) it writes them into ``OUTPUT_tangent``.

        Raises:
            DeclarationError: as for `vjp`.

        Example:
            >>> @cube.jvp("x")
            ... def _(x, x_tangent):
            ...     return 3 * x**2 * x_tangent
        """
        return self._rule("jvp", inputs, kernel)

    def partial(self, input: str, *, kernel: Source | None = None) -> Callable[[F], F]:
        """Declare an elementwise operator's partial derivative (holomorphic, where complex).

        The rule asks for inputs, outputs and other arguments by name, and returns the partial derivative: in the
        output's shape, or in one that broadcasts to it. It gives both modes and any order; axes that broadcast are
        summed; a zero cotangent gives zero even where the partial derivative is infinite. In C (see `vjp`) it is a
        function of one element.

        Raises:
            DeclarationError: the operator is not elementwise; else as for `vjp`.

        Example:
            >>> @softplus.partial("x")
            ... def _(x):
            ...     return torch.sigmoid(x)
        """
        return self._rule("partial", (input,), kernel)

    def adjoint(self, input: str, *, kernel: Source | None = None) -> Callable[[F], F]:
        """Declare the conjugate transpose of an operator that is *linear* in `input` (zero at zero).

        The rule asks for ``grad`` and for other inputs by name, and returns the transposed map's value, with the shape
        and dtype of `input`. It gives both modes, and any order where every input that it reads has an adjoint too.
        In C: see `vjp`.

        Raises:
            DeclarationError: as for `vjp`.

        Example:
            >>> @dct.adjoint("x")
            ... def _(grad: np.ndarray):
            ...     return scipy.fft.idct(grad, norm="ortho")
        """
        return self._rule("adjoint", (input,), kernel)

    def surrogate(self, *inputs: str, of: Callable[..., Any]) -> Callable[[F], F]:
        """Declare that the rule of named inputs is meant to be the derivative of another function.

        Straight-through estimators, surrogate gradients of spikes, reversed and clipped gradients are such rules.
        `check` proves them against the derivative of `of`, and says so in its headline. A decorated function is the
        vjp, unless it is a rule of these inputs already: ``@f.surrogate("x", of=g)`` stands above ``@f.partial("x")``.

        Args:
            inputs: whose rule is meant to differ.
            of: the function or operator whose derivative is meant, on the same arguments, with the same outputs.

        Raises:
            DeclarationError: a name does not exist, or has a surrogate already; else as for `vjp`.

        Example:
            >>> @spike.surrogate("v", of=lambda v: torch.sigmoid(4 * v))
            ... def _(grad, v):
            ...     s = torch.sigmoid(4 * v)
            ...     return grad * 4 * s * (1 - s)
        """
        record = self._record
        names = [own for name in inputs for own in record.signature.inputs(name)]
        record.declare_surrogates(names, of)

        def declare(function: F) -> F:
            rules = [rule for name in names if (rule := record.reverse_rule(name) or record.forward_rule(name))]
            stands = rules and all(rule.written is function for rule in rules)
            return function if stands else self.vjp(*inputs)(function)

        return declare

    def _rule(
        self, kind: Kind, inputs: tuple[str, ...], source: Source | None, independent: Sequence[str] = ()
    ) -> Callable[[F], F]:
        if len(inputs) == 1 and callable(inputs[0]):
            raise DeclarationError(
                f"@{self._record.name}.{kind} was used without the name of an input",
                operator=self._record.name,
                expected=f'@{self._record.name}.{kind}("{self._record.signature.tensors[0][1].shown}")',
                got=f"@{self._record.name}.{kind}",
            )

        require_source(source, self._record.name)

        def declare(function: F) -> F:
            signature = self._record.signature
            rule = make_rule(signature, kind, inputs, function, source=source, independent=independent, frames=1)
            self._declare(lambda record: record.add_rule(rule))
            return function

        return declare

    def nondifferentiable(self, *names: str, reason: str | None = None) -> None:
        """Say that inputs or outputs have no derivative: asking for one is then an error that says so.

        Rules ask for no gradient of such an output. A gradient that comes back through it all the same raises, if it
        is not zero: pass ``output.detach()`` on. In forward mode nothing can be refused later, and its tangent is NaN.

        Args:
            names: of tensor inputs, or of floating outputs; outputs are named before the rules that would count them.
            reason: why there is none, in words for that error.

        Raises:
            DeclarationError: a name does not exist, or has a rule.

        Example:
            >>> scale_rows.nondifferentiable("scale", reason="it is calibrated, not learned")
            >>> factor.nondifferentiable("growth", reason="it jumps where pivots change")
        """
        inputs = [own for name in names for own in self._record.signature.inputs(name)]
        self._declare(lambda record: record.declare_nondifferentiable(inputs, reason))

    # -- kernels, shapes ------------------------------------------------------------------------------------------

    def kernel(self, device: str, source: Source | None = None) -> Callable[[F], F]:
        """Declare the kernel for another device type.

        Its parameters are the operator's; where they are annotated as ``np.ndarray`` it gets arrays, else tensors. A
        structure may be annotated with another class that has the same fields, such as one of arrays.

        Args:
            device: a device type, such as ``"cuda"``.
            source: what `c` or `cpp` returned, for ``"cpu"`` or for ``"cuda"``, or what `cuda` returned, for
                ``"cuda"``: the decorated function is a stub.

        Raises:
            DeclarationError: there is no such device type, or the parameters are others; or the source does not run
                there.

        Example:
            >>> @correlate2d.kernel("cuda")
            ... def _(x, kernel):
            ...     return torch.nn.functional.conv2d(x[None, None], kernel[None, None])[0, 0]
        """
        require_source(source, self._record.name)

        def declare(function: F) -> F:
            try:
                torch.device(device)
            except RuntimeError as error:
                raise DeclarationError(
                    f"'{device}' is not a device type",
                    operator=self._record.name,
                    expected="cpu, cuda, ...",
                    got=device,
                ) from error
            signature = self._record.signature
            if source is not None:
                served = ["cuda"] if source.launch else ["cpu", "cuda"]
                if device not in served:
                    raise DeclarationError(
                        f"a kernel {'for CUDA' if source.launch else 'in C'} does not run on this type of device",
                        operator=signature.name, expected=", ".join(served), got=device,
                    )  # fmt: skip
                signature = with_workspaces(signature, function, frames=1)
            signature, arrays = with_structures(signature, function, frames=1)
            names, wanted = list(inspect.signature(function).parameters), [item.name for item in signature.given]
            names = [name for name in names if name not in {name for _, name, _ in signature.workspaces}]
            if names != wanted:
                raise DeclarationError(
                    f"the kernel for {device} has other parameters",
                    operator=self._record.name,
                    expected=", ".join(wanted),
                    got=", ".join(names),
                )
            numpy = arrays or any("ndarray" in str(note) for note in inspect.get_annotations(function).values())
            kernel = make_kernel(signature, function, numpy=numpy, source=source)
            if device == "cuda":
                kernel.check_on_cuda()
            self._declare(lambda record: record.add_kernel(device, kernel))
            return function

        return declare

    def shape(self, function: F) -> F:
        """Declare the output shapes where annotations cannot give them.

        The function asks for parameters by name; a tensor comes as its shape. It returns a tuple of sizes, or one for
        each output: for a list of tensors a list of tuples, which also says how many there are.

        Raises:
            DeclarationError: the annotations give the shapes, or a name does not exist.

        Example:
            >>> @upsample.shape
            ... def _(x, factor):
            ...     return (*x[:-1], factor * x[-1])
            >>> @split.shape  # -> list[Float[Tensor, "_"]]
            ... def _(x, lengths):
            ...     return [(length,) for length in lengths]
        """
        if self._record.signature.shaped:
            raise DeclarationError(
                "the output's shape is annotated already",
                operator=self._record.name,
                expected="a shape rule only for a bare Tensor or np.ndarray output, or a list",
                got=", ".join(map(str, self._record.signature.outputs)),
            )
        signature, asked = self._record.signature, list(inspect.signature(function).parameters)
        for name in asked:
            if name not in signature.names and name not in signature.wholes:
                raise DeclarationError(
                    f"the shape rule asks for '{name}', which does not exist",
                    operator=self._record.name,
                    argument=name,
                    expected=", ".join([*signature.names, *signature.wholes]),
                    got=name,
                )
        items = [signature.wholes.get(name, name) for name in asked]
        rule = gathering(function, items) if signature.wholes else function
        self._declare(lambda record: record.declare_shapes(rule))
        return function

    # -- what checks it is given ----------------------------------------------------------------------------------

    def samples(self, function: F) -> F:
        """Declare arguments that checks try, beside those that they generate themselves.

        The function yields calls: a tuple of arguments, a dictionary of arguments by name, or one tensor. It may ask
        for a `torch.Generator`, which is seeded, by having one parameter. There may be several such functions.

        Raises:
            DeclarationError: it has more than one parameter.

        Example:
            >>> @solve.samples
            ... def _(generator):
            ...     for n in (1, 4):
            ...         a = torch.randn(n, n, dtype=torch.float64, generator=generator)
            ...         yield a + 4 * torch.eye(n), a[0]
            ...     yield {"a": torch.eye(2), "b": torch.ones(2)}
        """
        parameters = list(inspect.signature(function).parameters)
        if len(parameters) > 1:
            raise DeclarationError(
                "a function of samples has other parameters", operator=self._record.name,
                expected="none, or one: a torch.Generator", got=", ".join(parameters),
            )  # fmt: skip
        self._record.samples.append(function)
        return function

    def reference(self, function: F) -> F:
        """Declare a slow, right implementation, with which checks compare the operator's values.

        It has the operator's parameters and returns what its callers see. It gets tensors in double precision; where
        its parameters are annotated ``np.ndarray``, arrays; where they are annotated as numbers (``float``,
        ``complex``, ``mpmath.mpf``), one element at a time of an elementwise operator, mpmath's with 50 digits. Under
        ``batch="loop"`` it sees one sample. A second one replaces the first.

        Raises:
            DeclarationError: its parameters are others, or it takes numbers and the operator is not elementwise.

        Example:
            >>> @softplus.reference
            ... def _(x: mpmath.mpf):
            ...     return mpmath.log1p(mpmath.exp(x))
        """
        self._record.reference = read_reference(self._record.signature, function, frames=1)
        return function

    # -- looking --------------------------------------------------------------------------------------------------

    def capabilities(self, device: str = "cpu") -> dict[str, Capability]:
        """Say what the operator can do, transform by transform.

        Args:
            device: a device type, such as ``"cuda"``.

        Returns:
            A `Capability` for each of ``reverse``, ``forward``, ``second order``, ``vmap``, ``compile``, ``export`` and
            ``autocast``.

        Example:
            >>> linear.capabilities()["compile"].answer
            'yes'
        """
        from ._capabilities import capabilities  # Most programs ask for none, and print no operator.

        return capabilities(self._record, device)

    def prototype(self) -> str:
        """The C functions that are, or could be, the operator's kernel and its rules, one a line.

        ``torchgraft prototype file.py:name`` writes them into a file, to be filled in.

        Raises:
            DeclarationError: an annotation has no counterpart in C.

        Example:
            >>> print(correlate2d.prototype())
            void correlate2d(int64_t h, int64_t w, int64_t kh, int64_t kw, const T *x, const T *kernel, T *out)
            void correlate2d_adjoint_x(int64_t h, int64_t w, int64_t kh, int64_t kw, const T *grad, ...)
        """
        return "\n".join(f"{prototype.declaration()}" for prototype in self._record.prototypes())

    def save_library(
        self, path: str | Path, *, dtypes: Sequence[torch.dtype] = (torch.float32, torch.float64),
        cuda: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Write a library that makes the operator known to a program without Python.

        A C++ program that runs an exported model, packaged by AOTInductor, loads it before the model: see
        docs/cpp.md. It is for processors like this one, as is the package, and serves torch 2.11 and newer.

        Args:
            path: of the library, such as ``"correlate2d.so"``.
            dtypes: that calls may have; their complex twins too, where annotations say ``Complex`` or ``Inexact``.
            cuda: compute capabilities of GPUs that it serves too, such as ``["80", "90"]``, and later ones of their
                generation. The operator is elementwise; halves among `dtypes` are for them alone.

        Raises:
            UnsupportedError: the operator writes into an argument; or the kernel is not in C or C++, or Python has a
                part in its calls: it rounds halves, gives the output's shape, or converts an argument. With `cuda`,
                its kernel does not run there, or sees samples.
            BuildError: a compiler refused it, or there is none.

        Example:
            >>> correlate2d.save_library("correlate2d.so", dtypes=[torch.float32])
        """
        record, kernel = self._record, self._record.kernel_for(torch.device("cpu"))
        if self.functional is not self:
            raise UnsupportedError(
                "a library has the function behind an operator that writes", operator=record.name,
                expected=f"{record.name}.functional.save_library(...)", got=f"{record.name}.save_library(...)",
                hint=f"export a model that calls {record.name}.functional",
            )  # fmt: skip
        if kernel.native is None or not record.opaque:
            raise UnsupportedError(
                "an exported model has the operator's torch code in it, and needs no library" if not record.opaque
                else "the kernel is written in Python, which a program without it cannot run",
                operator=record.name, expected="@tg.op(kernel=tg.c(...))", got=f"a kernel in {kernel.kind}",
            )  # fmt: skip
        from ._build.cuda.device import architectures
        from ._build.standalone import save  # The imports cost, and most programs save nothing.

        called = (self.torch_op.name(), self._lowering.opaque(mapped=False).torch_op.name())
        schema = record.signature.schema()
        on_cuda = record.kernels.get("cuda", kernel) if cuda else kernel
        if on_cuda.native is None:
            raise UnsupportedError(
                "the kernel for CUDA is written in Python, which a program without it cannot run", operator=record.name,
                argument="cuda", expected=f"@{record.name}.kernel('cuda', tg.c(...))", got=f"one in {on_cuda.kind}",
            )  # fmt: skip
        save(Path(path), called, schema, kernel.native, dtypes, on_cuda.native, architectures(cuda))

    def __repr__(self) -> str:
        return f"<torchgraft.Op {self._record.qualname}>"

    def __str__(self) -> str:
        from ._capabilities import describe

        return describe(self._record)

    # -- an operator is a function: copied and pickled by name ------------------------------------------------------

    def __prepare_scriptable__(self) -> Any:
        """Refuse `torch.jit.script`, which asks here."""
        raise UnsupportedError(
            "torch.jit.script compiles the source of a function, which an operator is not",
            operator=self._record.name,
            expected="torch.export.export or torch.compile",
            got="torch.jit.script",
            hint="torch.export.export(module, args)",
        )

    def __reduce__(self) -> str:
        return self.__qualname__

    def __copy__(self) -> Op[P, R_co]:
        return self

    def __deepcopy__(self, memo: Any) -> Op[P, R_co]:
        return self

    # -- calling ------------------------------------------------------------------------------------------------------

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the operator: for the first time, since the generated function then stands in its class."""
        if torch.compiler.is_dynamo_compiling():
            _torch.trace_anew_after(_generate_calls)
        self._generate_call()
        return self(*args, **kwargs)

    def _generate_call(self) -> None:
        own: Any = type(self)
        if own.__call__ is Op.__call__:
            own.__call__ = self._make_call().function
        with _lock:
            _without_call.discard(self)

    def _make_call(self) -> Call:
        return EagerCall(self._lowering)

    @property
    def functional(self) -> Op[..., Any]:
        """The operator that writes nothing and returns the new values of what this one writes, before its outputs.

        It has the rules of this one, and goes where torch lets nothing be written. An operator that writes nothing is
        its own.

        Example:
            >>> y = axpy_.functional(y, x, 2.0)
        """
        return self

    def _declare(self, change: Callable[[Record], None]) -> None:
        """Change the record, and forget what was derived of it."""
        change(self._record)
        self._lowering.forget()
        self._declare_again()

    def _declare_again(self) -> None:
        if type(self).__call__ is not Op.__call__:
            own: Any = own_class(self.__name__, type(self).__module__, type(self).__bases__[0])
            self.__class__ = own
            _await_call(self)


class WritingOp(Op[P, R_co]):
    """An operator that writes into its arguments: the functional one, and the writes."""

    _functional: Op[..., Any]
    _operator: WritingOperator

    @property
    def torch_op(self) -> Any:
        return self._operator.torch_op

    @property
    def functional(self) -> Op[..., Any]:
        return self._functional

    def _make_call(self) -> Call:
        return self._operator.make_call()

    def _declare_again(self) -> None:
        self._functional._declare_again()
        super()._declare_again()


_without_call: WeakSet[Op[..., Any]] = WeakSet()  # Operators whose call is not generated yet.
_lock = Lock()  # Threads may declare while another one compiles.


def require_source(source: object, operator: str) -> None:
    """Refuse what is no source of a kernel.

    Raises:
        DeclarationError: it is a path, or `c` itself.
    """
    if source is not None and not hasattr(source, "language"):
        raise DeclarationError(
            "a kernel outside of Python is named by its language", operator=operator, argument="kernel",
            expected="what tg.c, tg.cpp or tg.cuda returns", got=repr(source),
            hint=f'kernel=tg.c("{source}")' if isinstance(source, (str, Path)) else 'kernel=tg.c("file.c")',
        )  # fmt: skip


def _await_call(op: Op[..., Any]) -> None:
    with _lock:
        _without_call.add(op)


def _generate_calls(_: Any) -> None:
    """Generate the calls of all operators, for Dynamo, which cannot trace this: the next trace finds them.

    It does so for all at once: Dynamo begins anew a hundred times at most.
    """
    with _lock:
        found = list(_without_call)
    for op in found:
        op._generate_call()
    _torch.trace_anew("the calls of operators are generated now")


def own_class(name: str, module: str, base: type[Op[..., Any]] = Op) -> type[Op[..., Any]]:
    """Make a class for one operator, as it is declared so far.

    Its generated call lives there, so that ``op(x)`` is one Python call. Dynamo, which guards the types of what it
    has seen, tells one operator from another by it, and what was declared before a trace from what came later.
    """
    return type(name, (base,), {"__module__": module})
