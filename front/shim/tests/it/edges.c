// What programs seldom do with files, and what each of it answers, as lines. The lines must
// be the same without the library and with files in zones.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <wchar.h>

#include "said.h"

#define PAGE 4096

static char page[PAGE];

static void show(const char *path) {
    char text[64] = {0};
    int fd = open(path, O_RDONLY);
    long got = read(fd, text, sizeof text - 1);
    printf("%s: %ld bytes, %s\n", path, got, text);
    close(fd);
}

static int make(const char *path, const char *text) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (write(fd, text, strlen(text)) < 0) perror(path);
    return fd;
}

static void flags(void) {
    int fd = make("flags.log", "0123456789");
    struct iovec part = {"AB", 2};
    DO(pwritev2(fd, &part, 1, 0, RWF_APPEND));
    DO(lseek(fd, 0, SEEK_CUR));
    show("flags.log");
    lseek(fd, 3, SEEK_SET);
    DO(pwritev2(fd, &part, 1, -1, RWF_APPEND));
    DO(lseek(fd, 0, SEEK_CUR));
    DO(pwritev2(fd, &part, 1, -5, RWF_APPEND));
    DO(pwritev2(fd, &part, 1, 14, 0x40000000));
    char text[4];
    struct iovec into = {text, sizeof text};
    DO(preadv2(fd, &into, 1, 2, RWF_HIPRI));
    DO(preadv2(fd, &into, 1, 2, 0x40000000));
    int other = make("flags2.log", "");
    DO(copy_file_range(fd, NULL, other, NULL, 1, 7));
    int ends[2];
    DO(pipe(ends));
    off_t at = 0;
    DO(splice(fd, &at, ends[1], NULL, 3, 0x4000));
    DO(splice(fd, &at, ends[1], NULL, 3, SPLICE_F_MORE));
    close(ends[0]);
    close(ends[1]);
    close(other);
    close(fd);
    show("flags.log");
}

// As LMDB does: what is mapped is written by calls.
static void mappings(void) {
    int fd = make("map.log", "");
    for (int i = 0; i < 8; i++) {
        memset(page, 'A' + i, PAGE);
        DO(pwrite(fd, page, PAGE, i * (long)PAGE));
    }
    char *map = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, fd, 0);
    memset(page, 'z', PAGE);
    DO(pwrite(fd, page, PAGE, 0));
    DO(pwrite(fd, page, PAGE, 8 * PAGE));
    DO(map[0]);
    DO(map[8 * PAGE]);
    DO(mprotect(map, PAGE, PROT_READ | PROT_WRITE));
    map[1] = '!';
    DO(pread(fd, page, 2, 0));
    DO(page[1]);
    munmap(map, 1 << 20);
    close(fd);
    // By a descriptor that may only read, while another one writes.
    fd = make("map2.log", "before");
    int reader = open("map2.log", O_RDONLY);
    map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, reader, 0);
    DO(pwrite(fd, "B", 1, 0));
    DO(map[0]);
    munmap(map, PAGE);
    DO(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, reader, 0) == MAP_FAILED);
    close(reader);
    close(fd);
}

// Who had a file open before it was written reads what is written.
static void readers(void) {
    char text[16] = {0};
    int reader = open("early.log", O_RDONLY | O_CREAT, 0644);
    int writer = open("early.log", O_WRONLY);
    DO(write(writer, "hello", 5));
    DO(read(reader, text, sizeof text));
    puts(text);
    close(writer);
    DO(pread(reader, text, 4, 1));
    puts(text);
    close(reader);
    // By a descriptor that was there before, and copies of it.
    close(make("empty.txt", ""));
    DO(rename("empty.txt", "empty.log"));
    reader = open("empty.log", O_RDONLY);
    DO(read(reader, text, sizeof text));
    int copy = dup(reader);
    writer = open("empty.log", O_WRONLY);
    DO(write(writer, "later", 5));
    DO(read(copy, text, 2));
    DO(read(reader, text + 2, 3));
    close(writer);
    puts(text);
    DO(pread(reader, text, 4, 1));
    close(copy);
    close(reader);
    // What is made so that a rule does not name it, and renamed, is cut and written anew.
    close(make("plain.txt", "plain"));
    DO(rename("plain.txt", "plain.log"));
    reader = open("plain.log", O_RDONLY);
    writer = open("plain.log", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    DO(write(writer, "again", 5));
    DO(read(reader, text, sizeof text));
    close(writer);
    DO(pread(reader, text, 5, 0));
    puts(text);
    close(reader);
}

static void sends(int socket, int fd) {
    char room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
                             .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    sendmsg(socket, &message, 0);
}

static int receives(int socket, int many) {
    char room[CMSG_SPACE(sizeof(int))], byte;
    struct iovec part = {&byte, 1};
    struct mmsghdr all = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
                                      .msg_controllen = sizeof room}};
    int fd = -1;
    long got = many ? recvmmsg(socket, &all, 1, 0, NULL) : recvmsg(socket, &all.msg_hdr, 0);
    if (got == 1) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&all.msg_hdr)), sizeof fd);
    return fd;
}

// A descriptor that comes by a socket is what it is, whatever had its number before.
static void sockets(void) {
    int ends[2], done[2], status;
    DO(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    DO(pipe(done));
    if (fork() == 0) {
        char byte;
        int fd = make("sent.log", "by a socket");
        fsync(fd);
        for (int i = 0; i < 2; i++) sends(ends[1], fd);
        close(done[1]);
        _exit(read(done[0], &byte, 1) != 0);
    }
    close(done[0]);
    for (int i = 0; i < 2; i++) {
        struct stat of;
        DIR *folder = opendir(".");
        int number = dirfd(folder);
        DO(fstat(number, &of));
        closedir(folder);
        int fd = receives(ends[0], i == 1);
        char text[16] = {0};
        DO(fd == number);
        DO(pread(fd, text, sizeof text - 1, 0));
        puts(text);
        close(fd);
    }
    close(done[1]);
    DO(wait(&status) > 0);
    DO(status);
    close(ends[0]);
    close(ends[1]);
}

static void streams(void) {
    char text[32] = {0};
    close(make("stream.log", "by a mapping"));
    FILE *file = fopen("stream.log", "rm");
    DO(fread(text, 1, sizeof text, file));
    puts(text);
    fclose(file);
    file = fopen("stream.log", "rmb,ccs=utf-8");
    DO(file != NULL && fgetwc(file) == L'b');
    fclose(file);
    file = freopen("stream.log", "rme", fopen("stream.log", "r"));
    memset(text, 0, sizeof text);
    DO(fread(text, 1, sizeof text, file));
    puts(text);
    fclose(file);
    DO(fopen("none.log", "rm") == NULL);
}

static long moved(struct timespec before, struct timespec after) {
    return after.tv_sec != before.tv_sec || after.tv_nsec != before.tv_nsec;
}

static struct timespec modified(const char *path) {
    struct stat of;
    stat(path, &of);
    return of.st_mtim;
}

static void times(void) {
    struct stat of;
    struct statx more;
    int fd = make("time.log", "0123456789");
    fstat(fd, &of);
    struct timespec made = of.st_mtim;
    DO(moved(made, modified("time.log")));
    usleep(30000);
    DO(write(fd, "x", 1));
    fstat(fd, &of);
    DO(moved(made, of.st_mtim));
    DO(moved(of.st_mtim, modified("time.log")));
    statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more);
    DO(more.stx_mtime.tv_sec != of.st_mtim.tv_sec || more.stx_mtime.tv_nsec != of.st_mtim.tv_nsec);
    DO(moved(of.st_ctim, of.st_mtim));
    usleep(30000);
    DO(fsync(fd));
    made = modified("time.log");
    usleep(30000);
    // As long as before.
    DO(pwrite(fd, "y", 1, 10));
    DO(moved(made, modified("time.log")));
    made = modified("time.log");
    usleep(30000);
    close(fd);
    DO(moved(made, modified("time.log")));
    fd = open("time.log", O_RDWR);
    DO(ftruncate(fd, 5));
    DO(moved(made, modified("time.log")));
    usleep(30000);
    struct timespec said[2] = {{1000, 0}, {2000, 5}};
    DO(futimens(fd, said));
    DO(modified("time.log").tv_sec);
    usleep(30000);
    DO(read(fd, page, 3));
    DO(modified("time.log").tv_sec);
    DO(fsync(fd));
    DO(modified("time.log").tv_sec);
    close(fd);
    DO(modified("time.log").tv_sec);
}

// Attributes are the program's own.
static void attributes(void) {
    char names[100] = {0};
    int fd = make("attribute.log", "text");
    DO(flistxattr(fd, names, sizeof names));
    DO(flistxattr(fd, NULL, 0));
    DO(listxattr("attribute.log", names, 1));
    DO(setxattr("attribute.log", "user.own", "value", 5, XATTR_CREATE));
    DO(fgetxattr(fd, "user.own", names, sizeof names));
    DO(lgetxattr("attribute.log", "user.flashloom.placed", names, sizeof names));
    DO(getxattr("attribute.log", "user.flashloom.placed", NULL, 0));
    DO(fremovexattr(fd, "user.flashloom.placed"));
    DO(listxattr("attribute.log", names, sizeof names));
    puts(names);
    DO(llistxattr("attribute.log", NULL, 0));
    DO(flistxattr(fd, names, 9));
    DO(flistxattr(fd, names, 8));
    DO(lremovexattr("attribute.log", "user.own"));
    DO(flistxattr(fd, names, sizeof names));
    DO(fgetxattr(fd, (char *)8, names, sizeof names));
    DO(flistxattr(12345, names, sizeof names));
    close(fd);
    show("attribute.log");
}

static void lengths(void) {
    struct timespec said[2] = {{1000, 0}, {2000, 0}};
    int fd = make("length.log", "0123456789");
    close(fd);
    utimensat(AT_FDCWD, "length.log", said, 0);
    DO(truncate("length.log", 4));
    DO(modified("length.log").tv_sec > 2000);
    struct timespec cut = modified("length.log");
    fd = open("length.log", O_RDWR);
    DO(moved(cut, modified("length.log")));
    close(fd);
    DO(moved(cut, modified("length.log")));
    show("length.log");
    DO(truncate("length.log", -1));
    fd = open("length.log", O_RDWR | O_APPEND);
    DO(write(fd, "", 0));
    DO(lseek(fd, 0, SEEK_CUR));
    DO(write(fd, "x", 1));
    DO(write(fd, "", 0));
    DO(lseek(fd, 0, SEEK_CUR));
    DO(posix_fadvise(fd, 0, 0, POSIX_FADV_NOREUSE));
    DO(posix_fadvise(fd, 0, 0, 77));
    DO(posix_fadvise(fd, 0, -1, POSIX_FADV_NORMAL));
    DO(syscall(SYS_fadvise64, fd, 0L, 0L, 77));
    DO(syscall(SYS_readahead, fd, 0L, 10L));
    DO(syscall(SYS_sync));
    close(fd);
}

// Calls for which the C library has no function.
static void by_number(void) {
    int status, folder = open(".", O_RDONLY | O_DIRECTORY);
    struct open_how how = {.flags = O_RDWR | O_TRUNC};
    close(make("number.log", "0123456789"));
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, "number.log", &how, sizeof how);
    DO(write(fd, "cut", 3));
    close(fd);
    show("number.log");
    how = (struct open_how){.flags = O_RDWR | O_CREAT, .mode = 0600, .resolve = RESOLVE_IN_ROOT};
    fd = (int)syscall(SYS_openat2, folder, "/root.log", &how, sizeof how);
    DO(write(fd, "by a root", 9));
    close(fd);
    show("root.log");
    how.flags = 1L << 40;
    DO(syscall(SYS_openat2, folder, "root.log", &how, sizeof how));
    DO(syscall(SYS_openat2, folder, "root.log", (void *)8, sizeof how));
    DO(syscall(SYS_openat2, folder, "root.log", &how, 8L));
    // Who begins so goes on where its parent was.
    fd = make("number.log", "0123456789");
    DO(lseek(fd, 4, SEEK_SET));
    fflush(stdout);
    if (fork() == 0) {
        // Of its own from here on.
        close(fd);
        fd = open("number.log", O_RDONLY);
        DO(lseek(fd, 2, SEEK_SET));
        dup2(fd, 0);
        char *words[] = {"cat", NULL};
        syscall(SYS_execveat, AT_FDCWD, "/bin/cat", words, environ, 0);
        _exit(1);
    }
    DO(wait(&status) > 0);
    DO(status);
    close(fd);
    close(folder);
}

int main(void) {
    flags();
    mappings();
    readers();
    sockets();
    streams();
    times();
    attributes();
    lengths();
    by_number();
    return 0;
}
