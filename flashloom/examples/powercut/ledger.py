#!/usr/bin/env python3
"""Transfers in SQLite: `ledger.py bad`, `ledger.py full`, `ledger.py good`, `ledger.py check`.

The bad one sets `synchronous=off`: SQLite then forces nothing, so transfers that were reported as
committed are gone after a power cut. With `full`, the file stays sound, but SQLite commits by
removing its journal and does not force the directory after that: the last transfer may come undone.
The good one sets `extra`, which does.
"""
import os
import sqlite3
import sys


def work(synchronous):
    ledger = sqlite3.connect("ledger.db", isolation_level=None)
    ledger.execute("pragma synchronous=" + synchronous)
    ledger.execute("create table transfers (number integer primary key, note text)")
    for number in range(6):
        ledger.execute("insert into transfers values (?, ?)", (number, "x" * 900))
        print("committed", number, flush=True)
    ledger.close()


def check():
    with open(os.environ["FLASHLOOM_OUTPUT"]) as output:
        committed = len(output.readlines())
    if not committed and not os.path.exists("ledger.db"):
        return
    ledger = sqlite3.connect("ledger.db")
    sound = ledger.execute("pragma integrity_check").fetchone()[0]
    if sound != "ok":
        sys.exit(sound)
    made = ledger.execute("select count(*) from sqlite_master where name='transfers'")
    found = 0
    if made.fetchone()[0]:
        found = ledger.execute("select count(*) from transfers").fetchone()[0]
    if found < committed:
        sys.exit("%d transfers were committed, %d are there" % (committed, found))


if sys.argv[1] == "check":
    check()
else:
    work({"bad": "off", "full": "full", "good": "extra"}[sys.argv[1]])
