// A rename of a placed file to a name that no rule matches, without room on the ordinary file
// system.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "said.h"

static char part[1 << 20];

int main(void) {
    memset(part, 'p', sizeof part);
    int fd = open("a.log", O_WRONLY | O_CREAT, 0644);
    for (int i = 0; i < 3; i++)
        if (write(fd, part, sizeof part) != sizeof part) return 1;
    close(fd);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit most = {sizeof part, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &most);
    DO(rename("a.log", "a.bak"));
    DO(link("a.log", "a.bak"));
    DO(access("a.bak", F_OK));
    return 0;
}
