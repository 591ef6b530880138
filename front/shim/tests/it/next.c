// The daemon dies during the run. The test starts its successor only after signal handlers that
// interrupted the waiting fsync got EDEADLK for five calls on placed files.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

static volatile sig_atomic_t refused, bad;
static int file, ends[2];

static void refuses(int which, long answer) {
    if (answer >= 0 || errno != EDEADLK) bad = which;
}

static void every(void) {
    struct stat of;
    struct statx more;
    char text[8];
    struct iovec part = {text, sizeof text};
    uint64_t hint = 2;
    refuses(10, stat("a.log", &of));
    refuses(11, lstat("a.log", &of));
    refuses(12, fstatat(AT_FDCWD, "a.log", &of, 0));
    refuses(13, statx(AT_FDCWD, "a.log", 0, STATX_SIZE, &more));
    refuses(14, statx(file, "", AT_EMPTY_PATH, STATX_SIZE, &more));
    refuses(15, rename("a.log", "b.log"));
    refuses(16, rename("a.log", "b.txt"));
    refuses(17, link("a.log", "b.txt"));
    refuses(18, unlink("a.log"));
    refuses(19, truncate("a.log", 1));
    refuses(20, fcntl(file, F_SETFL, O_APPEND));
    refuses(21, fcntl(file, 1036, &hint));
    refuses(22, preadv(file, &part, 1, 0));
    refuses(23, pwritev2(file, &part, 1, -1, RWF_APPEND));
    refuses(24, sendfile(ends[1], file, NULL, 3));
    refuses(25, splice(file, NULL, ends[1], NULL, 3, 0));
    refuses(26, mmap(NULL, 5, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED ? -1 : 0);
    refuses(27, syncfs(file));
    refuses(28, close_range(3000, 3001, 0));
    if (posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM) != EDEADLK) bad = 29;
    if (posix_fallocate(file, 0, 5) != EDEADLK) bad = 30;
    sync();
    closefrom(3000);
    char *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || munmap(map, 4096) != 0) bad = 31;
    if (stat("plain.txt", &of) != 0 || of.st_size != 0) bad = 32;
}

static void tick(int signal) {
    (void)signal;
    int before = errno;
    struct stat of;
    if (fstat(file, &of) != 0) {
        if (errno != EDEADLK) bad = 1;
        every();
        if (++refused == 5) close(open("go", O_CREAT | O_WRONLY, 0644));
    } else if (of.st_size != 5) bad = 2;
    errno = before;
}

int main(void) {
    char byte;
    if (pipe(ends) != 0) return 3;
    close(open("plain.txt", O_CREAT | O_WRONLY, 0644));
    file = open("a.log", O_CREAT | O_RDWR, 0644);
    if (write(file, "first", 5) != 5 || fsync(file) != 0) return 1;
    puts("ready");
    fflush(stdout);
    if (read(0, &byte, 1) != 1) return 2;
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    int done = fsync(file);
    setitimer(ITIMER_REAL, &never, NULL);
    printf("bad %d, forced %d, refused %d\n", bad, done, refused >= 5);
    return 0;
}
