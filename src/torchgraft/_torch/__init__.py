"""Every private torch name in use, each with what it is for and a fallback where one is possible.

Nothing else in the package touches a name of torch that starts with an underscore.
"""

# ruff: noqa: E402 # Names are looked up before anything uses them.

from .names import require as require

require()

from torch.autograd import forward_ad as forward_ad
from torch.autograd import profiler as profiler
from torch.utils import _pytree

from .autocast import AUTOCAST_KEYS as AUTOCAST_KEYS
from .autocast import any_autocast as any_autocast
from .autocast import autocast_off as autocast_off
from .autocast import below_autocast as below_autocast
from .dispatcher import COMPOSITE_IMPLICIT as COMPOSITE_IMPLICIT
from .dispatcher import bare_operator as bare_operator
from .dispatcher import below_autograd as below_autograd
from .dispatcher import fallthrough_kernel as fallthrough_kernel
from .dispatcher import is_custom as is_custom
from .dispatcher import is_declared as is_declared
from .dispatcher import module_of as module_of
from .dispatcher import outside_handlers as outside_handlers
from .dispatcher import overload_of as overload_of
from .dispatcher import redispatch_below_autograd as redispatch_below_autograd
from .dispatcher import register_fake as register_fake
from .dtensors import DTENSOR as DTENSOR
from .dtensors import all_dtensors as all_dtensors
from .dtensors import any_dtensor as any_dtensor
from .dtensors import any_dtensor_below as any_dtensor_below
from .dtensors import dtensor_below as dtensor_below
from .dtensors import laid_as as laid_as
from .dtensors import lies_as as lies_as
from .dtensors import local_part as local_part
from .dtensors import make_dtensor as make_dtensor
from .dtensors import make_spec as make_spec
from .dtensors import memo_of as memo_of
from .dtensors import redistributed as redistributed
from .dtensors import register_dtensor_rule as register_dtensor_rule
from .dtensors import replicates_implicitly as replicates_implicitly
from .dtensors import spec_of as spec_of
from .duals import any_tangent as any_tangent
from .duals import has_derivative as has_derivative
from .duals import has_tangent as has_tangent
from .duals import in_dual_level as in_dual_level
from .duals import known_forward_level as known_forward_level
from .duals import make_dual as make_dual
from .duals import may_carry_tangent as may_carry_tangent
from .duals import tangents_possible as tangents_possible
from .duals import unpack_dual as unpack_dual
from .effort import PRICE as PRICE
from .effort import Effort as Effort
from .effort import TooMuch as TooMuch
from .functions import SingleLevelFunction as SingleLevelFunction
from .functions import VmapInfo as VmapInfo
from .functions import is_function_output as is_function_output
from .functions import is_once_differentiable as is_once_differentiable
from .functions import saved_tensors as saved_tensors
from .functions import single_level as single_level
from .functions import vmapify as vmapify
from .generators import Generators as Generators
from .generators import RandomWatch as RandomWatch
from .generators import directly as directly
from .graph import engine_wants as engine_wants
from .graph import functions_in_graph as functions_in_graph
from .graph import hooks_on_saved as hooks_on_saved
from .graph import hooks_on_saved_off as hooks_on_saved_off
from .graph import input_metadata as input_metadata
from .graph import is_same_leaf as is_same_leaf
from .graph import nodes_in_graph as nodes_in_graph
from .graph import refuses_backward as refuses_backward
from .legacy_vmap import is_legacy_batched as is_legacy_batched
from .legacy_vmap import legacy_unwrap as legacy_unwrap
from .legacy_vmap import legacy_wrap as legacy_wrap
from .legacy_vmap import map_legacy as map_legacy
from .levels import current_level as current_level
from .levels import functorch_active as functorch_active
from .levels import inside_level as inside_level
from .levels import level as level
from .levels import opens_no_level as opens_no_level
from .levels import outside_level as outside_level
from .levels import recording_levels as recording_levels
from .levels import requires_grad_inside as requires_grad_inside
from .on_import import once_loaded as once_loaded
from .onlookers import nan_is_equal as nan_is_equal
from .onlookers import profiling as profiling
from .onlookers import without_onlookers as without_onlookers
from .plain import PLAIN_TYPES as PLAIN_TYPES
from .plain import absent as absent
from .plain import distinct as distinct
from .plain import holds_numbers as holds_numbers
from .plain import is_at_bottom as is_at_bottom
from .plain import is_direct as is_direct
from .plain import plain_tensors as plain_tensors
from .plain import plain_tensors_of as plain_tensors_of
from .plain import runs_eagerly as runs_eagerly
from .quiet import quiet_compilers as quiet_compilers
from .quiet import quiet_vmap as quiet_vmap
from .storage import borrows_memory as borrows_memory
from .storage import borrows_plainly as borrows_plainly
from .storage import borrows_storage as borrows_storage
from .storage import count_writes as count_writes
from .storage import counts_with as counts_with
from .storage import is_view as is_view
from .storage import memory as memory
from .storage import overlap as overlap
from .storage import overlap_in_storage as overlap_in_storage
from .storage import overlaps_itself as overlaps_itself
from .storage import shares_memory as shares_memory
from .storage import span as span
from .storage import storage_address as storage_address
from .storage import storage_holders as storage_holders
from .storage import version as version
from .structures import register_dataclass as register_dataclass
from .thread_modes import count_function_modes as count_function_modes
from .thread_modes import dispatch_modes as dispatch_modes
from .thread_modes import forward_mode_enabled as forward_mode_enabled
from .thread_modes import function_modes as function_modes
from .thread_modes import modes as modes
from .thread_modes import set_grad_enabled as set_grad_enabled
from .tracing import DYNAMO as DYNAMO
from .tracing import DYNAMO_KNOWS_FUNCTIONS as DYNAMO_KNOWS_FUNCTIONS
from .tracing import checkpointed as checkpointed
from .tracing import disabled as disabled
from .tracing import fake_call as fake_call
from .tracing import fake_mode_of as fake_mode_of
from .tracing import graph_break as graph_break
from .tracing import guard_forward_level as guard_forward_level
from .tracing import is_tracing as is_tracing
from .tracing import new_size as new_size
from .tracing import no_dynamo as no_dynamo
from .tracing import promise as promise
from .tracing import tangents_from_outside as tangents_from_outside
from .tracing import trace_anew as trace_anew
from .tracing import trace_anew_after as trace_anew_after
from .tracing import tracing_final_graph as tracing_final_graph
from .tracing import tracing_to_graph as tracing_to_graph
from .tracing import vmap_escapes_tracer as vmap_escapes_tracer
from .tracing import without_derivative as without_derivative
from .wrappers import add_batch as add_batch
from .wrappers import below_levels as below_levels
from .wrappers import is_wrapped as is_wrapped
from .wrappers import plain_sample as plain_sample
from .wrappers import plain_samples as plain_samples
from .wrappers import unwrap_batched as unwrap_batched
from .wrappers import unwrap_dead as unwrap_dead
from .wrappers import with_identity as with_identity
from .wrappers import with_level as with_level
from .wrappers import without_level as without_level
from .wrappers import without_levels as without_levels
from .wrappers import wrapped_in as wrapped_in

pytree = _pytree
"""Nested arguments as a flat list; the public functions do not tell the paths."""
