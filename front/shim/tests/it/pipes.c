// Transfers between placed files, pipes and sockets, in one thread, and what each call
// answers, as lines.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "said.h"

enum { LEN = 1 << 20 };

static char data[LEN], seen[LEN];

static void fill_data(void) {
    for (long i = 0; i < LEN; i++) data[i] = (char)(i * 7 + i / 253);
}

// Sends a file as servers do, by splice into a pipe and from the pipe into a socket. A splice must
// move no more than the pipe holds, because no other thread empties the pipe.
static void splice_through_pipe_and_socket(void) {
    int ends[2], sockets[2], fd = open("a.log", O_RDWR | O_CREAT | O_TRUNC, 0644);
    DO(write(fd, data, LEN));
    DO(lseek(fd, 0, SEEK_SET));
    DO(pipe(ends));
    DO(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    long total = 0, more = 0, back = 0;
    while ((more = splice(fd, NULL, ends[1], NULL, LEN, SPLICE_F_MORE)) > 0) {
        while (more > 0) {
            long sent = splice(ends[0], NULL, sockets[1], NULL, more, SPLICE_F_NONBLOCK);
            if (sent < 0 && errno != EAGAIN) DO(sent);
            if (sent > 0) more -= sent;
            while ((sent = recv(sockets[0], seen + back, LEN - back, MSG_DONTWAIT)) > 0) back += sent;
            errno = 0;
        }
        total = lseek(fd, 0, SEEK_CUR);
    }
    DO(more);
    DO(total);
    long got;
    while ((got = recv(sockets[0], seen + back, LEN - back, MSG_DONTWAIT)) > 0) back += got;
    errno = 0;
    DO(back);
    DO(memcmp(seen, data, LEN));
    // Copy the file to another one through the pipe.
    int other = open("b.log", O_RDWR | O_CREAT | O_TRUNC, 0644);
    off_t at = 0;
    for (more = 1; at < LEN && more > 0;) {
        more = splice(fd, &at, ends[1], NULL, LEN, 0);
        for (long left = more; left > 0;) {
            got = splice(ends[0], NULL, other, NULL, left, SPLICE_F_MOVE);
            if (got <= 0) break;
            left -= got;
        }
    }
    DO(at);
    DO(pread(other, seen, LEN, 0));
    DO(memcmp(seen, data, LEN));
    DO(lseek(other, 0, SEEK_CUR));
    close(sockets[0]);
    close(sockets[1]);
    close(ends[0]);
    close(ends[1]);
    close(other);
    close(fd);
}

static long bytes_in_pipe(int pipe) {
    int bytes = -1;
    return ioctl(pipe, FIONREAD, &bytes) == 0 ? bytes : -1;
}

// A nonblocking transfer returns EAGAIN if it would wait, else moves the available bytes. Invalid
// offsets and wrong ends of a pipe are refused.
static void nonblocking_transfers_and_wrong_ends(void) {
    int ends[2], fd = open("a.log", O_RDWR);
    DO(pipe(ends));
    off_t at = 5;
    DO(splice(fd, &at, ends[1], NULL, 100, SPLICE_F_NONBLOCK));
    DO(at);
    DO(bytes_in_pipe(ends[0]));
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], data, 4096) > 0) continue;
    errno = 0;
    DO(splice(fd, &at, ends[1], NULL, 100, SPLICE_F_NONBLOCK));
    DO(sendfile(ends[1], fd, &at, 100));
    DO(splice(fd, NULL, ends[1], NULL, 100, 0));
    DO(at);
    DO(lseek(fd, 0, SEEK_CUR));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    while (read(ends[0], seen, sizeof seen) > 0) continue;
    errno = 0;
    DO(sendfile(ends[1], fd, &at, 100));
    DO(at);
    DO(read(ends[0], seen, 200));
    DO(memcmp(seen, data + 105, 100));
    at = LEN - 8;
    DO(splice(ends[0], NULL, fd, &at, 100, SPLICE_F_NONBLOCK));
    DO(splice(ends[0], NULL, fd, &at, 100, 0));
    DO(splice(ends[0], &at, fd, NULL, 100, 0));
    DO(splice(fd, NULL, ends[1], &at, 100, 0));
    DO(splice(fd, NULL, fd, NULL, 100, 0));
    DO(copy_file_range(ends[0], NULL, fd, NULL, 100, 0));
    DO(splice(fd, &at, ends[1], NULL, 100, 0));
    DO(at);
    DO(splice(fd, &at, ends[1], NULL, 100, 0));
    // Writing to the read end and reading from the write end.
    at = 5;
    DO(splice(fd, &at, ends[0], NULL, 100, 0));
    DO(sendfile(ends[0], fd, &at, 100));
    DO(splice(ends[1], NULL, fd, &at, 100, 0));
    DO(at);
    close(ends[1]);
    DO(read(ends[0], seen, 200));
    at = LEN;
    DO(splice(ends[0], NULL, fd, &at, 100, 0));
    DO(at);
    close(ends[0]);
    close(fd);
}

// Run with an argument: a splice to a file in full zones returns ENOSPC and leaves the rest in the
// pipe.
static void rest_stays_in_the_pipe_when_zones_are_full(void) {
    int ends[2], fd = open("c.log", O_RDWR | O_CREAT | O_TRUNC, 0644);
    long total = 0, done = 1;
    DO(pipe(ends));
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (done > 0) {
        long put = write(ends[1], data, 65536);
        done = splice(ends[0], NULL, fd, NULL, 65536, 0);
        if (done > 0) total += done;
        if (put < 0 && done < 0) break;
        if (done > 0 && bytes_in_pipe(ends[0]) > 0) continue;
    }
    DO(errno == ENOSPC);
    struct stat of;
    DO(fstat(fd, &of));
    DO(of.st_size == total);
    DO(lseek(fd, 0, SEEK_CUR) == total);
    DO(bytes_in_pipe(ends[0]) > 0);
    char byte;
    DO(read(ends[0], &byte, 1) == 1 && byte == data[total % 65536]);
    // A sendfile to it fails likewise and does not advance the source.
    int from = open("plain.txt", O_RDWR | O_CREAT | O_TRUNC, 0644);
    DO(write(from, data, 200000));
    DO(lseek(from, 0, SEEK_SET));
    while ((done = sendfile(fd, from, NULL, 200000)) > 0) lseek(from, 0, SEEK_SET);
    DO(errno == ENOSPC);
    DO(lseek(from, 0, SEEK_CUR));
    close(from);
    close(fd);
}

int main(int argc, char **argv) {
    (void)argv;
    alarm(50);
    fill_data();
    if (argc > 1) {
        rest_stays_in_the_pipe_when_zones_are_full();
        return 0;
    }
    splice_through_pipe_and_socket();
    nonblocking_transfers_and_wrong_ends();
    return 0;
}
