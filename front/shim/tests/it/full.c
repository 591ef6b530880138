// A stream on a placed file when the zones are full: data reported as written are in the file, and
// the failure of the rest is reported.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "said.h"

enum { PART = 1 << 20, PARTS = 64 };

int main(void) {
    char *data = malloc(PART);
    memset(data, 'f', PART);
    FILE *file = fopen("a.log", "w");
    // Data in the stream's buffer count as written.
    setvbuf(file, NULL, _IONBF, 0);
    long total = 0;
    size_t done = PART;
    for (int i = 0; i < PARTS && done == PART; i++) total += (long)(done = fwrite(data, 1, PART, file));
    int error = errno;
    DO(total < (long)PART * PARTS && done < PART);
    DO(error == ENOSPC);
    DO(ferror(file) != 0);
    struct stat of;
    DO(fstat(fileno(file), &of));
    DO(of.st_size == total);
    DO(fclose(file));
    file = fopen("a.log", "a");
    DO(fwrite(data, 1, 100, file));
    DO(fflush(file) == EOF && errno == ENOSPC);
    DO(ferror(file) != 0);
    DO(fwrite(data, 1, 100, file));
    DO(fclose(file) == EOF && errno == ENOSPC);
    DO(stat("a.log", &of));
    DO(of.st_size == total);
    return 0;
}
