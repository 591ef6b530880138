// Prints the result of every call that the placing library intercepts, one line each. The output
// must be the same without the library, with it and no rule, and with the files in zones.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "said.h"

static char big[200000];

// Prints a file's lengths and a checksum of its contents, read through a new descriptor.
static void print_checksum(const char *path) {
    int fd = open(path, O_RDONLY);
    uint64_t sum = 7;
    long total = 0;
    char part[3001];
    ssize_t got;
    while ((got = read(fd, part, sizeof part)) > 0) {
        for (ssize_t i = 0; i < got; i++) sum = sum * 31 + (unsigned char)part[i];
        total += got;
    }
    struct stat stat_of, stat_at;
    fstat(fd, &stat_of);
    stat(path, &stat_at);
    printf("%s: %ld bytes, %ld, %ld, sum %016lx\n", path, total, (long)stat_of.st_size,
           (long)stat_at.st_size, (unsigned long)sum);
    close(fd);
}

static void offsets_are_shared_by_duplicates(void) {
    int fd = open("a.log", O_RDWR | O_CREAT | O_TRUNC, 0644);
    DO(write(fd, "hello", 5));
    DO(lseek(fd, 0, SEEK_CUR));
    int copy = dup(fd);
    DO(write(copy, " world", 6));
    DO(lseek(fd, 0, SEEK_CUR));
    DO(lseek(fd, -3, SEEK_END));
    char text[16] = {0};
    DO(read(copy, text, sizeof text));
    puts(text);
    DO(lseek(fd, -1, SEEK_SET));
    DO(lseek(fd, 4, SEEK_DATA));
    DO(lseek(fd, 4, SEEK_HOLE));
    DO(lseek(fd, 400, SEEK_DATA));
    DO(lseek(fd, 0, 77));
    int other = fcntl(fd, F_DUPFD, 20);
    DO(other >= 20);
    DO(lseek(other, 2, SEEK_SET));
    DO(lseek(fd, 0, SEEK_CUR));
    DO(close(copy));
    DO(close(copy));
    DO(dup2(other, 40));
    DO(close(other));
    DO(pwrite(40, "!", 1, 11));
    DO(pread(fd, text, 3, 10));
    DO(pread(fd, text, 3, -1));
    DO(pwrite(fd, text, 3, -1));
    DO(dup3(fd, 40, O_CLOEXEC) == 40);
    DO(dup2(fd, fd) == fd);
    // A failed duplication leaves its target open.
    DO(dup2(12345, 40));
    DO(dup3(fd, 40, 0x5555));
    DO(dup3(fd, fd, 0));
    DO(write(40, "still", 5));
    DO(lseek(40, 0, SEEK_CUR));
    close(40);
    close(fd);
    print_checksum("a.log");
}

static void vectored_reads_and_writes(void) {
    int fd = open("v.log", O_RDWR | O_CREAT | O_TRUNC, 0644);
    struct iovec parts[3] = {{big, 5000}, {big + 100, 0}, {big + 7, 4095}};
    DO(writev(fd, parts, 3));
    DO(writev(fd, parts, -1));
    DO(pwritev(fd, parts, 1, 9095));
    DO(pwritev2(fd, parts, 1, 14095, RWF_DSYNC));
    char one[3000], two[20000];
    struct iovec into[2] = {{one, sizeof one}, {two, sizeof two}};
    lseek(fd, 0, SEEK_SET);
    DO(readv(fd, into, 2));
    DO(preadv(fd, into, 2, 18000));
    DO(preadv2(fd, into, 2, -1, 0));
    DO(memcmp(two + 1000, big + 4000, 1000));
    close(fd);
    print_checksum("v.log");
}

static void appends_and_sync_calls(void) {
    int fd = open("p.log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    for (int i = 0; i < 40; i++) write(fd, big + i, 1000 + i);
    DO(lseek(fd, 0, SEEK_SET));
    DO(write(fd, "end", 3));
    DO(lseek(fd, 0, SEEK_CUR));
    DO(read(fd, big + 150000, 1));
    DO(fsync(fd));
    DO(fdatasync(fd));
    DO(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
    DO(fcntl(fd, F_SETFL, 0));
    DO(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    close(fd);
    fd = open("p.log", O_RDONLY);
    DO(write(fd, "x", 1));
    DO(readahead(fd, 0, 100));
    DO(ftruncate(fd, 0));
    close(fd);
    fd = open("p.log", O_WRONLY | O_APPEND);
    DO(write(fd, big, 100));
    close(fd);
    print_checksum("p.log");
}

static void lengths_after_truncation(void) {
    struct stat of;
    struct statx more;
    int fd = open("l.log", O_RDWR | O_CREAT, 0600);
    DO(write(fd, big, 100000));
    DO(fstat(fd, &of));
    DO(of.st_size);
    DO(stat("l.log", &of));
    DO(of.st_size);
    DO(lstat("l.log", &of));
    DO(of.st_size);
    DO(fstatat(AT_FDCWD, "l.log", &of, 0));
    DO(of.st_size);
    DO(statx(AT_FDCWD, "l.log", 0, STATX_SIZE, &more));
    DO(more.stx_size);
    DO(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &more));
    DO(more.stx_size);
    DO(ftruncate(fd, 70001));
    DO(ftruncate(fd, -1));
    DO(lseek(fd, 0, SEEK_END));
    DO(write(fd, "after", 5));
    DO(truncate("l.log", 65000));
    DO(fstat(fd, &of));
    DO(of.st_size);
    DO(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1 << 20));
    DO(posix_fallocate(fd, 0, 100));
    DO(fallocate(fd, 0, -1, 5));
    close(fd);
    print_checksum("l.log");
    fd = open("l.log", O_RDWR | O_TRUNC);
    DO(write(fd, "short", 5));
    close(fd);
    print_checksum("l.log");
}

// After a truncation while another file is written, appends continue at the new end.
static void truncated_file_continues_beside_another(void) {
    struct stat of;
    int fd = open("x.log", O_RDWR | O_CREAT | O_APPEND, 0600);
    DO(write(fd, big, 100));
    DO(ftruncate(fd, 0));
    int other = open("y.log", O_RDWR | O_CREAT, 0600);
    DO(write(other, big, 300));
    DO(fstat(fd, &of));
    DO(of.st_size);
    DO(write(fd, "after", 5));
    DO(fsync(fd));
    DO(write(fd, "more", 4));
    DO(fstat(fd, &of));
    DO(of.st_size);
    close(fd);
    close(other);
    print_checksum("x.log");
    print_checksum("y.log");
}

// The last block is overwritten after an fsync, and synced again.
static void last_block_is_overwritten_after_fsync(void) {
    int fd = open("w.log", O_RDWR | O_CREAT, 0600);
    char text[8] = {0};
    write(fd, big, 5000);
    DO(fsync(fd));
    for (int i = 0; i < 3; i++) {
        DO(pread(fd, text, 4, 4990));
        DO(memcmp(text, big + 4990, 4));
        DO(pwrite(fd, "over", 4, 4990 - 10 * i));
        DO(pread(fd, text, 7, 4989 - 10 * i));
        puts(text + 1);
        if (i == 1) DO(fsync(fd));
        DO(pread(fd, text, 7, 4989 - 10 * i));
        puts(text + 1);
        DO(pwrite(fd, big + 4990, 4, 4990));
    }
    DO(fdatasync(fd));
    close(fd);
    print_checksum("w.log");
}

// Overwrites, holes and extensions move a file to the ordinary file system.
static void writes_that_zones_cannot_hold(void) {
    int fd = open("r.log", O_RDWR | O_CREAT, 0600), again;
    write(fd, big, 60000);
    fsync(fd);
    DO(lseek(fd, 10, SEEK_SET));
    DO(pwrite(fd, "past", 4, 5000));
    DO(write(fd, "here", 4));
    again = open("r.log", O_RDWR);
    DO(pwrite(again, "x", 1, 100));
    close(again);
    close(fd);
    print_checksum("r.log");
    fd = open("h.log", O_RDWR | O_CREAT, 0600);
    DO(write(fd, "a", 1));
    DO(pwrite(fd, "b", 1, 9000));
    DO(lseek(fd, 0, SEEK_CUR));
    close(fd);
    print_checksum("h.log");
    fd = open("f.log", O_RDWR | O_CREAT, 0600);
    DO(write(fd, big, 5000));
    DO(ftruncate(fd, 20000));
    close(fd);
    print_checksum("f.log");
    DO(truncate("v.log", 123456));
    print_checksum("v.log");
}

static void mappings_read_and_write(void) {
    int fd = open("m.log", O_RDWR | O_CREAT, 0600);
    write(fd, big, 150000);
    char *map = mmap(NULL, 150000, PROT_READ, MAP_SHARED, fd, 0);
    DO(memcmp(map, big, 150000));
    DO(map[150001]);
    char *middle = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 4096 * 5);
    DO(memcmp(middle, big + 4096 * 5, 8192));
    middle[0] = 'x';
    DO(munmap(map, 150000));
    DO(munmap(middle, 8192));
    DO(mmap(NULL, 10, PROT_READ, MAP_SHARED, fd, 5) == MAP_FAILED);
    map = mmap(NULL, 150000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    map[77777] = '!';
    DO(msync(map, 150000, MS_SYNC));
    DO(munmap(map, 150000));
    close(fd);
    print_checksum("m.log");
}

static void renames_links_and_removals(void) {
    struct stat of;
    int fd = open("n.log", O_RDWR | O_CREAT | O_EXCL, 0600), folder = open(".", O_DIRECTORY);
    write(fd, big, 9000);
    DO(open("n.log", O_RDWR | O_CREAT | O_EXCL, 0600));
    DO(rename("n.log", "o.log"));
    DO(stat("n.log", &of));
    DO(access("o.log", R_OK));
    DO(link("o.log", "second.log"));
    DO(unlink("o.log"));
    print_checksum("second.log");
    DO(renameat(folder, "second.log", folder, "stray.txt"));
    print_checksum("stray.txt");
    int over = openat(folder, "t.log", O_WRONLY | O_CREAT, 0600);
    write(over, big + 5, 5000);
    DO(rename("t.log", "stray.txt"));
    print_checksum("stray.txt");
    DO(pread(fd, big + 190000, 100, 8000));
    DO(write(over, "more", 4));
    DO(unlinkat(folder, "stray.txt", 0));
    DO(write(over, "unlinked", 8));
    DO(fstat(over, &of));
    DO(of.st_size);
    DO(of.st_nlink);
    DO(fsync(folder));
    close(fd);
    close(over);
    close(folder);
    DO(remove("none.log"));
    DO(truncate("none.log", 5));
    DO(open("none/x.log", O_RDWR | O_CREAT, 0600));
    DIR *list = opendir(".");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(list));) count += entry->d_type == DT_REG;
    closedir(list);
    DO(count);
}

// Calls through a symbolic link act on the placed file as calls by its own name do.
static void symbolic_links_resolve_to_placed_files(void) {
    struct stat of;
    struct statx more;
    int fd = open("k.log", O_RDWR | O_CREAT, 0600);
    DO(symlink("k.log", "link.txt"));
    DO(write(fd, big, 50000));
    DO(stat("link.txt", &of));
    DO(of.st_size);
    DO(lstat("link.txt", &of));
    DO(of.st_size);
    DO(statx(AT_FDCWD, "link.txt", 0, STATX_SIZE, &more));
    DO(more.stx_size);
    DO(truncate("link.txt", 30000));
    DO(fstat(fd, &of));
    DO(of.st_size);
    close(fd);
    DO(stat("link.txt", &of));
    DO(of.st_size);
    print_checksum("k.log");
    DO(truncate("link.txt", 31000));
    print_checksum("k.log");
    DO(truncate("link.txt", -1));
    DO(unlink("link.txt"));
    print_checksum("k.log");
}

static void copies_between_files(void) {
    int from = open("a.log", O_RDONLY), to = open("c.log", O_RDWR | O_CREAT, 0600);
    off_t at = 2;
    DO(copy_file_range(from, &at, to, NULL, 4, 0));
    DO(at);
    DO(sendfile(to, from, NULL, 3));
    DO(lseek(from, 0, SEEK_CUR));
    close(from);
    close(to);
    print_checksum("c.log");
    // Clones are refused, or are copies.
    from = open("c.log", O_RDONLY);
    to = open("clone.txt", O_RDWR | O_CREAT, 0600);
    long cloned = ioctl(to, FICLONE, from);
    struct file_clone_range range = {.src_fd = from};
    if (cloned != 0) cloned = ioctl(to, FICLONERANGE, &range);
    char text[5] = {0};
    DO(cloned == 0 ? pread(to, text, 4, 0) == 4 && memcmp(text, "llo", 3) == 0
                   : errno == EOPNOTSUPP || errno == EXDEV || errno == EINVAL);
    errno = 0;
    close(from);
    close(to);
}

static void stdio_streams(void) {
    FILE *file = fopen("s.log", "w");
    fprintf(file, "by a stream\n");
    fclose(file);
    file = fopen("p.log", "r+");
    DO(fgetc(file) == big[0]);
    fseek(file, 10, SEEK_SET);
    fputc('?', file);
    fclose(file);
    int fd = open("q.log", O_RDWR | O_CREAT, 0600);
    DO(write(fd, "line\n", 5));
    file = fdopen(fd, "r+");
    fseek(file, 0, SEEK_END);
    fputs("other\n", file);
    fclose(file);
    print_checksum("s.log");
    print_checksum("p.log");
    print_checksum("q.log");
}

// Direct I/O, system calls by number, locks, inheritance by programs, and invalid arguments.
static void direct_io_raw_calls_and_bad_arguments(void) {
    static char page[8192] __attribute__((aligned(4096)));
    struct stat of;
    memset(page, 'p', sizeof page);
    int fd = open("d.log", O_RDWR | O_CREAT | O_DIRECT, 0640);
    DO(fd >= 0);
    DO(write(fd, page, 8192));
    DO(pread(fd, page, 4096, 4096));
    DO(fcntl(fd, F_GETFL) & O_DIRECT ? 1 : 0);
    close(fd);
    fd = open("e.log", O_RDWR | O_CREAT, 0640);
    DO(syscall(SYS_write, fd, "by number", 9));
    DO(syscall(SYS_pwrite64, fd, "!", 1, 9L));
    DO(syscall(SYS_fsync, fd));
    DO(syscall(SYS_lseek, fd, 3L, SEEK_SET));
    DO(lseek(fd, 0, SEEK_CUR));
    struct iovec part = {"vector", 6};
    DO(syscall(SYS_pwritev, fd, &part, 1L, 10L, 0L));
    DO(syscall(SYS_pwritev2, fd, &part, 1L, 16L, 0L, 0L));
    int twin = (int)syscall(SYS_dup, fd);
    DO(syscall(SYS_dup3, twin, 60L, 0L));
    DO(write(60, "BY", 2));
    DO(syscall(SYS_fcntl, twin, (long)F_DUPFD, 61L) >= 61);
    struct statx more;
    DO(syscall(SYS_statx, twin, "", (long)AT_EMPTY_PATH, (long)STATX_SIZE, &more));
    DO(more.stx_size);
    char *map = (char *)syscall(SYS_mmap, 0L, 22L, (long)PROT_READ, (long)MAP_SHARED, fd, 0L);
    DO(map != MAP_FAILED && memcmp(map + 10, "vectorvector", 12) == 0);
    DO(syscall(SYS_munmap, map, 22L));
    DO(syscall(SYS_close_range, 60L, 70L, 0L));
    DO(syscall(SYS_close, twin));
    int made = (int)syscall(SYS_openat, AT_FDCWD, "number.log", O_RDWR | O_CREAT, 0600);
    off_t from = 10;
    DO(syscall(SYS_copy_file_range, fd, &from, made, NULL, 12L, 0L));
    from = 10;
    DO(syscall(SYS_sendfile, made, fd, &from, 6L));
    close(made);
    DO(syscall(SYS_renameat2, AT_FDCWD, "number.log", AT_FDCWD, "renamed.log", 0L));
    print_checksum("renamed.log");
    DO(syscall(SYS_unlinkat, AT_FDCWD, "renamed.log", 0L));
    DO(fchmod(fd, 0600));
    DO(fstat(fd, &of));
    DO(of.st_mode);
    DO(flock(fd, LOCK_EX | LOCK_NB));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 5};
    DO(fcntl(fd, F_SETLK, &lock));
    struct timespec times[2] = {{1000, 0}, {2000, 0}};
    DO(futimens(fd, times));
    DO(fstat(fd, &of));
    DO(of.st_mtime);
    // A program executed by a child reads the placed file as its standard input.
    fflush(stdout);
    lseek(fd, 0, SEEK_SET);
    if (fork() == 0) {
        dup2(fd, 0);
        execlp("cat", "cat", (char *)NULL);
        _exit(1);
    }
    int status;
    DO(wait(&status) > 0);
    puts("");
    DO(status);
    fflush(stdout);
    // A child writes at the offset of its parent.
    lseek(fd, 0, SEEK_END);
    if (fork() == 0) _exit(write(fd, "from the child", 14) == 14 ? 0 : 1);
    DO(wait(&status) > 0);
    DO(status);
    close(fd);
    print_checksum("e.log");
    DO(open(".", O_RDWR | O_CREAT, 0600));
    // Invalid pointers and descriptors get the error of the kernel.
    for (int i = 0; i < 2; i++) {
        char *nowhere = i ? (char *)0xdeadc0de : NULL;
        DO(open(nowhere, O_RDWR));
        DO(rename(nowhere, "e.log"));
        DO(rename("e.log", nowhere));
        DO(link("e.log", nowhere));
        DO(unlink(nowhere));
        DO(truncate(nowhere, 5));
        DO(stat(nowhere, &of));
    }
    DO(close(-1));
    DO(close(12345));
    DO(read(12345, page, 1));
    DO(write(-1, page, 1));
    DO(fsync(12345));
    DO(ftruncate(12345, 0));
    DO(dup(12345));
    DO(fcntl(12345, F_GETFL));
}

// Processes that inherit a descriptor share its offset.
static void children_share_the_offset(void) {
    int status, fd = open("z.log", O_RDWR | O_CREAT, 0600);
    char text[8] = {0};
    DO(write(fd, "parent ", 7));
    fflush(stdout);
    if (fork() == 0) _exit(write(fd, "child ", 6) == 6 ? 0 : 1);
    DO(wait(&status) > 0);
    DO(lseek(fd, 0, SEEK_CUR));
    DO(write(fd, "again ", 6));
    dup2(fd, 9);
    DO(system("echo shell >&9"));
    DO(write(fd, "parent ", 7));
    if (fork() == 0) {
        dup2(fd, 1);
        execlp("echo", "echo", "one", "two", "three", "four", "five", "six", (char *)NULL);
        _exit(1);
    }
    DO(wait(&status) > 0);
    DO(write(fd, "end", 3));
    close(9);
    print_checksum("z.log");
    DO(lseek(fd, 0, SEEK_SET));
    if (fork() == 0) _exit(read(fd, text, 4) == 4 ? 0 : 1);
    DO(wait(&status) > 0);
    DO(read(fd, text, 7));
    puts(text);
    DO(lseek(fd, -2, SEEK_END));
    if (fork() == 0) _exit(read(fd, text, 7) == 2 ? 0 : 1);
    DO(wait(&status) > 0);
    DO(status);
    DO(lseek(fd, 0, SEEK_CUR));
    DO(lseek(fd, -100, SEEK_CUR));
    close(fd);
    // The file is new since the last fork when the process starts programs.
    fd = open("zz.log", O_RDWR | O_CREAT, 0600);
    write(fd, "first ", 6);
    dup2(fd, 9);
    pclose(popen("cat >&9; echo >&9", "w"));
    DO(system("echo third >&9"));
    write(fd, "fourth", 6);
    close(9);
    close(fd);
    print_checksum("zz.log");
}

int main(void) {
    for (size_t i = 0; i < sizeof big; i++) big[i] = (char)(i * 7 + i / 251);
    offsets_are_shared_by_duplicates();
    vectored_reads_and_writes();
    appends_and_sync_calls();
    lengths_after_truncation();
    truncated_file_continues_beside_another();
    last_block_is_overwritten_after_fsync();
    writes_that_zones_cannot_hold();
    mappings_read_and_write();
    renames_links_and_removals();
    symbolic_links_resolve_to_placed_files();
    copies_between_files();
    stdio_streams();
    direct_io_raw_calls_and_bad_arguments();
    children_share_the_offset();
    return 0;
}
