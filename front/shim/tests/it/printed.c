// dprintf and its variants, with arguments in registers and on the stack.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "said.h"

// Named by symbol: under _FORTIFY_SOURCE, compilers replace dprintf by the checked variant.
extern int plain(int, const char *, ...) __asm__("dprintf");
extern int checked(int, int, const char *, ...) __asm__("__dprintf_chk");
extern int of_list(int, const char *, va_list) __asm__("vdprintf");
extern int checked_of_list(int, int, const char *, va_list) __asm__("__vdprintf_chk");

#define WORDS "%d %s %c %ld %x %d %d %d|%.2f %g %.1f %f %g %g %g %g %g %g|%s %d\n"
#define GIVEN 1, "two", '3', 4L, 5, 6, 7, 8, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, "end", 11

static int lists(int fd, int check, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    int done = check ? checked_of_list(fd, 1, format, rest) : of_list(fd, format, rest);
    va_end(rest);
    return done;
}

static void prints(int fd) {
    DO(plain(fd, WORDS, GIVEN));
    DO(checked(fd, 1, WORDS, GIVEN));
    DO(lists(fd, 0, WORDS, GIVEN));
    DO(lists(fd, 1, WORDS, GIVEN));
    DO(plain(fd, "no more\n"));
    DO(plain(fd, "%s", ""));
    DO(plain(fd, "%*s\n", 20000, "far"));
}

int main(void) {
    static char seen[100000];
    int fd = open("a.log", O_RDWR | O_CREAT | O_TRUNC, 0644);
    prints(1);
    prints(fd);
    DO(lseek(fd, 0, SEEK_CUR));
    DO(pread(fd, seen, sizeof seen, 0));
    fputs(seen, stdout);
    int reads = open("a.log", O_RDONLY);
    DO(plain(reads, "%d", 5));
    DO(plain(-1, "%d", 5));
    close(reads);
    close(fd);
    return 0;
}
