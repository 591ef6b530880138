// Threads that use a placed file in a loop end when they are cancelled, and leave no lock held.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "said.h"

static int fd;
static FILE *stream;
static sem_t began;
static volatile int ended;

static void note_cleanup(void *none) {
    (void)none;
    ended = 1;
}

static void *write_and_sync(void *none) {
    sem_post(&began);
    for (;;)
        if (write(fd, "write", 5) != 5 || fsync(fd) != 0) return none;
}

static void *read_forever(void *none) {
    char byte;
    sem_post(&began);
    for (;;)
        if (pread(fd, &byte, 1, 0) != 1) return none;
}

static void *read_vectors(void *none) {
    char byte;
    struct iovec part = {&byte, 1};
    sem_post(&began);
    for (;;)
        if (preadv(fd, &part, 1, 0) != 1) return none;
}

static void *sync_data(void *none) {
    sem_post(&began);
    for (;;)
        if (fdatasync(fd) != 0) return none;
}

// Blocks: no data ever arrive in the pipe.
static void *splice_from_empty_pipe(void *none) {
    int ends[2], other = open("c.log", O_RDWR | O_CREAT, 0644);
    if (pipe(ends) != 0) return none;
    sem_post(&began);
    splice(ends[0], NULL, other, NULL, 10, 0);
    return none;
}

static void *print_to_stream(void *none) {
    sem_post(&began);
    pthread_cleanup_push(note_cleanup, NULL);
    for (;;)
        if (fprintf(stream, "print") != 5 || fflush(stream) != 0) return none;
    pthread_cleanup_pop(0);
}

static int cancelled(void *(*work)(void *)) {
    pthread_t thread;
    void *answer = NULL;
    struct timespec until;
    pthread_create(&thread, NULL, work, NULL);
    sem_wait(&began);
    pthread_cancel(thread);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    return pthread_timedjoin_np(thread, &answer, &until) == 0 && answer == PTHREAD_CANCELED;
}

int main(void) {
    sem_init(&began, 0, 0);
    fd = open("a.log", O_RDWR | O_CREAT | O_APPEND, 0644);
    stream = fopen("b.log", "w");
    DO(write(fd, "first", 5));
    DO(cancelled(write_and_sync));
    DO(cancelled(read_forever));
    DO(cancelled(read_vectors));
    DO(cancelled(sync_data));
    DO(cancelled(splice_from_empty_pipe));
    DO(cancelled(print_to_stream));
    DO(ended);
    DO(ftrylockfile(stream));
    DO(write(fd, "still", 5));
    DO(fcntl(fd, F_GETFD));
    int status = 1;
    if (fork() == 0) _exit(write(fd, "child", 5) != 5);
    DO(wait(&status) > 0 && status == 0);
    DO(close(fd));
    return 0;
}
