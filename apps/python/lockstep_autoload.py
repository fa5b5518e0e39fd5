"""The registration of the backend "lockstep" with torch.distributed, which loads the package only for the first group."""


def _make(options, _options_of_user):
    import lockstep._groups
    return lockstep._groups.make(options)


def register():
    """PyTorch calls this at the end of its own import (entry point torch.backends), and so does `import lockstep`."""
    try:
        import torch.distributed as dist
        if dist.is_available() and "lockstep" not in dist.Backend.backend_list:
            dist.Backend.register_backend("lockstep", _make, extended_api=True, devices=["cpu", "cuda"])
    except Exception as error:  # noqa: BLE001: an error would make `import torch` fail
        import warnings
        warnings.warn(f"the backend lockstep of torch.distributed is not available: {error}", stacklevel=2)
