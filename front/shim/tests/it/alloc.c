// Calls on unplaced files that a signal handler may make inside the allocator: none allocates. The
// first calls resolve the library's functions and read the rules.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile int counts, made;

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

void *malloc(size_t n) { made += counts; return __libc_malloc(n); }
void *calloc(size_t n, size_t each) { made += counts; return __libc_calloc(n, each); }
void *realloc(void *at, size_t n) { made += counts; return __libc_realloc(at, n); }
void *memalign(size_t to, size_t n) { made += counts; return __libc_memalign(to, n); }
void *aligned_alloc(size_t to, size_t n) { return memalign(to, n); }
int posix_memalign(void **at, size_t to, size_t n) {
    *at = memalign(to, n);
    return *at ? 0 : ENOMEM;
}
void free(void *at) {
    made += at ? counts : 0;
    __libc_free(at);
}

static long all(int folder, const char *path) {
    struct stat of;
    struct statx more;
    char text[64];
    long sum = stat(path, &of) + lstat(path, &of) + fstatat(AT_FDCWD, path, &of, 0);
    sum += fstatat(folder, path, &of, 0) + statx(folder, path, 0, STATX_SIZE, &more);
    for (int i = 0; i < 2; i++) {
        int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
        sum += fd < 0;
        if (i == 0) sum += fstat(fd, &of) + statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &more);
        while (read(fd, text, sizeof text) > 0) {}
        sum += fstat(fd, &of) + close(fd);
    }
    return sum;
}

int main(void) {
    const char *paths[] = {"/proc/self/maps", "empty.txt", "sparse.txt", "full.txt"};
    for (int i = 1; i < 4; i++) {
        int fd = open(paths[i], O_CREAT | O_WRONLY, 0644);
        if (i == 2 && ftruncate(fd, 100000) != 0) return 1;
        if (i == 3 && write(fd, "text", 4) != 4) return 1;
        close(fd);
    }
    // Again, with a placed file in the descriptor table.
    int placed = open("placed.log", O_CREAT | O_WRONLY, 0644);
    if (write(placed, "text", 4) != 4) return 1;
    int folder = open(".", O_RDONLY | O_DIRECTORY);
    long sum = all(folder, "full.txt");
    counts = 1;
    for (int i = 0; i < 4; i++) sum += all(folder, paths[i]);
    counts = 0;
    printf("answers %ld, allocations %d\n", sum, made);
    return 0;
}
