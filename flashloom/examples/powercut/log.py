#!/usr/bin/env python3
"""A log of records: `log.py bad`, `log.py good`, `log.py check-bad`, `log.py check-good`.

The bad one counts its records in a header and trusts the count: one fsync covers both, and a power
cut within it can keep the header without the record. The good one gives each record its length and
a checksum, and its reader stops at the first record that has another.
"""
import os
import struct
import sys
import zlib

RECORDS, SIZE = 12, 3000
HEADER = 4096


def record(number):
    return bytes([65 + number]) * SIZE


def append(file, number, careful):
    if careful:
        body = record(number)
        file.write(struct.pack("<II", len(body), zlib.crc32(body)) + body)
    else:
        file.seek(HEADER + number * SIZE)
        file.write(record(number))
        file.seek(0)
        file.write(struct.pack("<I", number + 1))
    file.flush()
    os.fsync(file.fileno())
    print("appended", number, flush=True)


def read_counted(data):
    count = struct.unpack("<I", data[:4])[0] if len(data) >= 4 else 0
    for number in range(count):
        start = HEADER + number * SIZE
        yield data[start : start + SIZE]


def read_checked(data):
    while len(data) >= 8:
        size, crc = struct.unpack("<II", data[:8])
        body = data[8 : 8 + size]
        if size != SIZE or len(body) < size or zlib.crc32(body) != crc:
            return
        yield body
        data = data[8 + size :]


def check(read):
    with open(os.environ["FLASHLOOM_OUTPUT"]) as output:
        appended = len(output.readlines())
    data = open("log", "rb").read() if os.path.exists("log") else b""
    found = list(read(data))
    for number, body in enumerate(found):
        if body != record(number):
            sys.exit("record %d of %d has other contents" % (number, len(found)))
    if len(found) < appended:
        sys.exit("%d records were appended, %d are there" % (appended, len(found)))


if sys.argv[1].startswith("check"):
    check(read_counted if sys.argv[1] == "check-bad" else read_checked)
else:
    careful = sys.argv[1] == "good"
    with open("log", "wb") as file:
        here = os.open(".", os.O_RDONLY)
        os.fsync(here)
        for number in range(RECORDS):
            append(file, number, careful)
