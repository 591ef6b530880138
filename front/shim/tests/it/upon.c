// A timer's handler makes every file call while it interrupts the same thread's calls on placed
// files, and another thread opens and closes such files. Each result is right, or the error is
// EDEADLK or EAGAIN; these only inside an interrupted call, and never for an ordinary file.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TICKS = 1500, SIZE = 700, CALLS = 27 };

static volatile sig_atomic_t ticks, bad, within, plain, renamed;
static volatile long written, put;
static int growing, kept, puts_to, forced, pipes[2];
static const char text[] = "0123456789";

// Whether a call succeeded; an unjustified error is noted as bad.
static int done(long answer) {
    if (answer >= 0) return 1;
    int told = errno == EDEADLK || errno == EAGAIN;
    if (!told || !within || plain) bad = 100 + (int)(ticks % CALLS);
    return 0;
}

static void told(int error) {
    errno = error;
    done(error ? -1 : 0);
}

static void right(int it) {
    if (!it) bad = 1 + (int)(ticks % CALLS);
}

// The length may include the write in progress.
static void grown(long size) {
    right(size == written || size == written + SIZE);
}

static void lengths(int which) {
    struct stat of;
    struct statx more;
    switch (which) {
    case 0:
        if (done(fstat(growing, &of))) grown(of.st_size);
        break;
    case 1:
        if (done(statx(growing, "", AT_EMPTY_PATH, STATX_SIZE, &more))) grown((long)more.stx_size);
        break;
    case 2:
        if (done(stat("grows.log", &of))) grown(of.st_size);
        break;
    case 3:
        if (done(fstatat(AT_FDCWD, "kept.log", &of, 0))) right(of.st_size == 10);
        break;
    case 4:
        if (done(statx(AT_FDCWD, "kept.log", 0, STATX_SIZE, &more))) right(more.stx_size == 10);
        break;
    default:
        if (done(lstat("cut.log", &of))) right(of.st_size == 10);
    }
}

static void names(int which) {
    switch (which) {
    case 6:
        if (done(renamed ? rename("new.log", "old.log") : rename("old.log", "new.log")))
            renamed = !renamed;
        break;
    case 7:
        // A file whose removal was refused earlier still exists.
        if (link("kept.log", "link.log") == 0 || errno == EEXIST) done(unlink("link.log"));
        else done(-1);
        break;
    case 8:
        if (unlink("link.log") != 0) right(errno == ENOENT || errno == EDEADLK);
        break;
    case 9:
        done(truncate("cut.log", 10));
        break;
    default:
        right(rename("none.log", "kept.log") != 0 && (errno == ENOENT || (within && errno == EDEADLK)));
    }
}

static void bytes(int which) {
    char got[16];
    struct iovec into = {got, sizeof got}, from = {(char *)text, 10};
    off_t at = 0;
    long n = 0;
    switch (which) {
    case 11:
        if (done(preadv(kept, &into, 1, 0))) right(memcmp(got, text, 10) == 0);
        break;
    case 12:
        if (done(n = writev(puts_to, &from, 1))) put += n;
        break;
    case 13:
        if (done(n = preadv2(kept, &into, 1, 4, 0))) right(n == 6 && got[0] == '4');
        break;
    case 14:
        if (done(n = sendfile(pipes[1], kept, &at, 5)))
            right(n == 5 && read(pipes[0], got, 5) == 5 && memcmp(got, text, 5) == 0);
        break;
    case 15:
        if (done(n = splice(kept, &at, pipes[1], NULL, 5, 0)))
            right(n == 5 && read(pipes[0], got, 5) == 5 && memcmp(got, text, 5) == 0);
        break;
    case 16:
        if (done(n = pwritev2(puts_to, &from, 1, 0, RWF_APPEND))) put += n;
        break;
    default:
        if (done(n = pread(kept, got, 10, 0))) right(n == 10);
    }
}

static void controls(int which) {
    uint64_t hint = 2;
    switch (which) {
    case 18:
        done(fcntl(puts_to, F_SETFL, O_APPEND));
        break;
    case 19:
        done(fcntl(puts_to, 1036, &hint));
        break;
    case 20:
        told(posix_fadvise(kept, 0, 0, POSIX_FADV_RANDOM));
        break;
    case 21:
        told(posix_fallocate(kept, 0, 5));
        break;
    case 22:
        if (ticks / CALLS % 8 == 0) {
            sync();
            done(syncfs(kept));
        }
        break;
    case 23:
        done(close_range(3000, 3001, 0));
        break;
    default: {
        char *map = mmap(NULL, 10, PROT_READ, MAP_PRIVATE, forced, 0);
        if (done(map == MAP_FAILED ? -1 : 0)) {
            right(map[3] == '3');
            done(munmap(map, 10));
        }
    }
    }
}

// Calls on ordinary files are never refused.
static void unnamed(void) {
    struct stat of;
    struct statx more;
    char got[16];
    plain = 1;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    right(done(fd) && done(fstat(fd, &of)) && done(read(fd, got, 16)) && done(close(fd)));
    right(done(stat("empty.txt", &of)) && of.st_size == 0);
    right(done(statx(AT_FDCWD, "full.txt", 0, STATX_SIZE, &more)) && more.stx_size == 10);
    right(done(rename("full.txt", "full2.txt")) && done(rename("full2.txt", "full.txt")));
    right(done(truncate("full.txt", 10)));
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    right(map != MAP_FAILED && done(munmap(map, 4096)));
    plain = 0;
}

static void tick(int signal) {
    (void)signal;
    if (ticks >= TICKS) return;
    int before = errno, which = ticks % CALLS;
    if (which < 6) lengths(which);
    else if (which < 11) names(which);
    else if (which < 18) bytes(which);
    else if (which < 25) controls(which);
    else unnamed();
    ticks++;
    errno = before;
}

static void *opens(void *none) {
    while (ticks < TICKS) {
        int fd = open("other.log", O_CREAT | O_WRONLY | O_APPEND, 0644);
        if (fd < 0 || write(fd, text, 10) != 10 || close(dup(fd)) != 0 || close(fd) != 0) bad = 80;
    }
    return none;
}

static int make(const char *path, int flags) {
    int fd = open(path, O_CREAT | O_RDWR | flags, 0644);
    if (write(fd, text, 10) != 10 || fsync(fd) != 0) bad = 81;
    return fd;
}

int main(void) {
    static char data[SIZE];
    memset(data, 'u', SIZE);
    const char *closed[] = {"cut.log", "old.log", "full.txt"};
    for (int i = 0; i < 3; i++) close(make(closed[i], 0));
    close(open("empty.txt", O_CREAT | O_WRONLY, 0644));
    kept = make("kept.log", 0);
    close(make("forced.log", 0));
    forced = open("forced.log", O_RDONLY);
    puts_to = make("puts.log", O_APPEND);
    growing = open("grows.log", O_CREAT | O_RDWR, 0644);
    if (pipe(pipes) != 0) return 1;
    sigset_t ticking;
    sigemptyset(&ticking);
    sigaddset(&ticking, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &ticking, NULL);
    pthread_t other;
    pthread_create(&other, NULL, opens, NULL);
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_sigmask(SIG_UNBLOCK, &ticking, NULL);
    for (long i = 0; ticks < TICKS; i++) {
        within = 1;
        long n = write(growing, data, SIZE);
        pthread_sigmask(SIG_BLOCK, &ticking, NULL);
        if (n != SIZE) bad = 82;
        written += SIZE;
        pthread_sigmask(SIG_UNBLOCK, &ticking, NULL);
        if (pread(growing, data, SIZE, written - SIZE) != SIZE) bad = 83;
        if (i % 50 == 0 && fsync(growing) != 0) bad = 84;
        int fd = open("more.log", O_CREAT | O_WRONLY | O_TRUNC, 0644);
        if (fd < 0 || close(fd) != 0 || unlink("more.log") != 0) bad = 85;
        within = 0;
        // Some ticks interrupt no call.
        for (volatile int idle = 0; idle < 100000; idle++) {}
    }
    setitimer(ITIMER_REAL, &never, NULL);
    pthread_join(other, NULL);
    struct stat of;
    fstat(puts_to, &of);
    printf("bad %d, all put %d\n", bad, of.st_size == 10 + put);
    fstat(growing, &of);
    printf("all written %d\n", of.st_size == written);
    return 0;
}
