/* Replays a trace of block requests on a conventional drive and prints the record of
 * `flashloom run raw@block --size 64MiB TRACE[:depth=N] --json`.
 *
 *     replay TRACE [DEPTH]
 *
 * The trace is text as MQSim reads it, a request a line: time in ns, device, first sector, sectors,
 * 0 for a write or 1 for a read. Without DEPTH a request is submitted at its time; with DEPTH, this
 * many are in flight, and each completion is followed by the next request, in the same queue pair.
 */
#include "flashloom.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 65536 };

static const char *const SETUP = "preset = \"block\"\ncapacity = \"64MiB\"\n"
                                 "precondition = \"aged\"\n";

static void fail(void)
{
    fprintf(stderr, "replay: %s\n", flashloom_error());
    exit(2);
}

/* Reads the next request. Returns 0 at the end. */
static int next(FILE *trace, uint64_t *time, struct flashloom_command *command)
{
    uint64_t device;
    int is_read;
    memset(command, 0, sizeof *command);
    if (fscanf(trace, "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu32 "%d", time, &device,
               &command->sector, &command->sectors, &is_read) != 5)
        return 0;
    command->op = is_read ? FLASHLOOM_READ : FLASHLOOM_WRITE;
    command->queue = FLASHLOOM_ANY_QUEUE;
    return 1;
}

static void submit(struct flashloom_device *drive, uint64_t time,
                   const struct flashloom_command *command)
{
    if (flashloom_submit(drive, time, command, NULL) < 0)
        fail();
}

int main(int count, char **words)
{
    /* The queue pair of each command in a closed loop. */
    static uint32_t queues[MOST];
    struct flashloom_command command;
    struct flashloom_completion done;
    struct flashloom_counters counters;
    uint64_t time, submitted = 0;
    uint32_t depth = count > 2 ? (uint32_t)atoi(words[2]) : 0;
    FILE *trace = count > 1 ? fopen(words[1], "r") : NULL;
    if (!trace) {
        fprintf(stderr, "usage: replay TRACE [DEPTH]\n");
        return 2;
    }
    struct flashloom_device *drive = flashloom_create(SETUP);
    if (!drive)
        fail();
    while ((depth == 0 || submitted < depth) && next(trace, &time, &command)) {
        if (depth > 0) {
            command.queue = queues[submitted] = (uint32_t)submitted;
            time = flashloom_now(drive);
        }
        submit(drive, time, &command);
        submitted++;
    }
    while (flashloom_in_flight(drive) > 0) {
        if (flashloom_step(drive) < 0)
            fail();
        while (flashloom_completion(drive, &done) > 0) {
            fprintf(stderr, "%" PRIu64 " %" PRIu64 "\n", done.id,
                    done.completed_ns - done.submitted_ns);
            if (depth == 0 || submitted == MOST || !next(trace, &time, &command))
                continue;
            command.queue = queues[submitted++] = queues[done.id];
            submit(drive, flashloom_now(drive), &command);
        }
    }
    if (flashloom_counters(drive, &counters) < 0)
        fail();
    char name[4096];
    snprintf(name, sizeof name, depth ? "%s:depth=%u" : "%s", words[1], depth);
    char *record = flashloom_finish(drive, name);
    if (!record)
        fail();
    fputs(record, stdout);
    flashloom_text_free(record);
    flashloom_free(drive);
    fclose(trace);
    return 0;
}
