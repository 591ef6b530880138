// A timer's handler jumps out of writes (siglongjmp), as programs do to give up an operation. Data
// of all calls that returned are in the file, and later calls and forks work.
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JUMPS = 60, SIZE = 30000 };

static sigjmp_buf out;
static volatile sig_atomic_t may;

static void gives_up(int signal) {
    (void)signal;
    if (may) {
        may = 0;
        siglongjmp(out, 1);
    }
}

int main(void) {
    static char data[SIZE];
    memset(data, 'j', SIZE);
    int fd = open("j.log", O_CREAT | O_RDWR | O_APPEND, 0644);
    struct sigaction action = {.sa_handler = gives_up};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    volatile int jumps = 0, bad = 0;
    volatile long whole = 0;
    setitimer(ITIMER_REAL, &often, NULL);
    if (sigsetjmp(out, 1)) jumps++;
    while (jumps < JUMPS && !bad) {
        may = 1;
        ssize_t done = write(fd, data, SIZE);
        may = 0;
        if (done == SIZE) whole++;
        else bad = 1;
        if (whole % 100 == 99) {
            if (lseek(fd, 0, SEEK_END) < SIZE) bad = 2;
            if (ftruncate(fd, 0) != 0) bad = 3;
            whole = 0;
        }
    }
    setitimer(ITIMER_REAL, &never, NULL);
    off_t end = lseek(fd, 0, SEEK_END);
    printf("bad %d, enough %d, whole %d\n", bad, end >= whole * SIZE,
           (long)(end % SIZE) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(write(fd, "child", 5) == 5 ? 3 : 4);
    int status;
    waitpid(child, &status, 0);
    printf("child %d, %d\n", WEXITSTATUS(status), lseek(fd, 0, SEEK_END) == end + 5);
    return 0;
}
