// Appends numbered records with an fsync after each, and prints each number after its fsync.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    char record[600];
    int fd = open("wal.log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (unsigned n = 0;; n++) {
        memset(record, 'a' + n % 26, sizeof record);
        int len = sprintf(record, "%u ", n);
        record[len] = '.';
        if (write(fd, record, sizeof record) != sizeof record || fsync(fd)) return 1;
        printf("%u\n", n);
        fflush(stdout);
    }
}
