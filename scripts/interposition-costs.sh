#!/usr/bin/env bash
# Measures the cost of a call when code stands between a program and the kernel, by mechanism: the
# placing library, patched instructions of the C library, ptrace, syscall_user_dispatch, seccomp
# with a signal, FUSE. As in Figure 5.1 of the dissertation, and also for calls that the library
# does not handle.
#
#   scripts/interposition-costs.sh
#
# Prints nanoseconds a call, the minimum of many rounds, by the wall clock: where another process
# does the work, waiting for it is the cost. Calls are on files of an ext4 in memory. FLASHLOOM
# selects another flashloom than target/release's. Needs root (a loop device, FUSE), mkfs.ext4 and a
# C compiler.
set -euo pipefail

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
measured

work=$(mktemp -d)
image=/dev/shm/interposition-costs.$$
trap 'umount -l "$work/fuse" 2>/dev/null || true; umount "$work/disk" 2>/dev/null || true
  rm -rf "$work" "$image"' EXIT

cat > "$work/calls.c" <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { ROUNDS = 60, CALLS = 1000, PAGE = 4096 };
static char bytes[PAGE];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void say(const char *what, double best) {
    printf("  %-28s %8.0f\n", what, best);
    fflush(stdout);
}

/* The least of rounds; between them others may catch up. */
#define LEAST(what, before, call)                                 \
    do {                                                          \
        double best = 1e18;                                       \
        for (int round = 0; round < ROUNDS; round++) {            \
            before;                                               \
            double from = now();                                  \
            for (int i = 0; i < CALLS; i++) {                     \
                call;                                             \
            }                                                     \
            double took = (now() - from) / CALLS;                 \
            if (took < best) best = took;                         \
            usleep(5000);                                         \
        }                                                         \
        say(what, best);                                          \
    } while (0)

static void measure(const char *name, int all) {
    int fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0644);
    if (fd < 0) exit(1);
    struct stat st;
    for (int i = 0; i < CALLS; i++)
        if (write(fd, bytes, PAGE) != PAGE) exit(1);
    LEAST("write of 4 KiB", ({ if (ftruncate(fd, 0)) exit(1); lseek(fd, 0, SEEK_SET); }),
          if (write(fd, bytes, PAGE) != PAGE) exit(1));
    LEAST("write of 100 bytes", ({ if (ftruncate(fd, 0)) exit(1); lseek(fd, 0, SEEK_SET); }),
          if (write(fd, bytes, 100) != 100) exit(1));
    if (all) {
        if (fsync(fd)) exit(1);
        LEAST("pread of 100 bytes", (void)0, if (pread(fd, bytes, 100, 0) != 100) exit(1));
        LEAST("lseek", (void)0, lseek(fd, 0, SEEK_SET));
        LEAST("fstat", (void)0, fstat(fd, &st));
        LEAST("stat", (void)0, stat(name, &st));
        LEAST("open and close", (void)0, close(open(name, O_RDONLY)));
    }
    close(fd);
}

/* Sustained: much more than any buffer holds. */
static void much(const char *name) {
    int fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0644);
    double best = 1e18;
    for (int round = 0; round < 3; round++) {
        if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET)) exit(1);
        double from = now();
        for (int i = 0; i < 50000; i++)
            if (write(fd, bytes, PAGE) != PAGE) exit(1);
        double took = (now() - from) / 50000;
        if (took < best) best = took;
    }
    say("write of 4 KiB, 200 MiB", best);
    close(fd);
}

static void traced(const char *name) {
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        measure(name, 0);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    for (;;) {
        ptrace(PTRACE_SYSCALL, child, 0, 0);
        if (waitpid(child, &status, 0) < 0 || WIFEXITED(status)) return;
    }
}

static volatile char selector;

/* Does the call that was stopped, from a place where none is stopped. */
static void dispatched(int signal, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    greg_t *r = at->uc_mcontext.gregs;
    (void)signal;
    selector = 0;
    long done = syscall(info->si_syscall, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10],
                        r[REG_R8], r[REG_R9]);
    r[REG_RAX] = done < 0 ? -errno : done;
    selector = 1;
}

extern char restore[];
__asm__(".text\nrestore: mov $15, %eax\nsyscall\nnop\nrestore_end:\n");
extern char restore_end[];

static void by_dispatch(const char *name) {
    struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } act = {
        (void *)dispatched, SA_SIGINFO | SA_NODEFER | 0x04000000, restore, 0};
    syscall(SYS_rt_sigaction, SIGSYS, &act, NULL, 8);
    if (prctl(59, 1, restore, restore_end - restore, &selector)) {
        puts("  syscall_user_dispatch is not there");
        return;
    }
    selector = 1;
    measure(name, 0);
    selector = 0;
    prctl(59, 0, 0, 0, 0);
}

/* What a call that was patched comes to: it looks whether the descriptor is of its business,
   as the library does, and makes the call. */
static unsigned char ours[1024];
__attribute__((target("general-regs-only"), used)) static long
patched(long fd, const void *data, size_t len) {
    long done;
    if ((unsigned long)fd < sizeof ours && ours[fd]) return -EBADF;
    __asm__ volatile("syscall" : "=a"(done) : "0"(SYS_write), "D"(fd), "S"(data), "d"(len)
                     : "rcx", "r11", "memory");
    return done;
}

/* From the jump to `patched` and back behind it, with all registers that a call of the
   system keeps. */
static void *behind __attribute__((used));
extern char bridge[];
__asm__(".text\nbridge: lea -128(%rsp), %rsp\n"
        "push %rbp\npush %rdi\npush %rsi\npush %rdx\npush %r8\npush %r9\npush %r10\n"
        "mov %rsp, %rbp\nand $-16, %rsp\ncall patched\nmov %rbp, %rsp\n"
        "pop %r10\npop %r9\npop %r8\npop %rdx\npop %rsi\npop %rdi\npop %rbp\n"
        "lea 128(%rsp), %rsp\njmp *behind(%rip)\n");

/* As libsyscall_intercept: where the C library's write loads the number of the call and
   makes it, there is a jump, to a page near enough, from which ours is reached. */
static void by_patching(const char *name) {
    static const unsigned char call[] = {0xb8, SYS_write, 0, 0, 0, 0x0f, 0x05};
    unsigned char *at = memmem((void *)write, 100, call, sizeof call);
    char *near = MAP_FAILED;
    for (size_t off = 1 << 24; at && near == MAP_FAILED && off < 1u << 31; off += 1 << 24) {
        void *hint = (void *)(((uintptr_t)at - off) & -(uintptr_t)PAGE);
        near = mmap(hint, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    }
    if (near == MAP_FAILED) {
        puts("  this C library's write cannot be patched");
        return;
    }
    uintptr_t from = (uintptr_t)at & -(uintptr_t)PAGE;
    if (mprotect((void *)from, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC)) exit(1);
    behind = at + sizeof call;
    memcpy(near, "\xff\x25\0\0\0\0", 6);
    *(void **)(near + 6) = bridge;
    at[0] = 0xe9;
    *(int32_t *)(at + 1) = (int32_t)((intptr_t)near - (intptr_t)(at + 5));
    ours[999] = 1;
    if (write(999, bytes, 1) != -1 || errno != EBADF) exit(1);
    measure(name, 0);
}

/* Writes of descriptors below 100 are stopped; the handler makes them with a high one. */
static void trapped(int signal, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    greg_t *r = at->uc_mcontext.gregs;
    (void)signal;
    (void)info;
    long done = syscall(SYS_write, 200, r[REG_RSI], r[REG_RDX]);
    r[REG_RAX] = done < 0 ? -errno : done;
}

static void by_seccomp(const char *name) {
    if (fork() != 0) {
        wait(NULL);
        return;
    }
    int first = open(name, O_CREAT | O_RDWR | O_TRUNC, 0644);
    dup2(first, 200);
    dup2(first, 99);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 99, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    struct sigaction act = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSYS, &act, NULL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        puts("  seccomp is not there");
        _exit(0);
    }
    LEAST("write of 4 KiB", ({ if (ftruncate(200, 0)) exit(1); lseek(200, 0, SEEK_SET); }),
          if (write(99, bytes, PAGE) != PAGE) exit(1));
    LEAST("write of 100 bytes", ({ if (ftruncate(200, 0)) exit(1); lseek(200, 0, SEEK_SET); }),
          if (write(99, bytes, 100) != 100) exit(1));
    _exit(0);
}

/* A file behind FUSE whose daemon takes everything and does nothing: the least that any
   costs. The protocol's structures are cut to the fields that matter (linux/fuse.h). */
struct in { uint32_t len, op; uint64_t unique, node; uint32_t uid, gid, pid, pad; };
struct out { uint32_t len; int32_t error; uint64_t unique; };
struct attr { uint64_t ino, size, blocks, t[3]; uint32_t n[3], mode, nlink, uid, gid, rdev,
    blksize, flags; };

static void serve(int fuse) {
    static char room[1 << 20];
    static uint64_t size;
    for (;;) {
        ssize_t got = read(fuse, room, sizeof room);
        if (got < (ssize_t)sizeof(struct in)) {
            if (errno == EINTR || errno == ENOENT) continue;
            _exit(0);
        }
        struct in *in = (void *)room;
        uint32_t *arg = (void *)(room + sizeof *in);
        struct { struct out head; char data[8192]; } out;
        memset(&out, 0, sizeof out.head + 256);
        size_t more = 0;
        int error = 0;
        struct attr attr = {.ino = in->node, .mode = in->node == 1 ? 040755 : 0100644,
            .nlink = 1, .size = size, .blksize = 4096};
        switch (in->op) {
        case 26: /* INIT: version 7.31, writes of up to 128 KiB */
            ((uint32_t *)out.data)[0] = 7;
            ((uint32_t *)out.data)[1] = 31;
            ((uint32_t *)out.data)[2] = 65536;
            ((uint32_t *)out.data)[5] = 131072;
            ((uint32_t *)out.data)[6] = 1;
            more = 64;
            break;
        case 1: /* LOOKUP */
            attr.ino = 2;
            attr.mode = 0100644;
            ((uint64_t *)out.data)[0] = 2;
            ((uint64_t *)out.data)[2] = 1000;
            ((uint64_t *)out.data)[3] = 1000;
            memcpy(out.data + 40, &attr, sizeof attr);
            more = 40 + sizeof attr;
            break;
        case 3: /* GETATTR */
        case 4: /* SETATTR */
            ((uint64_t *)out.data)[0] = 1000;
            memcpy(out.data + 16, &attr, sizeof attr);
            more = 16 + sizeof attr;
            break;
        case 14: /* OPEN */
            more = 16;
            break;
        case 16: /* WRITE: its length is the fifth word */
            ((uint32_t *)out.data)[0] = arg[4];
            more = 8;
            break;
        case 2: case 42: /* FORGET: no answer */
            continue;
        case 18: case 25: case 38: /* RELEASE, FLUSH */
            break;
        default:
            error = -ENOSYS;
        }
        out.head.len = sizeof out.head + more;
        out.head.error = error;
        out.head.unique = in->unique;
        if (write(fuse, &out, out.head.len) < 0 && errno != ENOENT) _exit(0);
    }
}

static void by_fuse(const char *dir) {
    char options[100], name[200];
    int fuse = open("/dev/fuse", O_RDWR);
    snprintf(options, sizeof options, "fd=%d,rootmode=40755,user_id=0,group_id=0", fuse);
    if (fuse < 0 || mount("null", dir, "fuse", MS_NOSUID | MS_NODEV, options)) {
        puts("  FUSE is not there");
        return;
    }
    pid_t server = fork();
    if (server == 0) serve(fuse);
    close(fuse);
    snprintf(name, sizeof name, "%s/file", dir);
    int fd = open(name, O_RDWR);
    if (fd < 0) { perror("open"); exit(1); }
    LEAST("write of 4 KiB", lseek(fd, 0, SEEK_SET), if (write(fd, bytes, PAGE) != PAGE) exit(1));
    LEAST("write of 100 bytes", lseek(fd, 0, SEEK_SET),
          if (write(fd, bytes, 100) != 100) exit(1));
    close(fd);
    umount2(dir, MNT_DETACH);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}

int main(int argc, char **argv) {
    if (argc != 3) return 1;
    if (!strcmp(argv[1], "all")) measure(argv[2], 1);
    if (!strcmp(argv[1], "much")) much(argv[2]);
    if (!strcmp(argv[1], "ptrace")) traced(argv[2]);
    if (!strcmp(argv[1], "dispatch")) by_dispatch(argv[2]);
    if (!strcmp(argv[1], "patched")) by_patching(argv[2]);
    if (!strcmp(argv[1], "seccomp")) by_seccomp(argv[2]);
    if (!strcmp(argv[1], "fuse")) by_fuse(argv[2]);
    return 0;
}
C
cc -O2 -w -o "$work/calls" "$work/calls.c"

truncate -s 2G "$image"
mkfs.ext4 -q "$image"
mkdir "$work/disk" "$work/fuse"
mount -o loop "$image" "$work/disk"

# Zones in memory, of 64 MiB: the speed of the zones themselves is not measured.
zones=$work/zones
mkdir "$zones"
mount -t tmpfs -o size=3g none "$zones"
trap 'umount -l "$work/fuse" 2>/dev/null || true; umount -l "$zones" 2>/dev/null || true
  umount "$work/disk" 2>/dev/null || true; rm -rf "$work" "$image"' EXIT
emulated_zones "$zones" 32 64

cat > "$work/rules" <<'R'
name = "costs"
[[stream]]
name = "logs"
life = "short"
[[rule]]
path = "*.log"
stream = "logs"
R

placed() { "$flashloom" shim --rules "$1" --zones "$zones" -- "$work/calls" "$2" "$work/disk/$3"; }

echo "alone"
"$work/calls" all "$work/disk/x.txt"
echo "under the library, which no rule makes look at the file"
placed "$work/rules" all x.txt
echo "the same with the rules of RocksDB"
placed rocksdb all x.txt
echo "placed by the library"
placed "$work/rules" all x.log
echo "alone, more than any buffer holds"
"$work/calls" much "$work/disk/y.txt"
echo "placed, more than any buffer holds"
placed "$work/rules" much y.log
echo "with the C library's instructions patched"
"$work/calls" patched "$work/disk/x.txt"
echo "under ptrace"
"$work/calls" ptrace "$work/disk/x.txt"
echo "under syscall_user_dispatch"
"$work/calls" dispatch "$work/disk/x.txt"
echo "under seccomp, which makes signals of calls"
"$work/calls" seccomp "$work/disk/x.txt"
echo "on a file behind FUSE, whose daemon does nothing"
"$work/calls" fuse "$work/fuse"
