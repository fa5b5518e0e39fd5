#!/usr/bin/env python3
"""key_reference.py PROGRAM [--write]: fails unless each key of a configuration has the text that PROGRAM (build/release/lockstep) prints for it in
`train --help-keys` and `train --list KIND`: in the tables of docs/configuration.md, and in the comments of the sections' fields in include/. With
--write, makes them so."""
import difflib
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/configuration.md"
HEADERS = [ROOT / "include/lockstep/train/config.h", ROOT / "include/lockstep/world/world.h"]


def read_keys(help_text):
    """By section, such as "model" or "model_gpt": a list of (key, facts, default, meaning)."""
    sections, rows = {"run": []}, None
    rows = sections["run"]
    for line in help_text.splitlines():
        if found := re.match(r"([a-z_]+|[a-z_.]+ \([A-Za-z0-9_]+\)): ", line):
            rows = sections.setdefault(re.sub(r"[ .]", "_", re.sub(r"[()]", "", found[1])), [])
        elif found := re.match(r"  ([a-z0-9_.]+) \((.*)\)$", line):
            facts, _, default = found[2].rpartition(", default ") if not found[2].endswith(", required") else (found[2][:-10], "", "required")
            key, default = found[1], default if default == "required" else f"`{default}`"
        elif line.startswith("      "):
            rows.append((key, facts, default, line[6:]))
    return sections


def cell(text):
    return text.replace("|", "\\|")


def table(head, rows):
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def with_tables(text, sections, parts):
    """The document with the table of each marker, and none of them left out."""
    lines, missing = [], set(sections)
    # Without the old tables: the blank lines after a marker, and the rows that follow them.
    text = re.sub(r"(?m)^(<!-- (?:keys|list) of \w+ -->)\n+(?:\|.*\n)*", r"\1\n", text)
    for line in text.splitlines():
        lines.append(line)
        keys, kind = re.fullmatch(r"<!-- keys of (\w+) -->", line), re.fullmatch(r"<!-- list of ([a-z]+) -->", line)
        if keys:
            missing.discard(keys[1])
            rows = [(f"`{key}`", cell(facts), cell(default), cell(meaning)) for key, facts, default, meaning in sections[keys[1]]]
            lines += ["", *table(("key", "type", "default", "meaning"), rows)]
        elif kind:
            lines += ["", *table(("name", "what it is"), [(f"`{name}`", cell(what)) for name, what in parts[kind[1]]])]
    if missing:
        sys.exit(f"{DOCUMENT.name} has no table for {', '.join(sorted(missing))}: add <!-- keys of SECTION -->")
    return "\n".join(lines) + "\n"


def comment_of(key, facts, default, meaning, variable):
    """The comment of a field: the meaning, and the values that it may have. Its type says whether it may be null. The names of parts are not among
    its values: plugins and programs add to them."""
    rule = "" if key.endswith(".name") else re.sub(r"^[^,]*(, )?(may be null(, )?)?", "", facts).replace(" | ", ", ")
    if default == "required":
        rule = f" Required, {rule}." if rule else " Required."
    elif rule:
        rule = f" Allowed: {rule}."
    variable = "" if meaning.startswith(variable) else variable
    sentence = f"{variable}{meaning.removesuffix('.')}.{rule}"
    return textwrap.wrap(sentence, width=120, initial_indent="  /// ", subsequent_indent="  /// ", break_long_words=False, break_on_hyphens=False)


def with_comments(text, keys):
    """The header with the comment of each key in front of its field."""
    lines, comment, section, above = [], [], None, ""
    for line in text.splitlines():
        if line.startswith("///"):
            above += line
        elif line.startswith("struct "):
            named = re.search(r"The section `([a-z_.]+)`", above)
            section = named[1] + "." if named else "" if "The whole configuration" in above else None
        elif not line.startswith(" "):
            above = ""
        if section is not None and line.startswith("  /// "):
            comment.append(line)
            continue
        field = re.match(r"  [\w:<>, ]+ (\w+)( = .*|\{.*\})?;", line)
        key = f"{section}{field[1]}" if section is not None and field else None
        row = keys.get(key)
        variable = re.match(r"  /// ((?:MS|LOCKSTEP)_[A-Z_]+: )", comment[0]) if comment else None
        lines += comment_of(key, *row, variable[1] if variable else "") if row else comment
        lines.append(line)
        comment = []
    return "\n".join(lines) + "\n"


def main():
    program, write = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:] == ["--write"]
    output = lambda *words: subprocess.run([program, "train", *words], check=True, capture_output=True, text=True).stdout
    sections = read_keys(output("--help-keys"))
    text = DOCUMENT.read_text()
    parts = {kind: [re.split(r" +", line, maxsplit=1) for line in output("--list", kind).splitlines()]
             for kind in re.findall(r"^<!-- list of ([a-z]+) -->$", text, re.M)}
    of_sections = {key: rest for section in sections if "_" not in section or section == "loss_scaler" for key, *rest in sections[section]}
    made = {DOCUMENT: with_tables(text, sections, parts)} | {header: with_comments(header.read_text(), of_sections) for header in HEADERS}
    differs = False
    for path, new in made.items():
        old = path.read_text()
        if write:
            path.write_text(new)
        elif old != new:
            differs = True
            name = str(path.relative_to(ROOT))
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, name))
    if differs:
        sys.exit("these texts differ from the program's; scripts/key_reference.py build/release/lockstep --write corrects them")


main()
