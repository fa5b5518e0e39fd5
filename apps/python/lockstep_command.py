#!python
"""The program `lockstep`, which the package of the same name holds. Loads neither the package nor PyTorch."""
import importlib.util
import os
import sys

found = importlib.util.find_spec("lockstep")
if found is None or not found.submodule_search_locations:
    sys.exit(f"lockstep: the Python package lockstep is not installed for {sys.executable}")
program = os.path.join(found.submodule_search_locations[0], "bin", "lockstep")
try:
    os.execv(program, [program] + sys.argv[1:])
except OSError as error:
    sys.exit(f"lockstep: cannot execute {program}: {error.strerror}; install the package again")
