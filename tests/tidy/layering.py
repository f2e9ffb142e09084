#!/usr/bin/env python3
"""Checks the layering table against the sources.

Every #include of a project header must point to a folder that the including folder
may use, and the external headers of the table appear only where it says. Prints
each violation as file:line and exits 1. With --self-test it proves that it can fail.
"""

import os
import re
import sys
import tempfile

CORE = {
    "core/base": set(),
    "core/proto": {"core/base"},
    "core/mux": {"core/base", "core/proto"},
    "core/wire": {"core/base"},
    "core/loop": {"core/base", "core/proto", "core/mux", "core/wire"},
}
CPP_BASE = {"core/base", "cpp/base"}
NET = CPP_BASE | {"core/proto", "core/mux", "core/wire", "core/loop"}
SESSION = NET | {"cpp/net"}
ROLE = SESSION | {"cpp/session", "cpp/config", "cpp/reload"}
ALLOWED = dict(
    CORE,
    **{
        "cpp/base": {"core/base"},
        "cpp/config": CPP_BASE,
        "cpp/net": NET,
        "cpp/http": SESSION,
        "cpp/session": SESSION,
        "cpp/reload": SESSION | {"cpp/config"},
        "cpp/storage": CPP_BASE,
        "cpp/client": ROLE | {"cpp/http"},
        "cpp/agent": ROLE,
        "cpp/server": ROLE | {"cpp/http", "cpp/storage"},
        "cmd": {"cpp/base", "cpp/config", "cpp/client", "cpp/agent", "cpp/server"},
    },
)
# External header (prefix) -> the places that may include it. A place is a folder, or a
# file's path without its extension.
EXTERNAL = {
    "uv.h": ["core/loop", "cpp/net"],
    "ares.h": ["core/loop"],
    "sqlite3.h": ["cpp/storage"],
    "mysql": ["cpp/storage"],
    "mbedtls/": ["core/wire"],
    "psa/": ["core/wire"],
    "wslay/": [],
    "llhttp.h": ["core/wire", "cpp/http"],
    "yaml.h": ["cpp/config/yaml"],
    "cjson/": ["core/proto", "cpp/base/json"],
    "argon2.h": ["cpp/server/password"],
}
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(path, folders):
    """The layer a file belongs to, or None (tests and fuzz targets may use anything)."""
    for folder in folders:
        if path.startswith(folder + "/"):
            return folder
    return None


def check(root):
    problems = []
    for base in ("core", "cpp", "cmd"):
        for directory, _, files in os.walk(os.path.join(root, base)):
            for name in sorted(files):
                if not name.endswith((".c", ".h", ".cpp", ".hpp")):
                    continue
                full = os.path.join(directory, name)
                path = os.path.relpath(full, root)
                own = folder_of(path, ALLOWED)
                if own is None:
                    problems.append(f"{path}:1: not in any folder of the layering table")
                    continue
                with open(full, encoding="utf-8") as source:
                    for number, line in enumerate(source, 1):
                        found = INCLUDE.match(line)
                        if not found:
                            continue
                        header = found.group(2)
                        target = folder_of(header, ALLOWED)
                        if target is not None:
                            if target != own and target not in ALLOWED[own]:
                                problems.append(f"{path}:{number}: {own} must not include {header}")
                            continue
                        if found.group(1) == '"' and "/" not in header:
                            problems.append(f'{path}:{number}: write the path from the root: "{header}"')
                        for prefix, places in EXTERNAL.items():
                            if not header.startswith(prefix):
                                continue
                            stem = os.path.splitext(path)[0]
                            if not any(stem == p or stem.startswith((p + "/", p + "_")) for p in places):
                                problems.append(f"{path}:{number}: <{header}> belongs to {places or 'tests only'}")
    return problems


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for path, text in {
            "core/mux/a.c": "#include <uv.h>\n#include \"core/loop/tcp.h\"\n",
            "cpp/client/b.cpp": '#include "cpp/agent/app.hpp"\n#include <sqlite3.h>\n',
            "cpp/base/c.cpp": '#include "core/base/status.h"\n#include <string>\n',
        }.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as out:
                out.write(text)
        found = check(root)
        if len(found) != 4 or any("cpp/base" in f.split(":")[0] for f in found):
            print("self test failed:", *found, sep="\n")
            return 1
    print("layering self test: 4 planted violations found")
    return 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    problems = check(root)
    for problem in problems:
        print(problem)
    print(f"layering: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
