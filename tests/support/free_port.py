"""Ports of this machine that a test may use."""
import random
import socket

_names = []


def free_port():
    """No test of this machine takes it until this process ends: its name as an abstract Unix socket is ours. It is below the
    ports that the kernel gives to connections. port.h has the same names."""
    while True:
        port = random.randrange(10000, 28000)
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0lockstep_test_port_{port}")
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("", port))
        except OSError:
            name.close()
            continue
        _names.append(name)
        return port
