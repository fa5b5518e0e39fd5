"""Lockstep for programs of PyTorch: the backend "lockstep" of torch.distributed.

    import lockstep, torch.distributed as dist
    dist.init_process_group("lockstep")
"""
import torch

from lockstep import _built_for

_built_for.require(torch)

from lockstep._register import register  # noqa: E402: it loads the library

register()

__version__ = _built_for.LOCKSTEP_VERSION
