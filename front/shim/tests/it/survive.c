// Writes records with an fsync after each, for some milliseconds, while the daemon is killed.
// After an error of write or fsync it acts as a careful program: it reopens the file and checks its
// length. Prints the number of synced records and the number of errors.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 600 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    double end = now() + (argc > 1 ? atof(argv[1]) : 1000);
    long synced = 0, errors = 0;
    int fd = open("s.log", O_CREAT | O_RDWR | O_APPEND, 0644);
    int still = open("still.log", O_CREAT | O_RDWR, 0644);
    if (write(still, "synced long ago", 15) != 15 || fsync(still) != 0) return 1;
    char record[SIZE], seen[SIZE];
    while (now() < end) {
        memset(record, (int)synced, SIZE);
        if (write(fd, record, SIZE) == SIZE && fsync(fd) == 0) {
            synced++;
            continue;
        }
        if (errno != EIO) return perror("write"), 2;
        errors++;
        close(fd);
        while ((fd = open("s.log", O_RDWR | O_APPEND)) < 0 && now() < end + 5000) usleep(1000);
        long size = lseek(fd, 0, SEEK_END);
        if (size % SIZE != 0 || size / SIZE < synced) {
            fprintf(stderr, "%ld bytes of %ld records\n", size, synced);
            return 3;
        }
        synced = size / SIZE;
        // A file synced before the kill keeps its data, also through a descriptor that stayed open.
        if (pread(still, seen, 15, 0) != 15 || memcmp(seen, "synced long ago", 15)) return 4;
    }
    for (long i = 0; i < synced; i++) {
        if (pread(fd, seen, SIZE, i * SIZE) != SIZE) return 5;
        for (int at = 0; at < SIZE; at++)
            if (seen[at] != (char)i) return 6;
    }
    printf("%ld %ld\n", synced, errors);
    return 0;
}
