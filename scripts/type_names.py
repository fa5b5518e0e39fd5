#!/usr/bin/env python3
"""Type names that mean several things: prints each name that is defined in three files or more of lockstep/, apps/ and include/.

    scripts/type_names.py [--at-least 3]

What counts: `class`, `struct`, `enum` and `using NAME =` with a definition, at any depth. What does not: names in the private
part of a class, definitions of a type that a header declares (`struct Foo::State {`), and specializations of templates. An
alias of a type with the same name is no new meaning, and aliases of one type (`using Clock = std::chrono::steady_clock`) are
one. Exit code 1 if more than 12 names remain.
"""
import argparse
import collections
import pathlib
import re
import sys

DEFINITION = re.compile(r"^(?:template <[^{};]*>\s*)?(?:(?:enum\s+)?(?:class|struct)|enum|union)\s+(?:\[\[\w+\]\]\s*)?"
                        r"(\w+)(?:\s+final)?\s*(?::(?!:)[^{;]*)?\{")
ALIAS = re.compile(r"^using\s+(\w+)\s*=\s*(?:typename\s+)?(.*)")
MOST = 12


def without_comments(text):
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', '""', text)


def names_in(text):
    """Names of types defined in `text`, but for those in the private part of a class, with what an alias stands for."""
    found = {}
    private = []  # for each open brace: whether it is a class's, and whether its part here is private
    statement = ""
    for piece in re.split(r"([{};]|\bpublic:|\bprotected:|\bprivate:)", without_comments(text)):
        if piece in ("public:", "protected:", "private:"):
            if private:
                private[-1] = piece == "private:"
            statement = ""
            continue
        if piece == "}":
            if private:
                private.pop()
            statement = ""
            continue
        if piece in ("{", ";"):
            words = " ".join(statement.split())
            words = re.sub(r"^#.*?(?=(?:template|class|struct|enum|using|$))", "", words)
            match = DEFINITION.match(words + piece) or (piece == ";" and ALIAS.match(words))
            if match and not any(private):
                found[match[1]] = match[2] if piece == ";" else ""
            if piece == "{":
                # Bodies of functions: what they define is nobody else's.
                opens_scope = bool(match) or words.startswith(("namespace", "inline namespace", "extern"))
                is_class = re.match(r"^(?:template <[^{};]*>\s*)?class\s", words)
                private.append(bool(is_class) or not opens_scope)
            statement = ""
            continue
        statement += re.sub(r"^\s*#.*$", "", piece, flags=re.M)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at-least", type=int, default=3)
    args = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    places = collections.defaultdict(list)
    aliases = collections.defaultdict(set)
    for folder in ("include", "lockstep", "apps"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in (".h", ".cpp"):
                for name, alias_of in names_in(file.read_text()).items():
                    last = alias_of.rsplit("::", 1)[-1]
                    if last == name or (alias_of and alias_of in aliases[name]):
                        continue
                    aliases[name].add(alias_of)
                    places[name].append(str(file.relative_to(root)))
    several = {name: files for name, files in places.items() if len(files) >= args.at_least}
    for name, files in sorted(several.items(), key=lambda item: (-len(item[1]), item[0])):
        print(f"{len(files):3} {name}: {', '.join(files)}")
    print(f"{len(several)} names are defined in {args.at_least} files or more (at most {MOST})")
    return int(args.at_least <= 3 and len(several) > MOST)


if __name__ == "__main__":
    sys.exit(main())
