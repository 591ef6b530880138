/* What is hard on a recorder: threads, signals, forks of every kind, programs
   that close every descriptor, clear their environment, or are killed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(it) do { if (!(it)) { perror(#it); exit(1); } } while (0)

static int ticks;

static void tick(int signal)
{
    int before = errno;
    (void)signal;
    CHECK(write(ticks, "t", 1) == 1);
    errno = before;
}

static void *writer(void *number)
{
    char name[16];
    snprintf(name, sizeof name, "w%ld", (long)number);
    int fd = open(name, O_WRONLY | O_CREAT, 0600);
    for (int i = 0; i < 5000; i++)
        CHECK(write(fd, name, 2) == 2);
    CHECK(close(fd) == 0);
    return NULL;
}

/* Ends soon, so that signals meet threads that begin and end. */
static void *brief(void *number)
{
    char name[16];
    snprintf(name, sizeof name, "b%ld", (long)number % 8);
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (int i = 0; i < 500; i++)
        CHECK(write(fd, name, 2) == 2);
    CHECK(close(fd) == 0);
    return NULL;
}

static void wait_for(pid_t child, int wanted)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == wanted);
}

static int make(const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0);
    return fd;
}

static void children(void)
{
    int fd = make("forked");
    pid_t child = fork();
    if (child == 0) {
        CHECK(write(fd, "child", 5) == 5);
        _exit(0);
    }
    wait_for(child, 0);
    CHECK(write(fd, "parent", 6) == 6);

    child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        CHECK(write(fd, "cloned", 6) == 6);
        syscall(SYS_exit_group, 0);
    }
    wait_for(child, 0);

    child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "echo vforked > vforked", NULL);
        _exit(1);
    }
    wait_for(child, 0);

    child = fork();
    if (child == 0) {
        char *arguments[] = {"sh", "-c", "echo cleared > cleared", NULL};
        char *nothing[] = {NULL};
        execve("/bin/sh", arguments, nothing);
        _exit(1);
    }
    wait_for(child, 0);

    child = fork();
    if (child == 0) {
        CHECK(write(fd, "killed", 6) == 6);
        raise(SIGKILL);
    }
    wait_for(child, SIGKILL);

    char *arguments[] = {"sh", "-c", "echo spawned; echo spawned > spawned", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 1);
    CHECK(posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ) == 0);
    wait_for(child, 0);
    CHECK(system("echo system > system") == 0);
    CHECK(close(fd) == 0);
}

int main(void)
{
    ticks = open("ticks", O_WRONLY | O_CREAT | O_APPEND, 0600);
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, writer, (void *)i) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (long i = 0; i < 200; i += 4) {
        for (long j = 0; j < 4; j++)
            CHECK(pthread_create(&threads[j], NULL, brief, (void *)(i + j)) == 0);
        for (int j = 0; j < 4; j++)
            CHECK(pthread_join(threads[j], NULL) == 0);
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    CHECK(close(ticks) == 0);
    children();
    for (int fd = 0; fd < 1024; fd++)
        close(fd);
    int fd = make("last");
    CHECK(fd == 0);
    CHECK(write(fd, "last", 4) == 4);
    _exit(0);
}
