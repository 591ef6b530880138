// One thread writes through a descriptor that the main thread replaces by dup2, alternating between
// two files: each record is whole and in one of the files.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "said.h"

enum { TURNS = 3000, RECORDS = 400000, SIZE = 100 };

static int at;
static volatile int stop;
static long written;

static void *writes(void *none) {
    char record[SIZE];
    long bad = 0;
    for (; !stop && written < RECORDS; written++) {
        memset(record, 'a' + written % 26, SIZE);
        bad += write(at, record, SIZE) != SIZE;
    }
    return bad ? none : &at;
}

// Number of records in a file; -1 if one is torn.
static long records(const char *path) {
    char record[SIZE];
    long count = 0;
    int fd = open(path, O_RDONLY);
    while (read(fd, record, SIZE) == SIZE) {
        for (int i = 1; i < SIZE; i++)
            if (record[i] != record[0]) return -1;
        count++;
    }
    close(fd);
    return count;
}

int main(void) {
    pthread_t thread;
    void *good = NULL;
    int one = open("one.log", O_RDWR | O_CREAT | O_TRUNC, 0644);
    int other = open("other.log", O_RDWR | O_CREAT | O_TRUNC, 0644);
    at = dup(one);
    pthread_create(&thread, NULL, writes, NULL);
    for (int turn = 0; turn < TURNS; turn++)
        if (dup2(turn % 2 ? one : other, at) != at) return 1;
    stop = 1;
    pthread_join(thread, &good);
    long first = records("one.log"), second = records("other.log");
    DO(good != NULL);
    DO(first >= 0 && second >= 0);
    DO(written - first - second);
    return 0;
}
