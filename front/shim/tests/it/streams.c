// A thread flushes all streams, one of which is a placed file's, while others fork: the C
// library's fork takes the lock of all streams, which that thread holds as it writes.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 100 };

static FILE *stream;
static volatile int stop;

static void *flushes(void *none) {
    long lines = 0;
    while (!stop) {
        fprintf(stream, "%ld\n", lines++);
        fflush(NULL);
    }
    return none;
}

static void *opens(void *none) {
    FILE *other = fopen("/dev/null", "w");
    return other && fclose(other) == 0 ? other : NULL;
}

// A child has no use for what its parent held of the C library. One that hangs is ended.
static int opens_and_forks(int deeper) {
    pthread_t thread;
    void *opened = NULL;
    alarm(30);
    if (pthread_create(&thread, NULL, opens, NULL) != 0) return 1;
    pthread_join(thread, &opened);
    if (!opened) return 2;
    pid_t child = deeper ? fork() : -1;
    if (child == 0) _exit(opens_and_forks(0));
    int status = 0;
    if (deeper && (child < 0 || waitpid(child, &status, 0) != child)) return 3;
    return status != 0 ? 4 : 0;
}

// Many programs have a copy of it, as compilers for C++ ask it.
extern char __libc_single_threaded;

int main(void) {
    stream = fopen("t.log", "w");
    int bad = 0, alone = __libc_single_threaded, first = 1;
    // Nobody else is there yet, and then the C library's fork takes no lock.
    pid_t only = fork();
    if (only == 0) _exit(opens_and_forks(1));
    if (waitpid(only, &first, 0) != only || first != 0) bad++;
    pthread_t thread;
    pthread_create(&thread, NULL, flushes, NULL);
    for (int i = 0; i < FORKS; i++) {
        usleep(300);
        pid_t child = fork();
        if (child == 0) _exit(i % 10 == 0 ? opens_and_forks(1) : 0);
        int status = 1;
        if (waitpid(child, &status, 0) != child || status != 0) bad++;
    }
    stop = 1;
    pthread_join(thread, NULL);
    bad += fclose(stream) != 0;
    long lines = 0, read = 0;
    stream = fopen("t.log", "r");
    while (fscanf(stream, "%ld", &read) == 1) bad += read != lines++;
    printf("bad %d, some %d, alone %d\n", bad, lines > 0, alone);
    return 0;
}
