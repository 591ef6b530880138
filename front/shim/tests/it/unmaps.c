// Mappings of placed files, whose zones stay as they are for as long as these are there: also
// of one that is at the addresses of another one, and of a child's. The allocator unmaps, too.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "said.h"

enum { LEN = 1 << 20, PART = 1 << 20 };

extern void (*meanwhile)(void *at);
extern void *__libc_malloc(size_t);

static char data[PART];
static int unmapping;
static void *second;

// As an allocator does that gives back memory as it takes some.
void *malloc(size_t len) {
    if (unmapping) {
        unmapping = 0;
        munmap((void *)0x100000000, 4096);
        unmapping = 1;
    }
    return __libc_malloc(len);
}

static int make(const char *path, char with) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    memset(data, with, sizeof data);
    if (write(fd, data, LEN) != LEN || fsync(fd) != 0) _exit(7);
    return fd;
}

// Nobody but a mapping has the file any more.
static void *map_and_drop(const char *path, char with, void *at) {
    int fd = make(path, with);
    void *map = mmap(at, LEN, PROT_READ, MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, 0);
    close(fd);
    unlink(path);
    return map;
}

// Every zone that may be reset is, and more than once.
static void churn(void) {
    for (int round = 0; round < 3; round++) {
        int fd = make("churn.log", 'x');
        long done = LEN;
        for (int i = 1; i < 24; i++) done += write(fd, data, sizeof data);
        if (done != 24L * PART) _exit(6);
        close(fd);
        unlink("churn.log");
    }
}

static int holds(const char *map, char with) {
    for (long at = 0; at < LEN; at++)
        if (map[at] != with) return 0;
    return 1;
}

static void maps_there(void *at) {
    second = map_and_drop("second.log", 's', at);
}

// The addresses of one that is unmapped are at once those of another one.
static void at_once(void) {
    void *first = map_and_drop("first.log", 'f', NULL);
    meanwhile = maps_there;
    DO(munmap(first, LEN));
    DO(second == first);
    churn();
    DO(holds(second, 's'));
    DO(munmap(second, LEN));
}

// What is not unmapped is kept.
static void refused(void) {
    char *map = map_and_drop("kept.log", 'k', NULL);
    DO(munmap(map + 1, LEN));
    DO(munmap(map - 1, LEN + 4096));
    churn();
    DO(holds(map, 'k'));
    DO(munmap(map, LEN));
}

static void allocator(void) {
    unmapping = 1;
    char *map = map_and_drop("malloc.log", 'm', NULL);
    DO(munmap(map, LEN));
    unmapping = 0;
}

// A child has the mappings of its parent, and has them when that is gone.
static void inherited(void) {
    int status = 1, ends[2], done[2];
    char word;
    DO(pipe(ends));
    DO(pipe(done));
    fflush(stdout);
    pid_t parent = fork();
    if (parent == 0) {
        char *map = map_and_drop("parent.log", 'p', NULL);
        char *other = map_and_drop("other.log", 'o', NULL);
        if (fork() != 0) _exit(0);
        close(ends[1]);
        word = read(ends[0], &word, 1) == 0 ? 'e' : 'n';
        if (munmap(other, LEN) != 0) word = 'u';
        churn();
        if (!holds(map, 'p')) word = 'l';
        _exit(write(done[1], &word, 1) != 1);
    }
    DO(waitpid(parent, &status, 0) == parent && status == 0);
    close(ends[1]);
    close(done[1]);
    DO(read(done[0], &word, 1));
    DO(word == 'e');
}

int main(void) {
    at_once();
    refused();
    allocator();
    inherited();
    return 0;
}
