// The first file call of this program is a write in a signal handler, which mostly interrupts the
// allocator while it holds its lock.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum { TICKS = 40 };

static volatile sig_atomic_t ticks;

static void tick(int signal) {
    (void)signal;
    if (ticks < TICKS && write(1, ".", 1) == 1) ticks++;
}

static void *idle(void *none) {
    for (;;) pause();
    return none;
}

int main(void) {
    // The allocator takes its locks only if there is a second thread.
    sigset_t ticking;
    sigemptyset(&ticking);
    sigaddset(&ticking, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &ticking, NULL);
    pthread_t other;
    pthread_create(&other, NULL, idle, NULL);
    pthread_sigmask(SIG_UNBLOCK, &ticking, NULL);
    struct sigaction action = {.sa_handler = tick};
    sigaction(SIGPROF, &action, NULL);
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &often, NULL);
    while (ticks < TICKS) {
        void *held[50];
        for (int i = 0; i < 50; i++) held[i] = malloc(3000 + 400 * i);
        for (int i = 0; i < 50; i++) free(held[i]);
    }
    setitimer(ITIMER_PROF, &never, NULL);
    return write(1, "\n", 1) != 1;
}
