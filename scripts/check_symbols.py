#!/usr/bin/env python3
"""check_symbols.py BUILD_FOLDER: fails where a room or an application needs a symbol that is defined in one which it may not include,
as far as those that it may include lead there (scripts/check_floors.sh has the list). An include check cannot see a function that is
declared on one floor and defined on another."""
import pathlib
import re
import subprocess
import sys

build = pathlib.Path(sys.argv[1])
source = pathlib.Path(__file__).resolve().parent
rules = re.findall(r'^  \[([\w/]+)\]="([\w/ ]*)"', (source / "check_floors.sh").read_text(), re.M)
may_include = {room: set(names.split()) for room, names in rules}


def reachable(room):
    """What the room may include, and what headers of those may include in turn."""
    found, left = set(), [room]
    while left:
        for name in may_include[left.pop()] - found:
            found.add(name)
            left.append(name)
    return found | {room}


objects = {}
for path in sorted([*(build / "rooms").rglob("*.o"), *(build / "apps").rglob("*.o")]):
    folder, name = path.relative_to(build).parts[:2]
    room = name if folder == "rooms" else f"{folder}/{name}"
    if room in may_include:
        objects.setdefault(room, []).append(str(path))
if len(objects) < len(may_include) // 2:  # a room of headers has none
    sys.exit(f"check_symbols: {build} has no finished build")

defined, needed = {}, {}
for room, paths in objects.items():
    for line in subprocess.run(["nm", "-P", *paths], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if len(words) < 2 or "lockstep" not in words[0]:
            continue
        if words[1] in "TDBR":  # inline functions (W, V) are everybody's
            defined.setdefault(words[0], room)
        elif words[1] == "U":
            needed.setdefault(words[0], set()).add(room)

wrong = []
for symbol, rooms in needed.items():
    where = defined.get(symbol)
    wrong += [(room, where, symbol) for room in rooms if where and where not in reachable(room)]
names = subprocess.run(["c++filt"], input="\n".join(w[2] for w in wrong), capture_output=True, text=True, check=True).stdout
for (room, where, _), name in sorted(zip(wrong, names.splitlines())):
    print(f"{room}/ needs {name}, which {where}/ defines and {room}/ may not include", file=sys.stderr)
print(f"symbols: {len(defined)} of {len(objects)} rooms, {len(wrong)} behind a wall")
sys.exit(1 if wrong else 0)
