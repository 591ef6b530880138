// freopen of streams on placed files. Prints the result of each call, one line each.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "said.h"

static void print_length(const char *path) {
    struct stat of;
    printf("%s: %ld bytes\n", path, stat(path, &of) == 0 ? (long)of.st_size : -1);
}

// After a failed freopen the descriptor is closed and its number is reused.
static void failed_freopen_closes_the_descriptor(void) {
    int ends[2];
    char text[8] = {0};
    FILE *file = fopen("a.log", "w");
    int number = fileno(file);
    DO(fputs("kept", file) >= 0);
    DO(freopen("none/a.log", "r", file) == NULL && errno == ENOENT);
    DO(fcntl(number, F_GETFD));
    DO(pipe2(ends, O_NONBLOCK));
    DO(ends[0] == number || ends[1] == number);
    DO(write(ends[1], "pipe", 4));
    DO(read(ends[0], text, 7));
    puts(text);
    close(ends[0]);
    close(ends[1]);
    print_length("a.log");
}

// The ordinary file has an offset in the kernel, which a child does not disturb.
static void freopen_from_placed_to_ordinary_file(void) {
    FILE *file = fopen("b.log", "w");
    DO(fputs("placed", file) >= 0);
    DO(fflush(file));
    file = freopen("b.txt", "w", file);
    DO(fputs("ordinary", file) >= 0);
    DO(fflush(file));
    int status;
    if (fork() == 0) _exit(0);
    DO(wait(&status) > 0);
    DO(fputs(" one", file) >= 0);
    DO(fclose(file));
    print_length("b.log");
    print_length("b.txt");
}

// The old file is closed, so that its placeholder has the full length.
static void freopen_from_placed_to_placed_file(void) {
    FILE *file = fopen("c.log", "w");
    DO(fputs("as long as this", file) >= 0);
    file = freopen("d.log", "w", file);
    DO(system("env -u LD_PRELOAD stat -c %s c.log"));
    DO(fputs("another", file) >= 0);
    file = freopen(NULL, "r", file);
    char text[16] = {0};
    DO(file != NULL && fread(text, 1, 15, file) == 7);
    puts(text);
    DO(fclose(file));
    print_length("c.log");
    print_length("d.log");
}

// Each file takes more than half of the zones, so the next one fits only after the unlinked file
// was closed.
static void freopen_frees_the_zones_of_an_unlinked_file(void) {
    enum { PART = 1 << 20 };
    char *data = calloc(1, PART);
    FILE *file = fopen("first.log", "w");
    for (int round = 0; round < 3; round++) {
        long done = 0;
        for (int i = 0; i < 30; i++) done += (long)fwrite(data, 1, PART, file);
        DO(done == 30L * PART);
        unlink(round % 2 ? "next.log" : "first.log");
        file = freopen(round % 2 ? "first.log" : "next.log", "w", file);
    }
    DO(fclose(file));
}

int main(void) {
    failed_freopen_closes_the_descriptor();
    freopen_from_placed_to_ordinary_file();
    freopen_from_placed_to_placed_file();
    freopen_frees_the_zones_of_an_unlinked_file();
    return 0;
}
