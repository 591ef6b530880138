// Writes records and forces each, for a number of milliseconds, while its daemon is killed.
// An error of a write or a force is answered as a careful program does: it opens the file
// anew and looks what is there. Says how many records were forced, and how often that was.
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
    long forced = 0, again = 0;
    int fd = open("s.log", O_CREAT | O_RDWR | O_APPEND, 0644);
    int still = open("still.log", O_CREAT | O_RDWR, 0644);
    if (write(still, "forced long ago", 15) != 15 || fsync(still) != 0) return 1;
    char record[SIZE], seen[SIZE];
    while (now() < end) {
        memset(record, (int)forced, SIZE);
        if (write(fd, record, SIZE) == SIZE && fsync(fd) == 0) {
            forced++;
            continue;
        }
        if (errno != EIO) return perror("write"), 2;
        again++;
        close(fd);
        while ((fd = open("s.log", O_RDWR | O_APPEND)) < 0 && now() < end + 5000) usleep(1000);
        long size = lseek(fd, 0, SEEK_END);
        if (size % SIZE != 0 || size / SIZE < forced) {
            fprintf(stderr, "%ld bytes of %ld records\n", size, forced);
            return 3;
        }
        forced = size / SIZE;
        // What was forced is not touched by the death of the daemon, nor is who has it open.
        if (pread(still, seen, 15, 0) != 15 || memcmp(seen, "forced long ago", 15)) return 4;
    }
    for (long i = 0; i < forced; i++) {
        if (pread(fd, seen, SIZE, i * SIZE) != SIZE) return 5;
        for (int at = 0; at < SIZE; at++)
            if (seen[at] != (char)i) return 6;
    }
    printf("%ld %ld\n", forced, again);
    return 0;
}
