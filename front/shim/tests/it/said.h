// DO(call) prints a call's text, its result and, if negative, the name of errno. Files that include
// this header define _GNU_SOURCE first.
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void line(const char *what, long answer) {
    int error = errno;
    printf("%s = %ld%s%s\n", what, answer, answer < 0 ? " " : "",
           answer < 0 ? strerrorname_np(error) : "");
    fflush(stdout);
    errno = 0;
}
#define DO(call) line(#call, (long)(call))
