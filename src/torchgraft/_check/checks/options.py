"""The gradient with other options: arguments that are no tensors, data, and what is optional."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from torch import Tensor

from ..baseline import Baseline, baseline
from ..case import Case
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..generate.inputs import signature_of
from ..numeric.gradient import is_right
from ..options import AXES, SMALL, from_the_end, further, left_out, merged, narrowed, options, pairs, states
from ..target import Target
from ..variations import LARGE, SWEPT, nearby, resized, shape_of, sizes, within
from .combinations import Calls
from .memory import mutation
from .sizes import look_at
from .traits import row_of
from .ways import Words

OTHERS = (
    *(row_of(values=values) for values in (LARGE, SWEPT, "zeros")),
    *(row_of(order=order) for order in ("second order", "forward mode", "vmap")),
)
"""Other calls that are looked at with each option."""


PAIRS = 12
"""Pairs of options that are changed together."""

FOR_NONE = "a tensor for "
"""The first words of what is put in the place of None."""
REFUSE = "refuse it in the forward, if it is not made for it"
ADD_UP = "add up what an index gets that comes twice, by index_add or accumulate=True; or say that none may come twice"
"""A hint where it may be that indices have to be a permutation."""


class _Other(NamedTuple):
    """A call with another option.

    Attributes:
        what: is another, in words.
        case: the call.
        closely: look at more than its gradient.
        hint: what to do about what is found, where it may be that nobody gives it: then it is a notice.
        pair: the names of the options, where two are changed.
    """

    what: str
    case: Case
    closely: bool = True
    hint: str = ""
    pair: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """The names of the options."""
        return set(self.pair) or {self.what.partition("=")[0]}

    @property
    def is_number(self) -> bool:
        """True if the option is a number: what is wrong with one is wrong with others."""
        with contextlib.suppress(ValueError):
            return not math.isnan(float(self.what.partition("=")[2]))
        return False

    @property
    def is_in_the_place_of_none(self) -> bool:
        """True if it is a tensor that nobody gave."""
        return self.what.startswith(FOR_NONE)

    def told(self, finding: Finding) -> Finding:
        """The finding, with the option that it needs."""
        title, cause = finding.title, "; ".join(filter(None, [f"with {self.what}", finding.cause]))
        title += "" if finding.code == "backward-raises" else ", with an argument you did not give"
        case = finding.case or self.case
        return finding.but(title=title, where=f"{self.what}; {case.label}", cause=cause, case=case)


def other_options(case: Case) -> Iterator[Finding]:
    """Turn flags, change numbers, words and masks, lengthen lists, leave out what is optional or give it."""
    base = baseline(case)
    if not is_right(case):
        raise Skip("the gradient is wrong with the given options already")
    claimed, tried, wrong = signature_of(case.target) is not None, 0, set[str]()
    own = Calls(case).own
    for other in _others(base, claimed):
        with _mode_of(other.case.target, case.target):
            known = other.names & wrong and (other.is_number or not other.closely)
            if known or not _takes(base, other.case):
                continue
            found, wrapped = _found(other), _wrapped(other.what, other.case)
        tried += 1
        found = [other.told(f) for f in found if _key(f) not in _shown(case) and (own or not _is_lost(other, f))]
        if any(f.severity is Verdict.FAIL for f in found):
            wrong |= other.names
        # Some options of torch change gradients on purpose: embeddings have such ones.
        if other.hint or case.target.is_torch:
            found = [f.but(severity=Verdict.PASS, hint=f.hint or other.hint or None) for f in found]
        elif other.is_number and not own:  # At other values too: derivatives of torch's own have their limits.
            found = [f if f.given else f.but(severity=Verdict.PASS) for f in found]
        elif (other.is_number or other.is_in_the_place_of_none) and not claimed:
            # It is loud, and the forward may only not look at what fits together.
            found = [f.but(severity=Verdict.PASS, hint=REFUSE) if f.code == "backward-raises" else f for f in found]
        yield from (f.but(given=claimed) for f in (*found, *wrapped))
    if not tried:
        raise Skip("it has no options that could be others")


def _others(base: Baseline, claimed: bool) -> Iterator[_Other]:
    """Calls with another option, those that are looked at closely first."""
    case = base.case
    even = _even(case, claimed)
    axes = [] if even is None else [row for row in options(even) if row[0].partition("=")[0] in AXES]
    yield from itertools.starmap(_Other, (*options(case), *axes))
    for name, others in left_out(case):
        fitting = (other for other in others if _takes(base, other) and _uses(base, other))
        yield from (_Other(f"{FOR_NONE}{name}", other) for other in itertools.islice(fitting, 1))
    for what, other, state in states(case):
        yield _Other(what, other, closely=not state.buffers)
    yield from (_Other(what, other, closely=False) for what, other in further(case))
    for what, other, pair in itertools.islice(pairs(case), PAIRS):
        yield _Other(what, other, closely=False, pair=pair)
    yield from (_Other(what, other, closely=False, hint=ADD_UP) for what, other in merged(case))
    yield from (_Other(what, other, closely=False) for what, other in from_the_end(case))
    if claimed:  # An annotation may admit every dtype; of a bare function nobody knows.
        yield from (_Other(what, other, closely=False) for what, other in narrowed(case))


def _found(other: _Other) -> list[Finding]:
    """Look at the gradient with another option, then at other calls."""
    found = look_at(other.case, "an argument")
    return found or ([*_other_calls(other.case), *_written(other.case)] if other.closely else [])


def _shown(case: Case) -> set[Hashable]:
    """Keys of what other calls show with the given options too: it is no matter of others, and told elsewhere."""
    if "shown" not in case.memo:
        case.memo["shown"] = {_key(finding) for finding in (*_other_calls(case), *_written(case))}
    return case.memo["shown"]  # type: ignore[no-any-return]


def _is_lost(other: _Other, finding: Finding) -> bool:
    """Return True if what is put in makes the gradient NaN, as a temperature of 0 does, or a mask of all of a row."""
    lost = isinstance(finding.analytic, float) and math.isnan(finding.analytic)
    return lost and (other.is_number or other.is_in_the_place_of_none)


def _key(finding: Finding) -> Hashable:
    return finding.code, finding.cause


def _even(case: Case, claimed: bool) -> Case | None:
    """The case with axes of one size, of which any may be named; None where they are, or a table would be another."""
    even, largest = case, max(sizes(case), default=1)
    for size in sizes(case):
        even = resized(even, size, largest) if 1 < size < largest else even
    rows = zip(case.leaf_names, case.leaves, even.leaves, strict=True)
    changed = {name for name, a, b in rows if shape_of(a) != shape_of(b)}
    if not changed or not (claimed or changed <= set(case.names)):
        return None
    return even.replaced(nearby(even, spread=2.0**-3))


def _wrapped(what: str, case: Case) -> list[Finding]:
    """Compare outputs for small integers with those for the same numbers in int64, which do not wrap around."""
    wide = [leaf.long() if isinstance(leaf, Tensor) and leaf.dtype in SMALL else leaf for leaf in case.leaves]
    if all(a is b for a, b in zip(wide, case.leaves, strict=True)) or case.target.is_torch:
        return []
    with contextlib.suppress(Exception):  # The target refuses int64.
        found = case.with_leaves(wide).values()
        return list(WRAPPED.of(baseline(case).differing_outputs(found)[:1], f"{what}; {case.label}"))
    return []


WRAPPED = Words(
    "integers-wrap", "Small integers wrap around: {} is another in int64",
    "arithmetic on small integers wraps around: in uint8, 3 - 5 is 254", "convert to the dtype of the result before",
)  # fmt: skip


def _written(case: Case) -> list[Finding]:
    """Look for writing into arguments; what raises there is found with the given options."""
    with contextlib.suppress(Exception):
        return list(mutation(case))
    return []


def _other_calls(case: Case) -> list[Finding]:
    """Look at some other values, and at the second order, the forward mode and vmap, as far as they can be told."""
    calls, found = Calls(case), list[Finding]()
    for row in OTHERS:
        with contextlib.suppress(Skip, Inconclusive):
            finding = calls.look(row)
            found += [] if finding is None else [calls.told(row, finding)]
    return found


def _takes(base: Baseline, case: Case) -> bool:
    """Return True if the forward takes an option, and has a derivative there: a mask may have left out an infinity."""
    with contextlib.suppress(Exception):
        outputs = case.linearize().outputs
        finite = all(map(_is_finite, outputs)) or not all(map(_is_finite, base.outputs))
        return finite and within(case) and any(o.requires_grad for o in outputs)
    return False


def _is_finite(output: Tensor) -> bool:
    return bool(output.isfinite().all())


def _uses(base: Baseline, other: Case) -> bool:
    """Return True if a case has outputs of the same sizes and other values: what it was given besides is used."""
    found = [output.detach() for output in other.outputs()]
    alike = [output.shape for output in found] == [output.shape for output in base.outputs]
    return alike and bool(base.differing_outputs(found))


@contextlib.contextmanager
def _mode_of(target: Target, given: Target) -> Iterator[None]:
    """Within, the given module has the mode of another state: a function that a copy holds may ask the original."""
    parts = given.origin.modules() if target.state else ()
    before = [(part, part.training) for part in parts]
    for part, _ in before:
        part.training = target.state.training  # type: ignore[union-attr] # Without a state there are no parts.
    try:
        yield
    finally:
        for part, training in before:
            part.training = training
