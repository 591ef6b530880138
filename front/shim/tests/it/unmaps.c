// Zones are not reset while a placed file in them is mapped: also if the mapping reuses the
// addresses of an earlier one, or belongs to a child. The allocator here calls munmap itself.
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

// An allocator that returns memory to the system during an allocation.
void *malloc(size_t len) {
    if (unmapping) {
        unmapping = 0;
        munmap((void *)0x100000000, 4096);
        unmapping = 1;
    }
    return __libc_malloc(len);
}

static int create_filled(const char *path, char with) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    memset(data, with, sizeof data);
    if (write(fd, data, LEN) != LEN || fsync(fd) != 0) _exit(7);
    return fd;
}

// Maps a file and unlinks and closes it, so that only the mapping refers to it.
static void *map_and_unlink(const char *path, char with, void *at) {
    int fd = create_filled(path, with);
    void *map = mmap(at, LEN, PROT_READ, MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, 0);
    close(fd);
    unlink(path);
    return map;
}

// Fills and removes files three times the capacity, so that every free zone is reset.
static void reset_free_zones(void) {
    for (int round = 0; round < 3; round++) {
        int fd = create_filled("churn.log", 'x');
        long done = LEN;
        for (int i = 1; i < 24; i++) done += write(fd, data, sizeof data);
        if (done != 24L * PART) _exit(6);
        close(fd);
        unlink("churn.log");
    }
}

static int is_filled_with(const char *map, char with) {
    for (long at = 0; at < LEN; at++)
        if (map[at] != with) return 0;
    return 1;
}

static void map_second_file(void *at) {
    second = map_and_unlink("second.log", 's', at);
}

// A second mapping takes the addresses during the munmap of the first one.
static void reused_addresses_keep_the_new_mapping(void) {
    void *first = map_and_unlink("first.log", 'f', NULL);
    meanwhile = map_second_file;
    DO(munmap(first, LEN));
    DO(second == first);
    reset_free_zones();
    DO(is_filled_with(second, 's'));
    DO(munmap(second, LEN));
}

// munmap with invalid arguments fails and keeps the mapping's zones.
static void refused_unmapping_keeps_the_zones(void) {
    char *map = map_and_unlink("kept.log", 'k', NULL);
    DO(munmap(map + 1, LEN));
    DO(munmap(map - 1, LEN + 4096));
    reset_free_zones();
    DO(is_filled_with(map, 'k'));
    DO(munmap(map, LEN));
}

static void allocator_unmaps_inside_calls(void) {
    unmapping = 1;
    char *map = map_and_unlink("malloc.log", 'm', NULL);
    DO(munmap(map, LEN));
    unmapping = 0;
}

// A child inherits mappings and keeps their zones after its parent has ended.
static void child_keeps_mappings_of_an_ended_parent(void) {
    int status = 1, ends[2], done[2];
    char word;
    DO(pipe(ends));
    DO(pipe(done));
    fflush(stdout);
    pid_t parent = fork();
    if (parent == 0) {
        char *map = map_and_unlink("parent.log", 'p', NULL);
        char *other = map_and_unlink("other.log", 'o', NULL);
        if (fork() != 0) _exit(0);
        close(ends[1]);
        word = read(ends[0], &word, 1) == 0 ? 'e' : 'n';
        if (munmap(other, LEN) != 0) word = 'u';
        reset_free_zones();
        if (!is_filled_with(map, 'p')) word = 'l';
        _exit(write(done[1], &word, 1) != 1);
    }
    DO(waitpid(parent, &status, 0) == parent && status == 0);
    close(ends[1]);
    close(done[1]);
    DO(read(done[0], &word, 1));
    DO(word == 'e');
}

int main(void) {
    reused_addresses_keep_the_new_mapping();
    refused_unmapping_keeps_the_zones();
    allocator_unmaps_inside_calls();
    child_keeps_mappings_of_an_ended_parent();
    return 0;
}
