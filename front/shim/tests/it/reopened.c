// Streams over placed files that are opened anew over something else, and what each call
// answers, as lines.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "said.h"

static void size(const char *path) {
    struct stat of;
    printf("%s: %ld bytes\n", path, stat(path, &of) == 0 ? (long)of.st_size : -1);
}

// What is not opened is closed: its number is another one's.
static void in_vain(void) {
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
    size("a.log");
}

// A file that no rule names has an offset of its own.
static void over_an_ordinary_one(void) {
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
    size("b.log");
    size("b.txt");
}

// The old file is closed: what stands for it is as long, and a nameless one is gone.
static void over_another_one(void) {
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
    size("c.log");
    size("d.log");
}

// Each takes more than half of the zones of the test.
static void nameless(void) {
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
    in_vain();
    over_an_ordinary_one();
    over_another_one();
    nameless();
    return 0;
}
