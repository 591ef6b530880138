// Forks by forkpty, clone and daemon, which bypass the library's fork hook. Parent and child use
// the same placed files concurrently, and neither receives a reply meant for the other.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(long answer) {
    if (answer < 0) _exit(9);
}

enum { ROUNDS = 1500, SIZE = 5000 };

// Two files of different lengths, so that a reply about the wrong file is detected.
static int first, second;

static long check_file(int fd, int len, char with, int round) {
    char seen[8];
    struct stat of;
    long wrong = pread(fd, seen, 4, len - 4) != 4 || seen[0] != with || seen[3] != with;
    wrong += fstat(fd, &of) != 0 || of.st_size != len;
    if (round % 50 == 0) wrong += fsync(fd) != 0;
    return wrong;
}

static long use_files(int fd, int len, char with, const char *own) {
    long wrong = 0;
    int mine = open(own, O_CREAT | O_RDWR | O_TRUNC, 0644);
    char line[100];
    memset(line, with, sizeof line);
    for (int round = 0; round < ROUNDS; round++) {
        wrong += check_file(fd, len, with, round);
        wrong += write(mine, line, sizeof line) != sizeof line;
    }
    wrong += lseek(mine, 0, SEEK_END) != ROUNDS * (int)sizeof line;
    wrong += pread(mine, line, 1, 777) != 1 || line[0] != with;
    close(mine);
    return wrong;
}

static void parent_and_child_use_files(const char *how, pid_t child, int output) {
    if (child == 0) {
        long wrong = use_files(second, SIZE + 1000, 'b', "child.log");
        if (output >= 0) dprintf(1, "wrong %ld\n", wrong);
        _exit(wrong != 0);
    }
    long wrong = child < 0 ? 99 : use_files(first, SIZE, 'a', "parent.log");
    int status = 0;
    char said[100] = "";
    if (output > 0) {
        ssize_t got = read(output, said, sizeof said - 1);
        said[got < 0 ? 0 : got] = 0;
    }
    waitpid(child, &status, 0);
    printf("%s: parent %ld, child %d %s\n", how, wrong, WEXITSTATUS(status), said);
    fflush(stdout);
}

int main(void) {
    static char data[SIZE + 1000];
    first = open("a.log", O_CREAT | O_RDWR | O_TRUNC, 0644);
    memset(data, 'a', sizeof data);
    must(write(first, data, SIZE));
    second = open("b.log", O_CREAT | O_RDWR | O_TRUNC, 0644);
    memset(data, 'b', sizeof data);
    must(write(second, data, SIZE + 1000));
    char *map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, first, 0);
    int terminal = 0;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    parent_and_child_use_files("forkpty", child, terminal);
    child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    parent_and_child_use_files("clone", child, -1);
    // A child that unmaps and closes inherited files does not affect its parent.
    child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        munmap(map, SIZE);
        close(first);
        // A grandchild inherits the remaining file.
        pid_t grand = fork();
        if (grand == 0) _exit(use_files(second, SIZE + 1000, 'b', "grand.log") != 0);
        int status;
        waitpid(grand, &status, 0);
        _exit(WEXITSTATUS(status));
    }
    int status;
    waitpid(child, &status, 0);
    printf("let go: %d, %c, %ld\n", WEXITSTATUS(status), map[SIZE - 1], check_file(first, SIZE, 'a', 0));
    fflush(stdout);
    // A daemonized child continues with unsynced data of its ended parent.
    int late = open("late.log", O_CREAT | O_RDWR | O_TRUNC, 0644), end[2];
    char word;
    must(write(late, "one", 3));
    must(pipe(end));
    if (fork() == 0) {
        if (daemon(1, 1) != 0) _exit(1);
        long wrong = write(late, "two", 3) != 3;
        wrong += fsync(late) != 0 || close(late) != 0;
        word = wrong ? 'w' : 'r';
        must(write(end[1], &word, 1));
        _exit(0);
    }
    wait(&status);
    must(read(end[0], &word, 1));
    char seen[8] = {0};
    must(pread(late, seen, 6, 0));
    printf("daemon: %c %s\n", word, seen);
    return 0;
}
