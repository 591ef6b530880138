#!/usr/bin/env bash
# Measures the processor time of calls on this machine: the kernel's ext4 in memory, one thread, CPU
# time a call. The defaults of `page_cache.costs` come from here. Needs root (a loop device),
# mkfs.ext4 and a C compiler.
set -euo pipefail

work=$(mktemp -d)
mount=$work/mount
image=/dev/shm/call-costs.$$
trap 'umount "$mount" 2>/dev/null || true; rm -rf "$work" "$image"' EXIT

cat > "$work/calls.c" <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 100000, PAGE = 4096, MANY = 16 };
static char bytes[MANY * PAGE];

static double cpu_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static const char *name(const char *dir, int i) {
    static char names[2][64];
    static int turn;
    turn = !turn;
    snprintf(names[turn], sizeof names[turn], "%s/%08d", dir, i);
    return names[turn];
}

#define MEASURE(what, call)                                          \
    do {                                                             \
        double from = cpu_us();                                      \
        for (int i = 0; i < CALLS; i++) {                            \
            call;                                                    \
        }                                                            \
        printf("%-10s %6.2f us\n", what, (cpu_us() - from) / CALLS); \
    } while (0)

int main(int argc, char **argv) {
    struct stat st;
    if (argc != 2 || chdir(argv[1]) || mkdir("d", 0755))
        return 1;
    MEASURE("getppid", getppid());
    MEASURE("create", close(open(name("d", i), O_CREAT | O_WRONLY, 0644)));
    MEASURE("open", close(open(name("d", i), O_RDONLY)));
    MEASURE("stat", stat(name("d", i), &st));
    MEASURE("link", link(name("d", i), name("d/.", i + CALLS)));
    MEASURE("rename", rename(name("d", i), name("d", i + 2 * CALLS)));
    for (int i = 0; i < CALLS; i++)
        unlink(name("d", i + CALLS));
    MEASURE("unlink", unlink(name("d", i + 2 * CALLS)));
    MEASURE("mkdir", mkdir(name("d", i), 0755));
    MEASURE("rmdir", rmdir(name("d", i)));
    int f = open("f", O_CREAT | O_RDWR, 0644);
    if (pwrite(f, bytes, sizeof bytes, 0) != sizeof bytes)
        return 1;
    MEASURE("read 4k", pread(f, bytes, PAGE, 0));
    MEASURE("read 64k", pread(f, bytes, sizeof bytes, 0));
    MEASURE("write 4k", pwrite(f, bytes, PAGE, 0));
    MEASURE("write 64k", pwrite(f, bytes, sizeof bytes, 0));
    return 0;
}
C
cc -O2 -w -o "$work/calls" "$work/calls.c"
truncate -s 4G "$image"
mkfs.ext4 -q "$image"
mkdir "$mount"
mount -o loop "$image" "$mount"
"$work/calls" "$mount"
