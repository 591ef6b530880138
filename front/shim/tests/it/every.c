/* Calls every kind of function that the library stands in front of, once each
   and in an order that the test knows. Built with fortification, so that the
   checked variants are among them. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CHECK(it) do { if (!(it)) { perror(#it); exit(1); } } while (0)

static char data[8192];

/* A size that the compiler does not know, so that a check stays in. */
static volatile size_t some = 100;

static void transfers(void)
{
    int fd = open("a", O_RDWR | O_CREAT | O_EXCL, 0640);
    CHECK(fd >= 0);
    CHECK(write(fd, data, 1000) == 1000);
    struct iovec two[2] = {{data, 10}, {data, 20}};
    CHECK(writev(fd, two, 2) == 30);
    CHECK(pwrite(fd, data, 50, 5000) == 50);
    CHECK(pwritev(fd, two, 2, 6000) == 30);
    CHECK(pwritev2(fd, two, 2, -1, 0) == 30);
    CHECK(lseek(fd, 100, SEEK_SET) == 100);
    CHECK(read(fd, data, some) == 100);
    CHECK(readv(fd, two, 2) == 30);
    CHECK(pread(fd, data, some, 300) == 100);
    CHECK(preadv(fd, two, 2, 400) == 30);
    CHECK(lseek(fd, 0, SEEK_DATA) == 0);
    CHECK(fsync(fd) == 0);
    CHECK(fdatasync(fd) == 0);
    CHECK(sync_file_range(fd, 0, 4096, SYNC_FILE_RANGE_WRITE) == 0);
    CHECK(syncfs(fd) == 0);
    CHECK(ftruncate(fd, 7000) == 0);
    CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 8192) == 0);
    CHECK(posix_fallocate(fd, 0, 4096) == 0);
    CHECK(syscall(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0);
    CHECK(posix_fadvise(fd, 0, 4096, POSIX_FADV_RANDOM) == 0);
    CHECK(readahead(fd, 0, 4096) == 0);
    CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
    CHECK(fcntl(fd, F_SETLK, &lock) == 0);
    uint64_t life = RWH_WRITE_LIFE_SHORT;
    CHECK(fcntl(fd, F_SET_RW_HINT, &life) == 0);
    /* Half of what the kernel reads, as RocksDB does it: what lies behind is not
       meant, and the kernel may refuse it. */
    uint32_t half[3] = {0, RWH_WRITE_LIFE_LONG, 7};
    fcntl(fd, F_SET_RW_HINT, &half[1]);
    int other = open("b", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    CHECK(other >= 0);
    CHECK(write(other, data, 7) == 7);
    CHECK(close(other) == 0);
    other = creat("c", 0600);
    off_t from = 0;
    CHECK(copy_file_range(fd, &from, other, NULL, 512, 0) == 512);
    from = 0;
    CHECK(sendfile(other, fd, &from, 512) == 512);
    CHECK(close(other) == 0);
    CHECK(close(fd) == 0);
}

static void names(void)
{
    struct stat st;
    struct statvfs vfs;
    char said[64];
    CHECK(mkdir("d", 0755) == 0);
    int d = open("d", O_RDONLY | O_DIRECTORY);
    CHECK(mkdirat(d, "e", 0700) == 0);
    CHECK(symlink("../a", "d/s") == 0);
    CHECK(readlink("d/s", said, some > 64 ? 64 : some) == 4);
    CHECK(link("a", "d/l") == 0);
    CHECK(mkfifo("d/p", 0600) == 0);
    CHECK(rename("b", "d/b") == 0);
    CHECK(renameat2(d, "b", d, "b2", RENAME_NOREPLACE) == 0);
    CHECK(stat("d/b2", &st) == 0 && st.st_size == 7);
    CHECK(lstat("d/s", &st) == 0);
    CHECK(fstatat(d, "e", &st, 0) == 0);
    CHECK(fstat(d, &st) == 0);
    CHECK(stat("none", &st) == -1 && errno == ENOENT);
    CHECK(access("d/b2", R_OK) == 0);
    CHECK(statvfs("d", &vfs) == 0);
    CHECK(chmod("d/b2", 0644) == 0);
    CHECK(chown("d/b2", -1, -1) == 0);
    CHECK(utimes("d/b2", NULL) == 0);
    CHECK(truncate("d/b2", 3) == 0);
    CHECK(unlink("d/p") == 0);
    CHECK(unlinkat(d, "e", AT_REMOVEDIR) == 0);
    CHECK(remove("d/l") == 0);
    CHECK(close(d) == 0);
    DIR *dir = opendir("d");
    int entries = 0;
    while (readdir(dir))
        entries++;
    CHECK(entries == 4);
    CHECK(closedir(dir) == 0);
    CHECK(chdir("d") == 0);
    CHECK(unlink("s") == 0);
    CHECK(chdir("..") == 0);
}

static void streams(void)
{
    FILE *out = fopen("f", "w");
    CHECK(out);
    for (int i = 0; i < 1000; i++)
        CHECK(fprintf(out, "0123456789") == 10);
    CHECK(fclose(out) == 0);
    FILE *in = fopen("f", "r");
    int letters = 0;
    while (getc(in) != EOF)
        letters++;
    CHECK(letters == 10000);
    CHECK(fclose(in) == 0);
    char name[] = "tmp-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0 && unlink(name) == 0);
    CHECK(write(fd, data, 5) == 5);
    CHECK(close(fd) == 0);
}

static void mappings(void)
{
    int fd = open("m", O_RDWR | O_CREAT, 0600);
    CHECK(ftruncate(fd, 16384) == 0);
    char *at = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    CHECK(close(fd) == 0);
    at[4096] = 1;
    CHECK(msync(at, 16384, MS_SYNC) == 0);
    CHECK(munmap(at, 16384) == 0);
}

static void descriptors(void)
{
    int fd = open("g", O_WRONLY | O_CREAT, 0600);
    CHECK(write(fd, data, 10) == 10);
    int copy = dup(fd);
    CHECK(dup2(copy, 50) == 50);
    CHECK(close(fd) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(write(50, data, 20) == 20);
        closefrom(3);
        execl("/bin/sh", "sh", "-c", "echo x > h", NULL);
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(write(copy, data, 30) == 30);
    CHECK(close(copy) == 0);
    CHECK(close_range(50, 50, 0) == 0);
    CHECK(unlink("h") == 0);
}

int main(void)
{
    transfers();
    names();
    streams();
    mappings();
    descriptors();
    return 0;
}
