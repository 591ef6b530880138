/* A flash drive behind a memory port, as gem5 and ramulator2 have one: send, tick, call back.
 *
 * A request addresses bytes and moves the page that contains them. The port counts ticks; the drive
 * has a clock in nanoseconds, and is advanced to the whole nanoseconds of a tick's end. A request
 * that is sent in a tick is submitted at the tick's begin, rounded down as well, so that no tick is
 * behind the clock of the drive.
 */
#include "memory_port.h"

#include "flashloom.h"

#include <stdlib.h>
#include <string.h>

/* A request in flight. */
struct sent {
    uint64_t id;
    uint64_t address;
    uint64_t begun;
    memory_done done;
    void *argument;
};

struct memory_port {
    struct flashloom_device *drive;
    uint64_t ticks;
    uint64_t tick_ps;
    uint64_t pages;
    uint32_t page_bytes;
    uint32_t most;
    uint32_t count;
    const char *error;
    struct sent sent[];
};

enum { SECTOR = 512 };

/* The time of the port's tick on the drive's clock. */
static uint64_t now_ns(const struct memory_port *port)
{
    return (uint64_t)((unsigned __int128)port->ticks * port->tick_ps / 1000);
}

struct memory_port *memory_port_open(const char *drive, uint64_t tick_ps, uint32_t page_bytes,
                                     uint32_t most)
{
    struct memory_port *port;
    if (flashloom_abi() != FLASHLOOM_ABI || tick_ps == 0 || page_bytes < SECTOR ||
        page_bytes % SECTOR != 0)
        return NULL;
    port = calloc(1, sizeof *port + most * sizeof port->sent[0]);
    if (!port)
        return NULL;
    port->drive = flashloom_create(drive);
    if (!port->drive) {
        free(port);
        return NULL;
    }
    port->tick_ps = tick_ps;
    port->page_bytes = page_bytes;
    port->most = most;
    port->pages = flashloom_sectors(port->drive) / (page_bytes / SECTOR);
    return port;
}

bool memory_port_send(struct memory_port *port, uint64_t address, bool is_write, memory_done done,
                      void *argument)
{
    struct flashloom_command command;
    struct sent *sent = &port->sent[port->count];
    uint32_t sectors = port->page_bytes / SECTOR;
    if (port->error || port->count == port->most)
        return false;
    memset(&command, 0, sizeof command);
    command.op = is_write ? FLASHLOOM_WRITE : FLASHLOOM_READ;
    command.queue = FLASHLOOM_ANY_QUEUE;
    /* Addresses beyond the drive fold back onto it. */
    command.sector = address / port->page_bytes % port->pages * sectors;
    command.sectors = sectors;
    if (flashloom_submit(port->drive, now_ns(port), &command, &sent->id) < 0) {
        port->error = flashloom_error();
        return false;
    }
    sent->address = address;
    sent->begun = port->ticks;
    sent->done = done;
    sent->argument = argument;
    port->count++;
    return true;
}

/* Ends the request of a completion. The call may send the next one. */
static void end(struct memory_port *port, const struct flashloom_completion *done)
{
    uint32_t at;
    for (at = 0; at < port->count; at++) {
        struct sent sent = port->sent[at];
        if (sent.id != done->id)
            continue;
        port->sent[at] = port->sent[--port->count];
        if (done->status != 0)
            port->error = flashloom_status(done->status);
        sent.done(sent.argument, sent.address, port->ticks - sent.begun);
        return;
    }
}

void memory_port_tick(struct memory_port *port)
{
    struct flashloom_completion done;
    if (port->error)
        return;
    port->ticks++;
    if (flashloom_advance(port->drive, now_ns(port)) < 0) {
        port->error = flashloom_error();
        return;
    }
    while (flashloom_completion(port->drive, &done) > 0)
        end(port, &done);
}

uint64_t memory_port_ticks(const struct memory_port *port)
{
    return port->ticks;
}

const char *memory_port_error(const struct memory_port *port)
{
    return port->error;
}

void memory_port_close(struct memory_port *port)
{
    flashloom_free(port->drive);
    free(port);
}
