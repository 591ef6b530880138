// An allocator that opens, reads and maps files while it holds a non-recursive lock, as jemalloc,
// tcmalloc and mimalloc do, from its first call on, which comes before any constructor. Meanwhile
// threads place files, load libraries and start, and the process forks.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int within __attribute__((tls_model("initial-exec")));
static _Atomic long looks;
static char text[256];

static void fails(const char *why) {
    if (write(2, why, strlen(why)) < 0) _exit(4);
    _exit(3);
}

// File calls that allocators make.
static void look(void) {
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text) <= 0 || close(fd) != 0) fails("open\n");
    fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || syscall(SYS_read, fd, text, sizeof text) <= 0) fails("syscall\n");
    if (lseek(fd, 0, SEEK_SET) != 0 || pread(fd, text, 9, 0) <= 0) fails("pread\n");
    if (fcntl(fd, F_GETFD) < 0 || syscall(SYS_close, fd) != 0) fails("close\n");
    if (openat(AT_FDCWD, "/sys/devices/system/node/node4095", O_RDONLY) >= 0) fails("node\n");
    if (readlink("/etc/malloc.conf", text, sizeof text) >= 0) fails("readlink\n");
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) > 0) fails("access\n");
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || madvise(page, 8192, MADV_DONTNEED) || munmap(page, 8192)) fails("map\n");
    looks++;
}

static void take(void) {
    if (within) fails("asked for memory within the allocator\n");
    if (pthread_mutex_lock(&lock) != 0) fails("lock\n");
    within = 1;
}

static void give(void) {
    within = 0;
    pthread_mutex_unlock(&lock);
}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
#define ALLOCATES(how) take(); look(); void *got = how; give(); return got
void *malloc(size_t n) { ALLOCATES(__libc_malloc(n)); }
void *calloc(size_t n, size_t each) { ALLOCATES(__libc_calloc(n, each)); }
void *realloc(void *at, size_t n) { ALLOCATES(__libc_realloc(at, n)); }
void *memalign(size_t to, size_t n) { ALLOCATES(__libc_memalign(to, n)); }
void *aligned_alloc(size_t to, size_t n) { return memalign(to, n); }
int posix_memalign(void **at, size_t to, size_t n) { return (*at = memalign(to, n)) ? 0 : 12; }
void free(void *at) {
    if (at == NULL) return;
    take();
    __libc_free(at);
    give();
}

// Runs before any constructor and before the C library is initialized.
static void first(void) { free(malloc(1)); }
__attribute__((section(".preinit_array"), used)) static void (*const begin)(void) = first;

#define ROUNDS 25

static void *allocates(void *unused) {
    for (int i = 0; i < 4 * ROUNDS; i++) free(malloc(100 + i));
    return unused;
}

static void *places(void *name) {
    for (int i = 0; i < ROUNDS; i++) {
        int fd = open(name, O_CREAT | O_TRUNC | O_RDWR | O_APPEND, 0644);
        if (write(fd, "placed", 6) != 6 || fsync(fd) != 0) fails("write\n");
        void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED || memcmp(map, "placed", 6) || munmap(map, 4096)) fails("placed\n");
        close(fd);
    }
    return NULL;
}

static void *loads(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        if (library == NULL || dlsym(library, "there_is_no_such_name") != NULL) fails("load\n");
        dlclose(library);
    }
    return unused;
}

static void *begins(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t one;
        if (pthread_create(&one, NULL, allocates, NULL) != 0) fails("begin\n");
        pthread_join(one, NULL);
    }
    return unused;
}

int main(void) {
    long before = looks;
    pthread_atfork(take, give, give);
    void *(*work[])(void *) = {allocates, places, loads, begins, places};
    pthread_t all[5];
    alarm(120);
    for (int i = 0; i < 5; i++) pthread_create(&all[i], NULL, work[i], i == 4 ? "b.log" : "a.log");
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            places("c.log");
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0) fails("child\n");
    }
    for (int i = 0; i < 5; i++) pthread_join(all[i], NULL);
    printf("%s\n", before > 0 && looks > before ? "looked" : "never looked");
    return 0;
}
