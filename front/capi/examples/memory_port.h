/* A memory port in the manner of simulators of processors: a request is sent or refused, time passes
 * in ticks, and a call reports each end. It stands in for the headers of such a simulator. */
#ifndef MEMORY_PORT_H
#define MEMORY_PORT_H

#include <stdbool.h>
#include <stdint.h>

struct memory_port;

/* Called at the end of a request, with the argument of its sender. */
typedef void (*memory_done)(void *argument, uint64_t address, uint64_t ticks);

/* Opens a port of `drive` (a TOML document) with ticks of `tick_ps` picoseconds, pages of
 * `page_bytes` and at most `most` requests at a time; null on error. */
struct memory_port *memory_port_open(const char *drive, uint64_t tick_ps, uint32_t page_bytes,
                                     uint32_t most);

/* Sends a request for the page that contains `address` in bytes. Returns false if it cannot be taken
 * now: the sender tries again at a later tick. */
bool memory_port_send(struct memory_port *port, uint64_t address, bool is_write, memory_done done,
                      void *argument);

/* Advances the drive by one tick, and calls for the requests that have ended. */
void memory_port_tick(struct memory_port *port);

/* The number of ticks so far. */
uint64_t memory_port_ticks(const struct memory_port *port);

/* The reason for which the port cannot go on; null if it can. */
const char *memory_port_error(const struct memory_port *port);

void memory_port_close(struct memory_port *port);

#endif
