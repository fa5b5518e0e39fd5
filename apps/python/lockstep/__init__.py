"""Lockstep for programs of PyTorch: the backend "lockstep" of torch.distributed.

    import lockstep, torch.distributed as dist
    dist.init_process_group("lockstep")
"""
import torch

from lockstep import _built_for

_built_for.require(torch)

import lockstep_autoload  # noqa: E402

from lockstep import _groups  # noqa: E402: it loads the library

lockstep_autoload.register()
_groups.set_variables()

__version__ = _built_for.LOCKSTEP_VERSION
