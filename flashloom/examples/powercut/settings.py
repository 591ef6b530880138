#!/usr/bin/env python3
"""Settings that are replaced by a rename: `settings.py bad`, `settings.py good`, `settings.py check`.

The bad one renames the new file over the old one without an fsync of it. The name can reach the
medium before the contents do, so a power cut leaves an empty file.
"""
import os
import sys


def save(number, careful):
    with open("settings.new", "w") as file:
        file.write("value=%d\n" % number * 500 + "end\n")
        if careful:
            file.flush()
            os.fsync(file.fileno())
    os.rename("settings.new", "settings")
    if careful:
        here = os.open(".", os.O_RDONLY)
        os.fsync(here)
        os.close(here)
        print("saved", number, flush=True)


def check():
    with open(os.environ["FLASHLOOM_OUTPUT"]) as output:
        saved = len(output.readlines())
    if not os.path.exists("settings"):
        sys.exit("the settings are gone" if saved else 0)
    lines = open("settings").read().splitlines()
    if not lines or lines[-1] != "end" or len(set(lines)) != 2:
        sys.exit("the settings have %d lines of 501" % len(lines))
    if int(lines[0].split("=")[1]) < saved:
        sys.exit("saved %d, found %s" % (saved, lines[0]))


if sys.argv[1] == "check":
    check()
else:
    for number in range(1, 6):
        save(number, sys.argv[1] == "good")
