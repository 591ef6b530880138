// A library loaded after the placing one. Another thread may get unmapped addresses at once;
// `meanwhile` simulates that in the same thread, right after the munmap.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

void (*meanwhile)(void *at);

int munmap(void *at, size_t len) {
    int (*next)(void *, size_t) = (int (*)(void *, size_t))dlsym(RTLD_NEXT, "munmap");
    int done = next(at, len);
    void (*then)(void *) = meanwhile;
    meanwhile = NULL;
    if (done == 0 && then) then(at);
    return done;
}
