// One thread opens and closes unlinked placed files while the main thread forks. A child can read
// every file that it has open, whenever its parent closed it. This runs under the library only:
// without it, a child may also have a file opened while the kernel copied descriptors.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "said.h"

enum { FORKS = 100 };

static volatile int file = -1, stop;
static volatile long turns;

static void *opens(void *none) {
    while (!stop) {
        int fd = open("nameless.log", O_RDWR | O_CREAT | O_EXCL, 0644);
        if (fd < 0 || unlink("nameless.log") != 0) _exit(5);
        if (write(fd, "still here", 10) != 10) _exit(6);
        file = fd;
        for (int i = 0; i < 3; i++) sched_yield();
        file = -1;
        close(fd);
        turns++;
    }
    return none;
}

int main(void) {
    pthread_t thread;
    int bad = 0, had = 0;
    close(open("first.log", O_RDWR | O_CREAT, 0644));
    pthread_create(&thread, NULL, opens, NULL);
    for (int i = 0; i < FORKS; i++) {
        int go[2], status = 1;
        char text[10];
        if (pipe(go) != 0) return 1;
        pid_t child = fork();
        if (child == 0) {
            int fd = file;
            close(go[1]);
            if (read(go[0], text, 1) != 0) _exit(3);
            if (fd < 0) _exit(0);
            _exit(pread(fd, text, 10, 0) == 10 && memcmp(text, "still here", 10) == 0 ? 1 : 2);
        }
        for (long then = turns; turns < then + 2;) sched_yield();
        close(go[0]);
        close(go[1]);
        if (waitpid(child, &status, 0) != child) return 2;
        had += WEXITSTATUS(status) == 1;
        bad += WEXITSTATUS(status) > 1;
    }
    stop = 1;
    pthread_join(thread, NULL);
    printf("bad %d, some %d\n", bad, had > 0);
    return 0;
}
