// One thread flushes all streams, among them that of a placed file, while the main thread forks.
// The C library's fork takes the lock of all streams, which the flushing thread holds as it writes.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 100 };

static FILE *stream;
static volatile int stop;

static void *flush_until_stopped(void *none) {
    long lines = 0;
    while (!stop) {
        fprintf(stream, "%ld\n", lines++);
        fflush(NULL);
    }
    return none;
}

static void *open_and_close_stream(void *none) {
    FILE *other = fopen("/dev/null", "w");
    return other && fclose(other) == 0 ? other : NULL;
}

// In a child: a new thread can open a stream, and the child can fork again. An alarm ends a child
// that hangs on a lock inherited from its parent.
static int check_child(int deeper) {
    pthread_t thread;
    void *opened = NULL;
    alarm(30);
    if (pthread_create(&thread, NULL, open_and_close_stream, NULL) != 0) return 1;
    pthread_join(thread, &opened);
    if (!opened) return 2;
    pid_t child = deeper ? fork() : -1;
    if (child == 0) _exit(check_child(0));
    int status = 0;
    if (deeper && (child < 0 || waitpid(child, &status, 0) != child)) return 3;
    return status != 0 ? 4 : 0;
}

// Programs read this flag of the C library directly, for instance code of C++ compilers.
extern char __libc_single_threaded;

int main(void) {
    stream = fopen("t.log", "w");
    int bad = 0, alone = __libc_single_threaded, first = 1;
    // While the process has one thread, the C library's fork takes no lock.
    pid_t only = fork();
    if (only == 0) _exit(check_child(1));
    if (waitpid(only, &first, 0) != only || first != 0) bad++;
    pthread_t thread;
    pthread_create(&thread, NULL, flush_until_stopped, NULL);
    for (int i = 0; i < FORKS; i++) {
        usleep(300);
        pid_t child = fork();
        if (child == 0) _exit(i % 10 == 0 ? check_child(1) : 0);
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
