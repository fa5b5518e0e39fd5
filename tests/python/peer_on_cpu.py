"""Tests of PyTorch that ask for GPUs, on the CPU: what they would put on a GPU stays there (for peer_suite.py).

Most of them test DistributedDataParallel, not the GPU. Some cannot pass in this way, whatever the backend: those that need
streams, a mesh of GPUs, or the name of a device. Only what passes with gloo counts.
"""
import torch
from torch.overrides import TorchFunctionMode
from torch.testing._internal import common_distributed


def is_gpu(value):
    return (isinstance(value, torch.device) and value.type == "cuda") or (isinstance(value, str) and value.split(":")[0] == "cuda")


class OnCpu(TorchFunctionMode):
    """Makes tensors on the CPU where a program asks for a GPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.Tensor.cuda:
            return args[0].clone()
        if function is torch.Tensor.to:
            args = [torch.device("cpu") if type(value) is int else value for value in args]
        if function is not torch.device:  # the name of a device stays
            args = [torch.device("cpu") if is_gpu(value) else value for value in args]
            if is_gpu(kwargs.get("device")) or type(kwargs.get("device")) is int:
                kwargs["device"] = torch.device("cpu")
        return function(*args, **kwargs)


def allow_without_gpus(*_arguments, **_options):
    """Stands for a decorator that skips a test where there are too few GPUs."""
    def decorate(test):
        test.wants_gpus = True  # the decorators around this one copy it
        return test
    return decorate


def before_import():
    """Before PyTorch's module of tests is imported: its decorators are evaluated then."""
    common_distributed.skip_if_lt_x_gpu = allow_without_gpus
    common_distributed.skip_if_no_gpu = allow_without_gpus()
    common_distributed.nccl_skip_if_lt_x_gpu = allow_without_gpus


def wants_gpus(test):
    while test is not None:
        if getattr(test, "wants_gpus", False):
            return True
        reason = getattr(test, "__unittest_skip_why__", "").lower()
        if "nccl" in reason or "cuda" in reason:
            return True
        test = getattr(test, "__wrapped__", None)
    return False


def in_this_process(peer):
    """Changes PyTorch in the process of one rank of one test, for good, and returns the context that the test needs."""
    peer.init_multigpu_helper = lambda ranks, _backend: {rank: [rank] for rank in range(ranks)}
    for name in ("set_device", "manual_seed", "synchronize"):
        setattr(torch.cuda, name, lambda *_arguments, **_options: None)
    torch.cuda.current_device = lambda: 0

    torch.nn.Module.cuda = lambda self, device=None: self
    move = torch.nn.Module.to

    def to(self, *args, **kwargs):
        args = [torch.device("cpu") if is_gpu(value) or type(value) is int else value for value in args]
        return move(self, *args, **kwargs)
    torch.nn.Module.to = to

    wrap = torch.nn.parallel.DistributedDataParallel.__init__

    def init(self, module, device_ids=None, output_device=None, **options):
        wrap(self, module, **options)
    torch.nn.parallel.DistributedDataParallel.__init__ = init
    return OnCpu()
