#!/usr/bin/env python3
"""pictures.py SOURCE: the pictures of the documents are what scripts/draw_pictures.py draws, have a title, a description and, where they
are shown, an alternative text, and are not empty at 400 and 1200 pixels, in light and dark. Without rsvg-convert the rest is checked,
and the test is skipped (77)."""

import pathlib
import re
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree
import zlib

source = pathlib.Path(sys.argv[1])
pictures = sorted((source / "docs" / "pictures").glob("*.svg"))
documents = {path: path.read_text(encoding="utf-8") for path in [source / "README.md", *(source / "docs").glob("*.md")]}
SVG = "{http://www.w3.org/2000/svg}"


def pixels(png):
    """The bytes of a PNG's rows, filtered as they are: of an empty picture nearly all are 0."""
    data, at = b"", 8
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + size]
        at += 12 + size
    return zlib.decompress(data)


assert len(pictures) >= 6, pictures
subprocess.run([source / "scripts" / "draw_pictures.py", "--check"], check=True)
for picture in pictures:
    root = xml.etree.ElementTree.parse(picture).getroot()
    assert root.findtext(SVG + "title").strip() and len(root.findtext(SVG + "desc")) > 80, picture
    shown = [re.search(r"!\[([^\]]*)\]\((?:docs/)?pictures/" + picture.name + r"\)", text) for text in documents.values()]
    assert any(shown), f"no document shows {picture.name}"
    assert all(len(place[1]) > 20 for place in shown if place), f"{picture.name} is shown without an alternative text"

if not shutil.which("rsvg-convert"):
    print("skipped: rendering needs rsvg-convert (Debian's librsvg2-bin)")
    sys.exit(77)
for picture in pictures:
    light = picture.read_text(encoding="utf-8")
    dark, found = re.subn(r"@media \(prefers-color-scheme: dark\) \{(.*)\}", r"\1", light)
    assert found == 1, f"{picture.name} has no colours for dark"
    rendered = {}
    for width in (400, 1200):
        for name, text in (("light", light), ("dark", dark)):
            png = subprocess.run(["rsvg-convert", "-w", str(width)], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
            assert struct.unpack(">I", png[16:20])[0] == width, picture
            data = pixels(png)
            drawn = sum(1 for byte in data if byte) / len(data)
            assert drawn > 0.005, f"{picture.name} is empty ({name}, {width} pixels: {drawn:.4f} of the bytes)"
            rendered[name, width] = png
        assert rendered["light", width] != rendered["dark", width], picture
print(f"{len(pictures)} pictures rendered")
