#!/usr/bin/env python3
"""The pictures of the documents. Draws docs/pictures/*.svg from docs/architecture.md and from data in bench/results.

scripts/draw_pictures.py          writes the pictures
scripts/draw_pictures.py --check  fails unless they are what this script draws

All pictures are 640 units wide, so that their texts of 14 units and more can be read at 400 pixels; a text that does not fit into its
box is an error. They have a background of their own, and other colours where the reader's system is dark.
"""

import csv
import pathlib
import re
import sys
import textwrap
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
WIDTH = 640

FONTS = """text { font-family: "DejaVu Sans", Verdana, sans-serif; font-size: 14px }
    .mono { font-family: "DejaVu Sans Mono", monospace } .bold { font-weight: bold } .big { font-size: 18px }
    .middle { text-anchor: middle } .end { text-anchor: end } .line, .grid, .curve { fill: none; stroke-width: 1.5 }
    .grid { stroke-width: 0.5 } .curve { stroke-width: 2.5 }"""
COLOURS = """text { fill: INK } .soft { fill: SOFT } .page { fill: PAGE } .plain { fill: PLAIN; stroke: LINE }
    .blue { fill: BLUE; stroke: BLUELINE } .green { fill: GREEN; stroke: GREENLINE } .orange { fill: ORANGE; stroke: ORANGELINE }
    .line, .grid { stroke: LINE } .curve { stroke: BLUELINE } .head { fill: LINE } .dot { fill: ORANGELINE }"""
LIGHT = dict(INK="#1f2328", SOFT="#57606a", PAGE="#ffffff", PLAIN="#f0f2f5", LINE="#7d8590", BLUE="#cfe3ff", BLUELINE="#0b63ce",
             GREEN="#d3f0d9", GREENLINE="#1a7f37", ORANGE="#ffe0c9", ORANGELINE="#b84a00")
DARK = dict(INK="#e6edf3", SOFT="#a5afb9", PAGE="#0d1117", PLAIN="#1d242d", LINE="#8b949e", BLUE="#12325c", BLUELINE="#6cb0ff",
            GREEN="#14391f", GREENLINE="#5cc878", ORANGE="#54290f", ORANGELINE="#ff9d66")


def coloured(colours):
    return re.sub(r"\b[A-Z]{3,}\b", lambda word: colours[word[0]], COLOURS)


class Picture:
    """One SVG file: shapes and texts in the order in which they were added."""

    def __init__(self, name, height, title, description):
        self.name, self.height, self.title, self.description = name, height, title, description
        self.parts = []

    def text(self, x, y, words, kind="", room=None):
        size = 18 if "big" in kind else 14
        width = len(words) * size * (0.61 if "mono" in kind else 0.66 if "bold" in kind else 0.58)
        start = x - width / 2 if "middle" in kind else x - width if "end" in kind else x
        if (room and width > room) or start < 0 or start + width > WIDTH:
            raise SystemExit(f"{self.name}: '{words}' needs {width:.0f} units and has {room or WIDTH - x}")
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>')

    def box(self, x, y, width, height, kind="plain", words="", below=""):
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{kind}"/>')
        if words:
            middle = y + height / 2 + 5
            self.text(x + width / 2, middle - (9 if below else 0), words, "middle bold" if below else "middle", width)
        if below:
            self.text(x + width / 2, middle + 9, below, "middle soft", width)

    def note(self, y, words):
        for i, line in enumerate(textwrap.wrap(words, 76)):
            self.text(8, y + 17 * i, line, "soft")

    def path(self, points, kind="line", arrow=False):
        way = " ".join(f"{'L' if i else 'M'}{x:g} {y:g}" for i, (x, y) in enumerate(points))
        self.parts.append(f'<path d="{way}" class="{kind}"/>')
        if arrow:
            (x0, y0), (x1, y1) = points[-2:]
            length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
            u, v = (x1 - x0) / length, (y1 - y0) / length
            corners = [(x1, y1), (x1 - 9 * u - 5 * v, y1 - 9 * v + 5 * u), (x1 - 9 * u + 5 * v, y1 - 9 * v - 5 * u)]
            self.parts.append('<path d="M' + " L".join(f"{x:g} {y:g}" for x, y in corners) + ' Z" class="head"/>')

    def svg(self):
        dark = " ".join(coloured(DARK).split())
        return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" role="img" aria-labelledby="title desc">
  <title id="title">{escape(self.title)}</title>
  <desc id="desc">{escape(self.description)}</desc>
  <style>
    {FONTS}
    {coloured(LIGHT)}
    @media (prefers-color-scheme: dark) {{ {dark} }}
  </style>
  <rect width="{WIDTH}" height="{self.height}" class="page"/>
  """ + "\n  ".join(part.replace(' class=""', "") for part in self.parts) + "\n</svg>\n"


def table(name):
    """The rows of a file of bench/results, without its comments and the names of its columns."""
    with open(ROOT / "bench" / "results" / name, encoding="utf-8") as file:
        return list(csv.reader(line for line in file if not line.startswith("#")))[1:]


# What a room of the house is for, in a few words. A room that is not here is drawn with its name alone.
ROOMS = dict(
    base="errors, config", compat="old and new libtorch", kernels="fast operators", rows="rows of tables", world="rank and size",
    net="HTTP and TLS", store="where ranks meet", membership="who belongs to a job", dashboard="the live page of a job", doctor="why ranks do not meet",
    comm="groups and collectives: shm, tcp, mpi, nccl", mirrored="data parallel", data="files", samples="batches",
    models="networks", parameter_servers="tables on other processes", plan="the best layout", train="a run", cluster="the launcher", state="checkpoints",
    runner="a program", cli="the program lockstep", **{"global": "divided tensors"})


def house():
    floors = {}
    for line in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("\n"):
        row = re.match(r"\| (\d+) \| `([a-z_]+)/` \|.*\| ([a-z]+)[^|]*\|$", line)
        if row:
            floors.setdefault(int(row[1]), []).append((row[2], row[3] == "yes"))
    top, step = 92, 48
    height = top + step * len(floors) + 40
    picture = Picture("house", height, "The house: folders of lockstep/ by floor",
                      "A folder includes only folders on lower floors. From the top: " +
                      "; ".join(f"floor {floor}: " + ", ".join(room for room, _ in floors[floor]) for floor in sorted(floors, reverse=True)) + ".")
    picture.path([(50, top - 6), (WIDTH / 2 + 22, 14), (WIDTH - 6, top - 6)])
    picture.text(WIDTH / 2 + 22, 62, "your program, or YAML", "middle")
    for level, floor in enumerate(sorted(floors, reverse=True)):
        y = top + step * level
        picture.text(30, y + 26, str(floor), "middle bold")
        rooms = floors[floor]
        # Longer words get wider rooms.
        need = [max(len(room) * 9.6, len(ROOMS.get(room, "")) * 8.3) + 6 for room, _ in rooms]
        spare = (WIDTH - 50 - 8 - 6 * (len(rooms) - 1) - sum(need)) / len(rooms)
        x = 50
        for (room, torch), width in zip(rooms, need):
            picture.box(x, y, width + spare, step - 6, "blue" if torch else "plain", room, ROOMS.get(room, ""))
            x += width + spare + 6
    picture.box(50, height - 30, 20, 16, "blue")
    picture.text(78, height - 17, "needs libtorch", "soft")
    picture.box(210, height - 30, 20, 16, "plain")
    picture.text(238, height - 17, "does not, or only in a part", "soft")
    return picture


def training_step():
    picture = Picture(
        "step", 336, "One training step of two ranks, through buckets",
        "Both ranks compute forward, then backward from the last layer to the first. When the gradients of layer 3 fill a bucket, the "
        "bucket is reduced over both ranks while backward of layers 2 and 1 continues. Only the reduction of the last bucket is waited "
        "for. Then each rank updates its copy of the model, and the copies stay equal, bit for bit.")
    picture.text(8, 22, "time", "soft")
    picture.path([(52, 17), (632, 17)], arrow=True)
    for rank, y in ((0, 40), (1, 236)):
        picture.text(8, y + 25, f"rank {rank}", "bold")
        picture.box(72, y, 112, 40, "green", "forward")
        for i in range(3):
            picture.box(188 + 84 * i, y, 80, 40, "blue", f"layer {3 - i}")
        picture.text(314, y + (58 if rank == 0 else -8), "backward", "middle soft")
        picture.box(526, y, 106, 40, "green", "update")
        near, far = (y + 42, 118) if rank == 0 else (y - 2, 196)
        picture.path([(268, near), (268, far)], arrow=True)
        picture.path([(436, near), (436, far)], arrow=True)
        picture.path([(522, far), (540, near)], arrow=True)
    picture.text(8, 146, "buckets", "bold")
    picture.box(258, 122, 164, 70, "orange", "bucket 1", "hidden by backward")
    picture.box(428, 122, 94, 70, "orange", "bucket 2", "waited for")
    picture.text(8, 166, "summed over the ranks,", "soft")
    picture.text(8, 184, "while they compute", "soft")
    picture.note(312, "All copies of the model stay equal, bit for bit. Sums have one order, which depends on the number of ranks alone.")
    return picture


def loss_and_return():
    picture = Picture(
        "loss_and_return", 322, "A rank is lost and comes back",
        "Time runs to the right. At 0 seconds rank 1 is killed in step 12. At 0.1 seconds the collective of ranks 0 and 2 fails; they "
        "keep their processes, parameters, optimizer and position in the data, and the launcher's service starts a new process. At about "
        "2 seconds the new process has registered and gets rank 1 and the newest state from the other ranks, and all continue with step 12.")
    marks = ((236, "0 s"), (282, "0.1 s"), (474, "about 2 s"))
    for x, words in marks:
        picture.path([(x, 34), (x, 262)])
        picture.text(x, 24, words, "middle bold" if x != 236 else "end bold")
    for y, name in ((44, "launcher"), (100, "rank 1"), (156, "rank 0"), (212, "rank 2")):
        picture.text(8, y + 25, name, "bold")
    picture.box(84, 44, 548, 40, "plain")
    picture.text(92, 69, "heartbeats", "soft")
    picture.text(290, 69, "starts a new process", "soft")
    picture.text(482, 69, "next generation", "soft")
    picture.box(84, 100, 152, 40, "green", "steps ... 11, 12")
    picture.text(258, 126, "✕", "middle big")
    picture.box(312, 100, 160, 40, "orange", "new process")
    picture.box(476, 100, 156, 40, "green", "12, 13 ...")
    for y in (156, 212):
        picture.box(84, y, 196, 40, "green", "steps ... 11, 12")
        picture.box(284, y, 188, 40, "plain", "keeps its memory")
        picture.box(476, y, 156, 40, "green", "12, 13 ...")
    picture.path([(330, 84), (330, 99)], arrow=True)
    picture.path([(464, 99), (464, 86)], arrow=True)
    picture.path([(492, 155), (492, 142)], arrow=True)
    picture.note(284, "Rank 1 gets the newest state of the others. No completed step is lost, and the result has the bits of a run without the loss.")
    return picture


def placements():
    picture = Picture(
        "placements", 452, "One tensor on a mesh of four ranks, in four placements",
        "The mesh has two axes of two ranks, data and model. With Replicate, Replicate each rank holds all of the tensor. With Shard(0), "
        "Replicate the ranks of the first half hold the upper rows, the others the lower rows. With Shard(0), Shard(1) each rank holds a "
        "quarter. With Shard(0), Partial(sum) ranks hold rows, and the value is the sum over the axis model.")
    panels = (("[Replicate(), Replicate()]", "each rank has all of it", lambda d, m: (0, 0, 1, 1)),
              ("[Shard(0), Replicate()]", "rows, by the axis data", lambda d, m: (0, d / 2, 1, 0.5)),
              ("[Shard(0), Shard(1)]", "rows by data, columns by model", lambda d, m: (m / 2, d / 2, 0.5, 0.5)),
              ("[Shard(0), Partial(sum)]", "rows; a sum over the axis model", lambda d, m: (0, d / 2, 1, 0.5)))
    for i, (name, meaning, part) in enumerate(panels):
        left, top = 20 + 316 * (i % 2), 14 + 222 * (i // 2)
        picture.text(left, top + 14, name, "mono bold")
        picture.text(left, top + 32, meaning, "soft")
        for d in range(2):
            for m in range(2):
                x, y, size = left + 8 + 132 * m, top + 46 + 80 * d, 66
                picture.box(x, y, size, size, "plain")
                u, v, w, h = part(d, m)
                partial = "Partial" in name
                picture.box(x + size * u, y + size * v, size * w, size * h, "orange" if partial else "blue")
                picture.text(x + size + 6, y + 28, f"rank {2 * d + m}", "soft")
                if partial and m == 0:
                    picture.text(x + size + 22, y + 52, "+", "middle big")
    return picture


def plan():
    rows = [(name, float(ms), float(mb)) for name, ms, mb in table("plan_vgg11_two_nodes.csv")]
    picture = Picture(
        "plan", 350, "What the planner answers for VGG-11 on two nodes of eight GPUs",
        "Predicted time of a step and memory of a device: " + "; ".join(f"{name} {ms:g} ms, {mb:g} MB" for name, ms, mb in rows) +
        ". In the plan, the batch is divided over 8 devices and the first two linear layers over 2; convolutions and the last layer are "
        "whole on each device.")
    picture.text(8, 24, "lockstep plan: a step, and the memory of a device", "bold")
    scale = 360 / max(ms for _, ms, _ in rows)
    for i, (name, ms, mb) in enumerate(rows):
        y = 40 + 40 * i
        picture.text(8, y + 21, name, "mono")
        picture.box(136, y, ms * scale, 30, "blue" if name == "auto" else "plain", f"{ms:g} ms")
        picture.text(144 + ms * scale, y + 21, f"{mb:g} MB", "soft")
    picture.text(8, 230, "the plan auto, mesh model 2 x data 8", "bold")
    parts = ((176, "plain", "8 convolutions", "whole"), (136, "orange", "fc1", "outputs / 2"), (136, "orange", "fc2", "inputs / 2"),
             (136, "plain", "fc3", "whole"))
    x = 8
    for i, (width, kind, name, how) in enumerate(parts):
        picture.box(x, 244, width, 52, kind, name, how)
        x += width
        if i + 1 < len(parts):
            picture.path([(x, 270), (x + 13, 270)], arrow=True)
            x += 13
    picture.note(322, "Predicted without a device, in a second. Outputs: rows of the weight, S0; inputs: its columns, S1. The batch is divided over the axis data.")
    return picture


def run():
    rows = table("mlp_mnist_loss.csv")
    steps = [(int(row[0]), float(row[1])) for row in rows]
    tests = [(int(row[0]), float(row[2]), float(row[3])) for row in rows if row[2]]
    picture = Picture(
        "run", 392, "What a run leaves: its loss, and its files",
        f"The loss of an MLP on two ranks falls from {steps[0][1]:.2f} to {steps[-1][1]:.2f} in {len(steps)} steps. After the epochs the test "
        "pictures have the accuracies " + ", ".join(f"{100 * accuracy:.1f} %" for _, _, accuracy in tests) +
        ". The folder of the run has result.json, metrics.jsonl, loss.svg, log/, checkpoints/ and model.safetensors.")
    left, top, width, height, most = 46, 40, 586, 210, 2.5
    def at(step, loss):
        return left + width * step / steps[-1][0], top + height * (1 - loss / most)
    picture.text(8, 24, "loss of each step, and (dots) of the test pictures", "bold")
    for tick in (0, 1, 2):
        x, y = at(0, tick)
        picture.path([(x, y), (left + width, y)], "grid")
        picture.text(x - 8, y + 5, str(tick), "end soft")
    for tick in (25, 50, 75):
        picture.text(min(at(tick, 0)[0], 600), top + height + 20, f"step {tick}", "middle soft")
    picture.path([at(*point) for point in steps], "curve")
    for step, loss, accuracy in tests:
        x, y = at(step, loss)
        picture.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="6" class="dot"/>')
        picture.text(min(x + 12, 560), y - 14, f"{100 * accuracy:.1f} %")
    files = (("result.json", "metrics, hash"), ("metrics.jsonl", "each step"), ("loss.svg", "a curve"),
             ("model.safetensors", "weights"), ("checkpoints/", "to go on"), ("log/rank.N", "each rank"))
    for i, (name, what) in enumerate(files):
        picture.box(8 + 210 * (i % 3), 284 + 52 * (i // 3), 204, 46, "plain", name, what)
    return picture


def recovery_race():
    names = dict(replacement="lockstep run: a new process, state from memory", restart="lockstep run: all again, from a checkpoint",
                 torchrun="torchrun: all again, from a checkpoint", torchft="torchft: the others go on, state from memory")
    ways = [(row[0], *map(float, row[1:4]), int(row[4]), row[6] == "yes") for row in table("recovery_race.csv")]
    losses = [(row[0], *map(float, row[3:6])) for row in table("recovery_race_losses.csv")]
    picture = Picture(
        "recovery_race", 96 + 66 * len(ways), "The same training and the same losses of ranks, in four ways to recover",
        "Seconds to the end, and of an undisturbed run: " + "; ".join(
            f"{names[way]}: {end:.0f} instead of {calm:.0f}, goodput {goodput:.2f}, {repeated} steps repeated, " +
            ("the weights of the undisturbed run" if same else "other weights") for way, calm, end, goodput, repeated, same in ways) + ".")
    scale = 614 / max(end for _, _, end, _, _, _ in ways)
    for i, (way, calm, end, goodput, repeated, same) in enumerate(ways):
        y = 8 + 66 * i
        picture.text(8, y + 14, names[way])
        picture.text(632, y + 14, f"goodput {goodput:.2f}", "end bold")
        picture.box(8, y + 22, end * scale, 26, "green")
        for _, killed, resumed, regained in (loss for loss in losses if loss[0] == way):
            picture.box(8 + killed * scale, y + 22, (resumed - killed) * scale, 26, "plain")
            if regained > resumed:
                picture.box(8 + resumed * scale, y + 22, (regained - resumed) * scale, 26, "orange")
            picture.parts.append(f'<circle cx="{8 + killed * scale:g}" cy="{y + 35:g}" r="4" class="dot"/>')
        picture.path([(8 + calm * scale, y + 20), (8 + calm * scale, y + 54)])
    y = 14 + 66 * len(ways)
    for x, kind, words in ((8, "green", "new steps"), (128, "plain", "no steps"), (240, "orange", "steps made again")):
        picture.box(x, y, 20, 16, kind)
        picture.text(x + 28, y + 13, words, "soft")
    picture.parts.append(f'<circle cx="420" cy="{y + 8}" r="4" class="dot"/>')
    picture.text(432, y + 13, "a rank is killed", "soft")
    picture.note(y + 44, f"Length: time. The longest bar has {max(end for _, _, end, _, _, _ in ways):.0f} s; a line marks the end of the same run without losses.")
    return picture


def rendezvous():
    rows = [(row[0], row[1], int(row[2]), float(row[3]), float(row[7])) for row in table("rendezvous.csv")]
    most = max(ranks for _, _, ranks, _, _ in rows)
    titles = dict(number="each gets its number", list="each gets the list of all")
    picture = Picture(
        "rendezvous", 330, f"Up to {most:,} simulated ranks meet through Lockstep's store and through c10d's",
        "Seconds until all have met: " + "; ".join(f"{titles[exchange]}, {store}, {ranks:,} ranks: {seconds:g}" for exchange, store, ranks, seconds, _ in rows) + ".")
    top, height, width = 48, 180, 240
    for panel, exchange in enumerate(dict.fromkeys(row[0] for row in rows)):
        own = [row for row in rows if row[0] == exchange]
        longest = max(seconds for _, _, _, seconds, _ in own)
        unit = next(unit for unit in (1, 2, 5, 10, 20, 50, 100, 200) if longest / unit <= 5)
        left = 46 + 320 * panel
        def at(ranks, seconds):
            return left + width * ranks / most, top + height * (1 - seconds / (longest * 1.05))
        picture.text(left - 38, 24, f"{titles[exchange]}, s", "bold")
        for tick in range(0, int(longest) + 1, unit):
            x, y = at(0, tick)
            picture.path([(x, y), (left + width, y)], "grid")
            picture.text(x - 8, y + 5, str(tick), "end soft")
        for ranks in sorted({row[2] for row in own} - {1000}):
            picture.text(at(ranks, 0)[0], top + height + 20, f"{ranks // 1000}k", "middle soft")
        for store, curve, dot in (("c10d", "line", "dot"), ("Lockstep", "curve", "blue")):
            points = [at(ranks, seconds) for _, name, ranks, seconds, _ in own if name == store]
            picture.path(points, curve)
            for x, y in points:
                picture.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="5" class="{dot}"/>')
    memory = {(exchange, store): mib for exchange, store, ranks, _, mib in rows if ranks == most}
    for x, dot, store, name in ((24, "blue", "Lockstep", "Lockstep's store"), (344, "dot", "c10d", "c10d's TCPStore with libuv")):
        picture.parts.append(f'<circle cx="{x}" cy="268" r="5" class="{dot}"/>')
        picture.text(x + 14, 273, name)
    own, other = (" and ".join(f"{memory[exchange, store]:.0f}" for exchange in titles) for store in ("Lockstep", "c10d"))
    picture.note(300, f"By the number of ranks. {most:,} ranks cost the stores {own} MiB (Lockstep), {other} MiB (c10d).")
    return picture


def main():
    for draw in (house, training_step, loss_and_return, placements, plan, run, recovery_race, rendezvous):
        picture = draw()
        path = PICTURES / f"{picture.name}.svg"
        if "--check" not in sys.argv[1:]:
            path.write_text(picture.svg(), encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != picture.svg():
            raise SystemExit(f"{path.relative_to(ROOT)} is not what scripts/draw_pictures.py draws; run it again")


if __name__ == "__main__":
    main()
