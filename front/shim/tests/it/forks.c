// A timer's handler forks and starts programs while the program writes and reads, which continues.
// A fork inside a call on a placed file may fail with EAGAIN.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICKS = 60, SIZE = 3000 };

static volatile sig_atomic_t ticks, bad, forked;

static void waits(pid_t child) {
    int status;
    pid_t done;
    while ((done = waitpid(child, &status, 0)) < 0 && errno == EINTR) {}
    if (done != child) bad = 2;
    else if (status != 0) bad = 3;
}

static void tick(int signal) {
    (void)signal;
    int before = errno;
    pid_t child;
    if (ticks % 4 == 3) {
        char *words[] = {"true", NULL}, *none[] = {NULL};
        int error = posix_spawn(&child, "/bin/true", NULL, NULL, words, none);
        if (error == 0) waits(child);
        else if (error != EAGAIN) bad = 6;
    } else {
        child = fork();
        if (child == 0) _exit(0);
        if (child > 0) waits(child), forked++;
        else if (errno != EAGAIN) bad = 1;
    }
    ticks++;
    errno = before;
}

int main(void) {
    static char data[SIZE];
    memset(data, 'f', SIZE);
    int fd = open("f.log", O_CREAT | O_RDWR, 0644);
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    long written = 0;
    usleep(5000);
    while (ticks < TICKS) {
        if (write(fd, data, SIZE) != SIZE || pread(fd, data, SIZE, written * SIZE) != SIZE) bad = 4;
        if (++written % 300 == 0 && (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0)) bad = 5;
        written %= 300;
        // Some come upon nothing.
        if (written % 20 == 0) usleep(2500);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("bad %d, some %d, whole %d\n", bad, forked > 0, lseek(fd, 0, SEEK_END) == written * SIZE);
    return 0;
}
