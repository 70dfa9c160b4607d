"""The private names of torch that have no substitute, looked up at once: without one, nothing begins.

The dispatcher, levels of transforms, and what tells a plain tensor from others have no public names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import torch

OLDEST, NEWEST = "2.11", "2.15"
"""The versions of torch that the tests run on."""

NAMES = (
    "torch._C:DispatchKey.CompositeImplicitAutograd",
    "torch._C:DispatchKey.PythonTLSSnapshot",
    "torch._C:DispatchKeySet",
    "torch._C:_AutoDispatchBelowAutograd",
    "torch._C:_DisableFuncTorch",
    "torch._C:_ExcludeDispatchKeyGuard",
    "torch._C:_ForceDispatchKeyGuard",
    "torch._C:_FunctionBase.saved_tensors",
    "torch._C:_TorchDispatchModeKey.FUNCTIONAL",
    "torch._C:_TorchDispatchModeKey.PROXY",
    "torch._C:_after_autograd_keyset",
    "torch._C:_are_functorch_transforms_active",
    "torch._C._autograd:_saved_tensors_hooks_set_tracing",
    "torch._C._autograd:_top_saved_tensors_default_hooks",
    "torch._C:_dispatch_has_kernel_for_dispatch_key",
    "torch._C:_dispatch_tls_is_dispatch_key_excluded",
    "torch._C:_dispatch_tls_local_exclude_set",
    "torch._C:_dispatch_tls_local_include_set",
    "torch._C._dynamo.eval_frame:_FrameAction.SKIP",
    "torch._C._dynamo.eval_frame:_FrameExecStrategy",
    "torch._C._dynamo.eval_frame:set_code_exec_strategy",
    "torch._C._dynamo.guards:TensorGuards",
    "torch._C._functorch:_add_batch_dim",
    "torch._C._functorch:_set_vmap_fallback_warning_enabled",
    "torch._C._functorch:_unwrap_batched",
    "torch._C._functorch:_unwrap_for_grad",
    "torch._C._functorch:_wrap_for_grad",
    "torch._C._functorch:get_inplace_requires_grad_allowed",
    "torch._C._functorch:get_single_level_autograd_function_allowed",
    "torch._C._functorch:get_unwrapped",
    "torch._C._functorch:is_batchedtensor",
    "torch._C._functorch:is_functorch_wrapped_tensor",
    "torch._C._functorch:is_legacy_batchedtensor",
    "torch._C._functorch:set_inplace_requires_grad_allowed",
    "torch._C._functorch:set_single_level_autograd_function_allowed",
    "torch._C._functorch:unwrap_if_dead",
    "torch._C:_get_dispatch_mode",
    "torch._C:_get_privateuse1_backend_name",
    "torch._C:_is_fwd_grad_enabled",
    "torch._C:_is_tracing",
    "torch._C:_jit_get_operation",
    "torch._C:_len_torch_dispatch_stack",
    "torch._C:_len_torch_function_stack",
    "torch._C:_set_grad_enabled",
    "torch._C:_storage_Use_Count",
    "torch._C:_storage_address",
    "torch._C:_vmapmode_decrement_nesting",
    "torch._C:_vmapmode_increment_nesting",
    "torch._C:_will_engine_execute_node",
    "torch._VF:_make_dual",
    "torch._VF:_unpack_dual",
    "torch:_add_batch_dim",
    "torch:_check",
    "torch._dynamo:graph_break",
    "torch._dynamo.comptime:comptime",
    "torch._dynamo.exc:UnspecializeRestartAnalysis",
    "torch._dynamo.guards:install_guard",
    "torch._dynamo.variables.ctx_manager:DualLevelContextManager._guards_singleton",
    "torch.distributed._functional_collectives:AsyncCollectiveTensor",
    "torch.distributed.tensor._dtensor_spec:DTensorSpec",
    "torch.distributed.tensor._dtensor_spec:TensorMeta",
    "torch.distributed.tensor._utils:ExplicitRedistributionContext.observe_redistribution",
    "torch._export.utils:_maybe_find_pre_dispatch_tf_mode_for_export",
    "torch._functorch.autograd_function:VmapInfo",
    "torch._functorch.autograd_function:vmapify_autograd_function",
    "torch._functorch.autograd_function:wrap_outputs_maintaining_identity",
    "torch._functorch.pyfunctorch:retrieve_current_functorch_interpreter",
    "torch._functorch.pyfunctorch:temporarily_clear_interpreter_stack",
    "torch._guards:TracingContext.try_get",
    "torch._guards:detect_fake_mode",
    "torch:_is_zerotensor",
    "torch._library.custom_ops:CustomOpDef",
    "torch._library.fake_impl:FakeImplCtx",
    "torch._ops:OpOverload",
    "torch._ops:OpOverloadPacket",
    "torch._ops:_get_dispatch_mode_pre_dispatch",
    "torch._ops:_len_torch_dispatch_stack_pre_dispatch",
    "torch:_remove_batch_dim",
    "torch._subclasses.fake_tensor:FakeTensorMode",
    "torch.autograd.forward_ad:_current_level",
    "torch.autograd.forward_ad:_set_fwd_grad_enabled",
    "torch.autograd.function:_SingleLevelFunction",
    "torch.autograd.profiler:_is_profiler_enabled",
    "torch.nn.modules.module:_global_forward_hooks",
    "torch.nn.modules.module:_global_forward_pre_hooks",
    "torch.overrides:_get_current_function_mode_stack",
    "torch.utils._python_dispatch:TorchDispatchMode",
    "torch.utils._python_dispatch:_disable_current_modes",
    "torch.utils._pytree:GetAttrKey",
    "torch.utils._pytree:SUPPORTED_NODES",
    "torch.utils._pytree:register_pytree_node",
    "torch.utils._pytree:tree_leaves",
    "torch.utils._pytree:tree_map_only",
)
"""Modules, and names in them. Where torch may lack a name, the room asks for it with a substitute at hand."""


def require(names: Iterable[str] = NAMES) -> None:
    """Look up names whose modules are loaded; those of Dynamo and of DTensor are asked for when they are.

    Raises:
        ImportError: torch has not all of them; the text says which, and which versions of torch have.
    """
    missing = list(absent_names(names))
    if missing:
        raise ImportError(
            f"torchgraft does not know torch {torch.__version__}, which has no {', '.join(missing)}\n"
            f"  expected: torch {OLDEST} to {NEWEST}\n"
            f"  next:     install one of these, or a newer torchgraft: pip install 'torch=={NEWEST}.*'"
        )


def absent_names(names: Iterable[str]) -> Iterator[str]:
    """The names among some that torch does not have, of modules that are loaded."""
    for name in names:
        module, _, path = name.partition(":")
        found = sys.modules.get(module)
        for part in path.split(".") if found is not None else ():
            if not hasattr(found, part):
                yield name.replace(":", ".")
                break
            found = getattr(found, part)
