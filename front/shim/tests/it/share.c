// Several processes use the same placed files. Prints "ok" after each part.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(it) do { if (!(it)) { perror(#it); fprintf(stderr, "line %d\n", __LINE__); \
    _exit(1); } } while (0)

static void join(int children) {
    for (int i = 0; i < children; i++) {
        int status;
        CHECK(wait(&status) > 0);
        CHECK(status == 0);
    }
}

// Concurrent appends of several processes: none is lost or torn.
static void appends(int before) {
    enum { WRITERS = 4, RECORDS = 1500, SIZE = 97 };
    int shared = before ? open("a.log", O_CREAT | O_WRONLY | O_APPEND, 0644) : -1;
    for (int w = 0; w < WRITERS; w++) {
        if (fork() == 0) {
            int fd = before ? shared : open("a.log", O_CREAT | O_WRONLY | O_APPEND, 0644);
            char record[SIZE];
            memset(record, 'a' + w, sizeof record);
            for (int i = 0; i < RECORDS; i++) {
                CHECK(write(fd, record, sizeof record) == sizeof record);
                if (i % 500 == w) CHECK(fsync(fd) == 0);
            }
            _exit(0);
        }
    }
    join(WRITERS);
    int count[WRITERS] = {0}, fd = open("a.log", O_RDONLY);
    char record[SIZE];
    ssize_t got;
    while ((got = read(fd, record, sizeof record)) > 0) {
        CHECK(got == SIZE);
        for (int i = 1; i < SIZE; i++) CHECK(record[i] == record[0]);
        count[record[0] - 'a']++;
    }
    for (int w = 0; w < WRITERS; w++) CHECK(count[w] == RECORDS);
    close(fd);
    if (before) close(shared);
    CHECK(unlink("a.log") == 0);
}

// Concurrent writes at an offset that processes share: none is lost or torn.
static void writes_at_a_shared_offset(void) {
    enum { WRITERS = 4, RECORDS = 400, SIZE = 97 };
    int fd = open("t.log", O_CREAT | O_RDWR, 0644);
    char record[SIZE];
    for (int w = 0; w < WRITERS; w++) {
        if (fork() == 0) {
            memset(record, 'a' + w, sizeof record);
            for (int i = 0; i < RECORDS; i++)
                CHECK(write(fd, record, sizeof record) == sizeof record);
            _exit(0);
        }
    }
    join(WRITERS);
    CHECK(lseek(fd, 0, SEEK_CUR) == WRITERS * RECORDS * SIZE);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    // The processes read the file through the shared offset, each record once.
    int back[2];
    CHECK(pipe(back) == 0);
    for (int w = 0; w < WRITERS; w++) {
        if (fork() == 0) {
            ssize_t got;
            while ((got = read(fd, record, SIZE)) > 0) {
                CHECK(got == SIZE);
                for (int i = 1; i < SIZE; i++) CHECK(record[i] == record[0]);
                CHECK(write(back[1], record, 1) == 1);
            }
            CHECK(got == 0);
            _exit(0);
        }
    }
    close(back[1]);
    int count[WRITERS] = {0};
    while (read(back[0], record, 1) == 1) count[record[0] - 'a']++;
    join(WRITERS);
    for (int w = 0; w < WRITERS; w++) CHECK(count[w] == RECORDS);
    close(back[0]);
    close(fd);
}

// Data written by one process are visible to another at once, to every call.
static void writes_are_visible_to_others_at_once(void) {
    enum { ROUNDS = 1500, SIZE = 333 };
    int to[2], back[2];
    CHECK(pipe(to) == 0 && pipe(back) == 0);
    int fd = open("o.log", O_CREAT | O_WRONLY | O_TRUNC, 0644);
    char record[SIZE], seen[SIZE], word;
    if (fork() == 0) {
        int own = open("o.log", O_RDONLY);
        for (int i = 0; i < ROUNDS; i++) {
            struct stat of;
            CHECK(read(to[0], &word, 1) == 1);
            CHECK(fstat(own, &of) == 0 && of.st_size == (i + 1) * SIZE);
            CHECK(stat("o.log", &of) == 0 && of.st_size == (i + 1) * SIZE);
            CHECK(pread(own, seen, SIZE, (off_t)i * SIZE) == SIZE);
            memset(record, i, SIZE);
            CHECK(memcmp(record, seen, SIZE) == 0);
            CHECK(pread(own, seen, SIZE, (off_t)(i + 1) * SIZE) == 0);
            CHECK(write(back[1], &word, 1) == 1);
        }
        _exit(0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        memset(record, i, SIZE);
        CHECK(write(fd, record, SIZE) == SIZE);
        CHECK(write(to[1], "x", 1) == 1 && read(back[0], &word, 1) == 1);
    }
    join(1);
    close(fd);
}

// An unlinked file keeps its data while any process has it open.
static void unlinked_file_lives_while_open(void) {
    int fd = open("u.log", O_CREAT | O_RDWR, 0644), to[2];
    CHECK(pipe(to) == 0);
    CHECK(write(fd, "kept here", 9) == 9);
    CHECK(unlink("u.log") == 0);
    if (fork() == 0) {
        char text[9], word;
        CHECK(read(to[0], &word, 1) == 1);
        CHECK(pread(fd, text, 9, 0) == 9 && memcmp(text, "kept here", 9) == 0);
        CHECK(pwrite(fd, ", and more", 10, 9) == 10);
        CHECK(lseek(fd, 0, SEEK_END) == 19);
        _exit(0);
    }
    close(fd);
    usleep(20000);
    CHECK(write(to[1], "x", 1) == 1);
    join(1);
}

// An overwrite by one process moves the file to the ordinary file system; the descriptor of the
// other process stays valid.
static void reader_follows_a_file_to_the_ordinary_file_system(void) {
    char data[9000], seen[9000];
    memset(data, 'd', sizeof data);
    int fd = open("m.log", O_CREAT | O_RDWR, 0644);
    CHECK(write(fd, data, sizeof data) == sizeof data);
    CHECK(fsync(fd) == 0);
    if (fork() == 0) {
        int own = open("m.log", O_RDWR);
        CHECK(pwrite(own, "past", 4, 100) == 4);
        _exit(0);
    }
    join(1);
    memcpy(data + 100, "past", 4);
    CHECK(pread(fd, seen, sizeof seen, 0) == sizeof seen);
    CHECK(memcmp(data, seen, sizeof data) == 0);
    CHECK(write(fd, "end", 3) == 3);
    CHECK(lseek(fd, 0, SEEK_CUR) == 9003);
    struct stat of;
    CHECK(stat("m.log", &of) == 0 && of.st_size == 9003);
    close(fd);
}

// One process syncs a file while the other moves it to the ordinary file system and writes there:
// the later writes stay.
static void fsync_during_a_move_loses_no_later_write(void) {
    enum { ROUNDS = 150 };
    char data[5000], name[20];
    memset(data, 'd', sizeof data);
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof name, "f%d.log", i);
        int fd = open(name, O_CREAT | O_RDWR, 0644);
        CHECK(write(fd, data, sizeof data) == sizeof data);
        if (fork() == 0) {
            int own = open(name, O_RDWR);
            for (int n = 0; n < 40; n++) CHECK(fsync(own) == 0);
            _exit(0);
        }
        usleep(i * 20 % 1500);
        CHECK(pwrite(fd, "past", 4, 100) == 4);
        CHECK(pwrite(fd, data, 3000, 5000) == 3000);
        join(1);
        struct stat of;
        CHECK(fstat(fd, &of) == 0 && of.st_size == 8000);
        CHECK(pread(fd, data, 1, 7999) == 1 && data[0] == 'd');
        close(fd);
        CHECK(unlink(name) == 0);
    }
}

// One process truncates and rewrites a file that another has read and mapped.
static void truncation_is_seen_by_readers_and_mappings(void) {
    enum { SIZE = 50000 };
    static char data[SIZE], seen[SIZE];
    int to[2], back[2];
    char word;
    CHECK(pipe(to) == 0 && pipe(back) == 0);
    int fd = open("c.log", O_CREAT | O_RDWR, 0644);
    memset(data, 'a', SIZE);
    CHECK(write(fd, data, SIZE) == SIZE && fsync(fd) == 0);
    if (fork() == 0) {
        int own = open("c.log", O_RDONLY);
        for (int i = 0; i < 30; i++) {
            CHECK(pread(own, seen, SIZE, 0) == SIZE);
            for (int at = 0; at < SIZE; at++) CHECK(seen[at] == 'a' + i % 26);
            CHECK(pread(own, seen, 100, 4096) == 100);
            CHECK(write(back[1], "x", 1) == 1 && read(to[0], &word, 1) == 1);
        }
        _exit(0);
    }
    for (int i = 1; i <= 30; i++) {
        CHECK(read(back[0], &word, 1) == 1);
        CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
        memset(data, 'a' + i % 26, SIZE);
        CHECK(write(fd, data, SIZE) == SIZE && fsync(fd) == 0);
        CHECK(write(to[1], "x", 1) == 1);
    }
    join(1);
    close(fd);
}

static volatile int handled, refused;
static int handler_fd;

static void handles(int signal) {
    (void)signal;
    int before = errno;
    __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
    if (write(handler_fd, "h", 1) != 1) {
        if (errno != EDEADLK) _exit(9);
        __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
    }
    int copy = dup(handler_fd);
    if (copy >= 0 ? close(copy) != 0 && errno != EDEADLK : errno != EDEADLK) _exit(8);
    errno = before;
}

static void *writes(void *file) {
    for (int i = 0; i < 4000; i++) CHECK(write(*(int *)file, "thread", 6) == 6);
    return NULL;
}

// Threads write while other threads fork and signal handlers interrupt all of them.
static void writes_beside_forks_and_handlers(void) {
    enum { FORKS = 150 };
    pthread_t threads[3];
    int files[3];
    char name[20];
    handler_fd = open("h.log", O_CREAT | O_WRONLY | O_APPEND, 0644);
    struct sigaction action = {.sa_handler = handles, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int t = 0; t < 3; t++) {
        snprintf(name, sizeof name, "thread%d.log", t);
        files[t] = open(name, O_CREAT | O_RDWR | O_TRUNC, 0644);
        CHECK(files[t] >= 0);
        CHECK(pthread_create(&threads[t], NULL, writes, &files[t]) == 0);
    }
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            signal(SIGALRM, SIG_DFL);
            alarm(20);
            snprintf(name, sizeof name, "child%d.log", i % 7);
            int own = open(name, O_CREAT | O_WRONLY | O_APPEND, 0644);
            CHECK(own >= 0 && write(own, "child", 5) == 5);
            CHECK(lseek(files[i % 3], 0, SEEK_END) >= 0);
            _exit(0);
        }
        int status;
        while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
        CHECK(status == 0);
    }
    for (int t = 0; t < 3; t++) CHECK(pthread_join(threads[t], NULL) == 0);
    setitimer(ITIMER_REAL, &never, NULL);
    for (int t = 0; t < 3; t++) CHECK(lseek(files[t], 0, SEEK_END) == 24000);
    CHECK(refused < handled && lseek(handler_fd, 0, SEEK_END) == handled - refused);
    for (int t = 0; t < 3; t++) close(files[t]);
    close(handler_fd);
}

// A process is killed after many writes without a sync.
static void kill_loses_no_written_data(void) {
    if (fork() == 0) {
        int fd = open("k.log", O_CREAT | O_WRONLY, 0644);
        char data[1000];
        for (int i = 0; i < 3000; i++) {
            memset(data, i, sizeof data);
            CHECK(write(fd, data, sizeof data) == sizeof data);
        }
        kill(getpid(), SIGKILL);
    }
    int status;
    CHECK(wait(&status) > 0 && WIFSIGNALED(status));
    int fd = open("k.log", O_RDONLY);
    char data[1000];
    for (int i = 0; i < 3000; i++) {
        CHECK(read(fd, data, sizeof data) == sizeof data);
        for (int at = 0; at < 1000; at++) CHECK(data[at] == (char)i);
    }
    CHECK(read(fd, data, 1) == 0);
    close(fd);
}

int main(void) {
    appends(0);
    puts("ok appends");
    fflush(stdout);
    appends(1);
    puts("ok appends by what was inherited");
    fflush(stdout);
    writes_at_a_shared_offset();
    puts("ok at a shared offset");
    fflush(stdout);
    writes_are_visible_to_others_at_once();
    puts("ok at once");
    fflush(stdout);
    unlinked_file_lives_while_open();
    puts("ok nameless");
    fflush(stdout);
    reader_follows_a_file_to_the_ordinary_file_system();
    puts("ok moved");
    fflush(stdout);
    fsync_during_a_move_loses_no_later_write();
    puts("ok moved while forced");
    fflush(stdout);
    truncation_is_seen_by_readers_and_mappings();
    puts("ok cut");
    fflush(stdout);
    writes_beside_forks_and_handlers();
    puts("ok forked");
    fflush(stdout);
    kill_loses_no_written_data();
    puts("ok killed");
    return 0;
}
