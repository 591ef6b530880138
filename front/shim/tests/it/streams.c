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

int main(void) {
    stream = fopen("t.log", "w");
    pthread_t thread;
    pthread_create(&thread, NULL, flushes, NULL);
    int bad = 0;
    for (int i = 0; i < FORKS; i++) {
        usleep(300);
        pid_t child = fork();
        if (child == 0) _exit(0);
        int status = 1;
        if (waitpid(child, &status, 0) != child || status != 0) bad++;
    }
    stop = 1;
    pthread_join(thread, NULL);
    bad += fclose(stream) != 0;
    long lines = 0, read = 0;
    stream = fopen("t.log", "r");
    while (fscanf(stream, "%ld", &read) == 1) bad += read != lines++;
    printf("bad %d, some %d\n", bad, lines > 0);
    return 0;
}
