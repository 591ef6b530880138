/* Sizes and values of the header, which the library asserts as well; and calls that it refuses. */
#include "flashloom.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct flashloom_command) == 32, "command");
_Static_assert(offsetof(struct flashloom_command, handle) == 24, "handle");
_Static_assert(sizeof(struct flashloom_completion) == 40, "completion");
_Static_assert(offsetof(struct flashloom_completion, status) == 32, "status");
_Static_assert(sizeof(struct flashloom_counters) == 80, "counters");
_Static_assert(offsetof(struct flashloom_counters, waf) == 72, "waf");

static void expect(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s; the last error: %s\n", what, flashloom_error());
    exit(1);
}

static int says(const char *part)
{
    return strstr(flashloom_error(), part) != NULL;
}

int main(void)
{
    struct flashloom_command command = {.op = FLASHLOOM_ZONE_APPEND, .sectors = 8};
    struct flashloom_completion done;
    struct flashloom_counters counters;
    uint64_t time = 7, id = 7;
    expect(flashloom_abi() == FLASHLOOM_ABI, "versions agree");
    expect(flashloom_error()[0] == 0, "no error at first");
    expect(!flashloom_create(NULL) && says("toml: expected a pointer, found null"), "null text");
    expect(!flashloom_create("preset = \"\xff\"") && says("expected UTF-8"), "not UTF-8");
    expect(!flashloom_create("capacity = 1") && says("TOML:1: preset: expected"), "no preset");
    expect(flashloom_step(NULL) == -1 && says("device: expected a pointer"), "null drive");
    flashloom_free(NULL);
    flashloom_text_free(NULL);

    struct flashloom_device *zoned = flashloom_create("preset = \"zns\"\ncapacity = \"256MiB\"");
    expect(zoned != NULL, "a zoned drive");
    struct flashloom_device *block =
        flashloom_beside(zoned, "preset = \"block\"\ncapacity = \"64MiB\"");
    expect(block != NULL, "a drive beside it");
    expect(flashloom_submit(block, 0, &command, NULL) == -1 && says("append: expected a drive"),
           "no zones");
    expect(flashloom_submit(zoned, 5, &command, &id) == 0 && id == 0, "an append");
    command.op = 99;
    expect(flashloom_submit(zoned, 5, &command, NULL) == -1 && says("op: 99 given"), "no such op");
    command.op = FLASHLOOM_READ;
    command.flags = 2;
    expect(flashloom_submit(zoned, 5, &command, NULL) == -1 && says("flags"), "unknown flag");
    command.flags = 0;
    command.origin = 3;
    expect(flashloom_submit(zoned, 5, &command, NULL) == -1 && says("origin 3"), "no such origin");
    expect(flashloom_origin(zoned, "tenant") == 1, "a new origin");
    command.origin = 1;
    expect(flashloom_submit(block, 5, &command, NULL) == -1 && says("origin 1"), "of the other");
    command.origin = 0;
    command.sector = flashloom_sectors(block);
    expect(flashloom_submit(block, 5, &command, NULL) == -1 && says("reach past"), "past the end");
    command.sector = 0;
    expect(flashloom_submit(block, 1000, &command, NULL) == 0, "a read");
    expect(flashloom_next_event(zoned, NULL) == -1, "null place");
    expect(flashloom_next_event(zoned, &time) == 1 && time == 0, "the firmware starts");
    expect(flashloom_completion(zoned, &done) == 0, "nothing has ended");
    expect(!flashloom_fork(block) && says("fork: 2 commands are in flight"), "not idle");
    expect(flashloom_in_flight(zoned) == 1, "of the drive alone");
    expect(flashloom_advance(block, 10000000) == 0, "both drives advance");
    expect(flashloom_now(zoned) == 10000000, "one clock");
    expect(flashloom_advance(block, 9) == -1 && says("time 9: expected at least"), "the past");
    expect(flashloom_completion(zoned, &done) == 1 && done.id == 0 && done.status == 0, "append");
    expect(done.submitted_ns == 5 && done.sector == 0, "the append has an address");
    expect(flashloom_completion(block, &done) == 1 && done.sector == FLASHLOOM_NO_SECTOR, "read");
    expect(flashloom_counters(block, &counters) == 0 && counters.host_read_bytes == 4096, "bytes");

    struct flashloom_device *copy = flashloom_fork(block);
    expect(copy != NULL && flashloom_now(copy) == 0, "a copy");
    char *record = flashloom_finish(block, "one read");
    expect(record && strstr(record, "\"workload\": \"one read\""), "a record");
    expect(flashloom_submit(block, 10000000, &command, NULL) == -1 && says("is off"), "is off");
    expect(flashloom_status(0)[0] == 's' && flashloom_status(77)[0] == 'u', "names");
    flashloom_text_free(record);
    flashloom_free(block);
    flashloom_free(zoned);
    expect(flashloom_step(copy) >= 0, "the copy lives on");
    flashloom_free(copy);
    return 0;
}
