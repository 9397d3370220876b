#!/usr/bin/env python3
"""Gives kwok, metrics-server and the newest Kubernetes the same versions of the modules that they share, so that Go compiles each
package of those once for all three: the larger of the versions that they ask for. Run it after a change of one of their go.mod, and
build; it prints what it changed."""

import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def go(folder, *args):
    done = subprocess.run(["go", *args], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"share-versions.py: go {args[0]} in {folder.name}: {done.stderr}")
    return done.stdout


def minor(folder):
    return int(folder.name.rpartition(".")[2])


def versions(folder):
    """The version of each module in the build list, after replacements."""
    decoder, text, found = json.JSONDecoder(), go(folder, "list", "-m", "-json", "all").strip(), {}
    while text:
        module, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        version = module.get("Replace", module).get("Version")
        if version:
            found[module["Path"]] = version
    return found


def order(version):
    """Sorts versions: a release comes after its pre-releases."""
    major, minor_, patch, rest = re.match(r"v(\d+)\.(\d+)\.(\d+)(.*)", version).groups()
    return int(major), int(minor_), int(patch), not rest.startswith("-"), rest


def required(folder):
    text = (folder / "go.mod").read_text()
    return re.findall(r"^(?:require)?\s+(\S+) v\d", text, re.MULTILINE)


def main():
    newest = max(HERE.glob("kubernetes-*"), key=minor)
    folders = [newest, HERE / "kwok", HERE / "metrics-server"]
    while True:
        known = {folder: versions(folder) for folder in folders}
        changed = False
        for folder in folders:
            best = {name: max((own[name] for own in known.values() if name in own), key=order) for name in required(folder)}
            updates = [f"{name}@{version}" for name, version in best.items() if known[folder].get(name, version) != version]
            if updates:
                changed = True
                go(folder, "get", *updates)
                print(folder.name, *updates)
        if not changed:
            return


if __name__ == "__main__":
    main()
