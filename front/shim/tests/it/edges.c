// Prints the results of rare file calls, one line each. The output must be the same without the
// library and with the files in zones.
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

static void print_contents(const char *path) {
    char text[64] = {0};
    int fd = open(path, O_RDONLY);
    long got = read(fd, text, sizeof text - 1);
    printf("%s: %ld bytes, %s\n", path, got, text);
    close(fd);
}

static int create_with(const char *path, const char *text) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (write(fd, text, strlen(text)) < 0) perror(path);
    return fd;
}

static void flags_of_vectored_calls_and_splice(void) {
    int fd = create_with("flags.log", "0123456789");
    struct iovec part = {"AB", 2};
    DO(pwritev2(fd, &part, 1, 0, RWF_APPEND));
    DO(lseek(fd, 0, SEEK_CUR));
    print_contents("flags.log");
    lseek(fd, 3, SEEK_SET);
    DO(pwritev2(fd, &part, 1, -1, RWF_APPEND));
    DO(lseek(fd, 0, SEEK_CUR));
    DO(pwritev2(fd, &part, 1, -5, RWF_APPEND));
    DO(pwritev2(fd, &part, 1, 14, 0x40000000));
    char text[4];
    struct iovec into = {text, sizeof text};
    DO(preadv2(fd, &into, 1, 2, RWF_HIPRI));
    DO(preadv2(fd, &into, 1, 2, 0x40000000));
    int other = create_with("flags2.log", "");
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
    print_contents("flags.log");
}

// LMDB's pattern: a shared mapping for reads, pwrite for writes.
static void shared_mappings_show_later_writes(void) {
    int fd = create_with("map.log", "");
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
    // The mapping belongs to a read-only descriptor while another descriptor writes.
    fd = create_with("map2.log", "before");
    int reader = open("map2.log", O_RDONLY);
    map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, reader, 0);
    DO(pwrite(fd, "B", 1, 0));
    DO(map[0]);
    munmap(map, PAGE);
    DO(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, reader, 0) == MAP_FAILED);
    close(reader);
    close(fd);
}

// A descriptor opened before the first write reads the data written through another one.
static void early_descriptors_read_later_writes(void) {
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
    // The file was opened while empty and renamed; a duplicate of the descriptor reads as well.
    close(create_with("empty.txt", ""));
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
    // An unplaced file gets a name that a rule matches, and is then truncated and written again.
    close(create_with("plain.txt", "plain"));
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

static void send_descriptor(int socket, int fd) {
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

static int receive_descriptor(int socket, int many) {
    char room[CMSG_SPACE(sizeof(int))], byte;
    struct iovec part = {&byte, 1};
    struct mmsghdr all = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
                                      .msg_controllen = sizeof room}};
    int fd = -1;
    long got = many ? recvmmsg(socket, &all, 1, 0, NULL) : recvmsg(socket, &all.msg_hdr, 0);
    if (got == 1) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&all.msg_hdr)), sizeof fd);
    return fd;
}

// A descriptor received over a socket refers to its own file, although a closed directory had the
// same number.
static void received_descriptor_reuses_a_closed_number(void) {
    int ends[2], done[2], status;
    DO(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    DO(pipe(done));
    if (fork() == 0) {
        char byte;
        int fd = create_with("sent.log", "by a socket");
        fsync(fd);
        for (int i = 0; i < 2; i++) send_descriptor(ends[1], fd);
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
        int fd = receive_descriptor(ends[0], i == 1);
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

static void stdio_streams_in_mmap_mode(void) {
    char text[32] = {0};
    close(create_with("stream.log", "by a mapping"));
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

static long differ(struct timespec before, struct timespec after) {
    return after.tv_sec != before.tv_sec || after.tv_nsec != before.tv_nsec;
}

static struct timespec modification_time(const char *path) {
    struct stat of;
    stat(path, &of);
    return of.st_mtim;
}

static void modification_times_follow_writes(void) {
    struct stat of;
    struct statx more;
    int fd = create_with("time.log", "0123456789");
    fstat(fd, &of);
    struct timespec made = of.st_mtim;
    DO(differ(made, modification_time("time.log")));
    usleep(30000);
    DO(write(fd, "x", 1));
    fstat(fd, &of);
    DO(differ(made, of.st_mtim));
    DO(differ(of.st_mtim, modification_time("time.log")));
    statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more);
    DO(more.stx_mtime.tv_sec != of.st_mtim.tv_sec || more.stx_mtime.tv_nsec != of.st_mtim.tv_nsec);
    DO(differ(of.st_ctim, of.st_mtim));
    usleep(30000);
    DO(fsync(fd));
    made = modification_time("time.log");
    usleep(30000);
    // A write that keeps the length.
    DO(pwrite(fd, "y", 1, 10));
    DO(differ(made, modification_time("time.log")));
    made = modification_time("time.log");
    usleep(30000);
    close(fd);
    DO(differ(made, modification_time("time.log")));
    fd = open("time.log", O_RDWR);
    DO(ftruncate(fd, 5));
    DO(differ(made, modification_time("time.log")));
    usleep(30000);
    struct timespec said[2] = {{1000, 0}, {2000, 5}};
    DO(futimens(fd, said));
    DO(modification_time("time.log").tv_sec);
    usleep(30000);
    DO(read(fd, page, 3));
    DO(modification_time("time.log").tv_sec);
    DO(fsync(fd));
    DO(modification_time("time.log").tv_sec);
    close(fd);
    DO(modification_time("time.log").tv_sec);
}

// The library hides its own attribute (user.flashloom.placed) from all attribute calls.
static void attribute_calls_hide_the_placement_mark(void) {
    char names[100] = {0};
    int fd = create_with("attribute.log", "text");
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
    print_contents("attribute.log");
}

static void truncation_empty_writes_and_advice(void) {
    struct timespec said[2] = {{1000, 0}, {2000, 0}};
    int fd = create_with("length.log", "0123456789");
    close(fd);
    utimensat(AT_FDCWD, "length.log", said, 0);
    DO(truncate("length.log", 4));
    DO(modification_time("length.log").tv_sec > 2000);
    struct timespec cut = modification_time("length.log");
    fd = open("length.log", O_RDWR);
    DO(differ(cut, modification_time("length.log")));
    close(fd);
    DO(differ(cut, modification_time("length.log")));
    print_contents("length.log");
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

// System calls for which the C library has no function.
static void calls_by_number(void) {
    int status, folder = open(".", O_RDONLY | O_DIRECTORY);
    struct open_how how = {.flags = O_RDWR | O_TRUNC};
    close(create_with("number.log", "0123456789"));
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, "number.log", &how, sizeof how);
    DO(write(fd, "cut", 3));
    close(fd);
    print_contents("number.log");
    how = (struct open_how){.flags = O_RDWR | O_CREAT, .mode = 0600, .resolve = RESOLVE_IN_ROOT};
    fd = (int)syscall(SYS_openat2, folder, "/root.log", &how, sizeof how);
    DO(write(fd, "by a root", 9));
    close(fd);
    print_contents("root.log");
    how.flags = 1L << 40;
    DO(syscall(SYS_openat2, folder, "root.log", &how, sizeof how));
    DO(syscall(SYS_openat2, folder, "root.log", (void *)8, sizeof how));
    DO(syscall(SYS_openat2, folder, "root.log", &how, 8L));
    // A program started by execveat inherits the file offset.
    fd = create_with("number.log", "0123456789");
    DO(lseek(fd, 4, SEEK_SET));
    fflush(stdout);
    if (fork() == 0) {
        // From here on, the child has an open file of its own.
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
    flags_of_vectored_calls_and_splice();
    shared_mappings_show_later_writes();
    early_descriptors_read_later_writes();
    received_descriptor_reuses_a_closed_number();
    stdio_streams_in_mmap_mode();
    modification_times_follow_writes();
    attribute_calls_hide_the_placement_mark();
    truncation_empty_writes_and_advice();
    calls_by_number();
    return 0;
}
