/* A toy processor at the memory port: it keeps four page faults in flight, touches 200 pages in a
 * random order, writes every fourth one, and prints the mean time of a fault. */
#include "memory_port.h"

#include <inttypes.h>
#include <stdio.h>

enum { PAGES = 200, IN_FLIGHT = 4, PAGE = 4096, TICK_PS = 333 };

struct core {
    struct memory_port *port;
    uint64_t random;
    uint64_t ticks;
    uint32_t sent;
    uint32_t ended;
};

static void ended(void *argument, uint64_t address, uint64_t ticks)
{
    struct core *core = argument;
    (void)address;
    core->ticks += ticks;
    core->ended++;
}

static void fault(struct core *core)
{
    uint64_t random = core->random * 6364136223846793005u + 1442695040888963407u;
    uint64_t address = (random >> 33) * PAGE;
    if (memory_port_send(core->port, address, core->sent % 4 == 3, ended, core)) {
        core->random = random;
        core->sent++;
    }
}

int main(void)
{
    struct core core = {.random = 1};
    core.port = memory_port_open("preset = \"block\"\ncapacity = \"64MiB\"\n"
                                 "precondition = \"full\"\n[host]\ncpu.completion = \"polling\"\n",
                                 TICK_PS, PAGE, IN_FLIGHT);
    if (!core.port) {
        fprintf(stderr, "core: the drive cannot be made\n");
        return 2;
    }
    while (core.ended < PAGES && !memory_port_error(core.port)) {
        if (core.sent < PAGES && core.sent - core.ended < IN_FLIGHT)
            fault(&core);
        memory_port_tick(core.port);
    }
    if (memory_port_error(core.port)) {
        fprintf(stderr, "core: %s\n", memory_port_error(core.port));
        return 1;
    }
    printf("%u faults, %" PRIu64 " ticks each\n", core.ended, core.ticks / core.ended);
    memory_port_close(core.port);
    return 0;
}
