"""Hosts the store of a job in Python, as an agent written in Python would, until it gets SIGTERM.

Prints the port; at the end, how many keys the ranks left.
"""
import signal
from datetime import timedelta

import torch.distributed as dist

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # before the store's thread is there
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=60))
print(store.port, flush=True)
signal.sigwait({signal.SIGTERM})
print("keys" if store.num_keys() > 1 else "nobody was here", flush=True)
