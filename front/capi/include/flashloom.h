/* Flashloom: a simulated flash drive as a library.
 *
 * The caller owns the clock: it submits commands at times of its choice, runs the simulation up to
 * a time or event by event, and takes completions. Times are in nanoseconds of virtual time, from 0;
 * addresses and lengths are in sectors of 512 bytes. Commands carry no data: the library simulates
 * times and wear, and the caller keeps the contents.
 *
 * The same calls give the same results, on every machine.
 *
 * Errors. A function that fails returns what its comment says, and flashloom_error() returns the
 * reason as one sentence. A refused submission changes nothing. Null is refused, but for
 * flashloom_free() and flashloom_text_free(), which ignore it. Texts are UTF-8 and end with a zero
 * byte.
 *
 * Threads. One thread at a time may use a drive and all drives beside it. Other drives are
 * independent: each may have a thread of its own.
 *
 * Link with -lflashloom_c (libflashloom_c.so, or libflashloom_c.a with -lpthread -ldl -lm).
 */
#ifndef FLASHLOOM_H
#define FLASHLOOM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. It grows with every change that breaks a compiled program; compare it
 * with flashloom_abi(). */
#define FLASHLOOM_ABI 1

/* A drive behind a simulated host. */
struct flashloom_device;

/* Kinds of commands. */
enum flashloom_op {
    FLASHLOOM_READ = 0,
    FLASHLOOM_WRITE = 1,
    FLASHLOOM_DEALLOCATE = 2,
    FLASHLOOM_FLUSH = 3,
    /* The rest is for drives with zones. The zone is the one that contains `sector`. Zones follow
     * each other without gaps: each begins where the capacity of the one before ends. */
    FLASHLOOM_ZONE_APPEND = 4,
    FLASHLOOM_ZONE_RESET = 5,
    FLASHLOOM_ZONE_FINISH = 6,
    FLASHLOOM_ZONE_OPEN = 7,
    FLASHLOOM_ZONE_CLOSE = 8
};

/* Flag of a write or append that completes only when its data are durable. */
#define FLASHLOOM_FUA 1u
/* The queue pair that has been idle longest. */
#define FLASHLOOM_ANY_QUEUE UINT32_MAX
/* The address of a completion that has none. */
#define FLASHLOOM_NO_SECTOR UINT64_MAX

/* A command. Fields without a meaning for its kind are 0. */
struct flashloom_command {
    /* One of enum flashloom_op. */
    uint32_t op;
    /* Length in sectors of 512 bytes: 1 to 65536 for reads, writes and appends. */
    uint32_t sectors;
    /* First sector. */
    uint64_t sector;
    /* Queue pair of the host, modulo their number, or FLASHLOOM_ANY_QUEUE. */
    uint32_t queue;
    /* 0 or FLASHLOOM_FUA. */
    uint32_t flags;
    /* Stream or placement handle of a write; 0 is the default. */
    uint16_t handle;
    /* Number of flashloom_origin(), or 0 for an unnamed origin. */
    uint16_t origin;
    /* 0. */
    uint32_t reserved;
};

/* The end of a command. */
struct flashloom_completion {
    /* The number of the command, from flashloom_submit(). */
    uint64_t id;
    /* Time of the submission in ns. */
    uint64_t submitted_ns;
    /* Time in ns at which the host had taken the completion in. */
    uint64_t completed_ns;
    /* First sector that an append has written, else FLASHLOOM_NO_SECTOR. */
    uint64_t sector;
    /* 0 for success; flashloom_status() names the others. */
    uint32_t status;
    uint32_t reserved;
};

/* Traffic and work of a drive since it was made. */
struct flashloom_counters {
    /* Bytes that successful commands read, wrote and deallocated. */
    uint64_t host_read_bytes;
    uint64_t host_write_bytes;
    uint64_t trim_bytes;
    /* Flushes that have completed. */
    uint64_t flushes;
    /* Flash pages read and programmed, and blocks erased. */
    uint64_t nand_read_pages;
    uint64_t nand_program_pages;
    uint64_t nand_erase_blocks;
    /* Bytes of a flash page. */
    uint64_t nand_page_bytes;
    /* Superblocks that garbage collection has emptied. */
    uint64_t gc_lines;
    /* Bytes programmed over bytes written by the host; 0 without writes. Data that are still in the
     * write buffer are not programmed yet. */
    double waf;
};

/* The version of this interface that the library has, FLASHLOOM_ABI of its header. */
uint32_t flashloom_abi(void);

/* The sentence of this thread's last error; empty without one. Valid until the next error of the
 * thread. */
const char *flashloom_error(void);

/* Makes the drive that a TOML document describes: a drive file as of the command line, and beside
 * its keys `precondition` (fresh, full or aged), `seed` and the section [host]. For example
 *
 *     preset = "fdp"
 *     capacity = "1GiB"
 *     precondition = "aged"
 *
 * Returns null on error. flashloom_free() frees the drive. */
struct flashloom_device *flashloom_create(const char *toml);

/* Makes another drive at the host of `device`: it shares the clock and the processor cores, and has
 * queues and a link of its own. A step or an advance of either runs the events of both. No command
 * may be in flight, and the section [host] does not apply. Returns null on error. */
struct flashloom_device *flashloom_beside(const struct flashloom_device *device, const char *toml);

/* Makes an independent copy of a drive, at time 0 of a clock of its own: the drive after a power
 * cycle, with the same contents, mapping and wear, and counters at 0. No command may be in flight,
 * and on a drive with a volatile write cache a flush must follow the last write. Returns null on
 * error. */
struct flashloom_device *flashloom_fork(const struct flashloom_device *device);

/* Frees a drive. */
void flashloom_free(struct flashloom_device *device);

/* Capacity in sectors of 512 bytes; 0 on error. */
uint64_t flashloom_sectors(const struct flashloom_device *device);

/* The time of the drive's clock in ns; 0 on error. */
uint64_t flashloom_now(const struct flashloom_device *device);

/* Number of commands submitted and not completed; 0 on error. */
uint64_t flashloom_in_flight(const struct flashloom_device *device);

/* Stores the time of the next event in ns. Only some events complete a command. Returns 1; 0 if no
 * event is left, and stores nothing; -1 on error. */
int32_t flashloom_next_event(const struct flashloom_device *device, uint64_t *time_ns);

/* The number of the origin called `name` (a tenant or a process), by which the record divides the
 * traffic; it is added if it is new. Returns -1 on error. */
int32_t flashloom_origin(const struct flashloom_device *device, const char *name);

/* Submits a command at `time_ns`, at the earliest now, and stores its number unless `id` is null:
 * 0 for the first command of a drive. Commands of one instant begin in the order of submission; one
 * submitted for the instant of the event that flashloom_step() has just run begins within this
 * event. At most 65536 commands are in flight. Returns 0, or -1 on error. */
int32_t flashloom_submit(const struct flashloom_device *device, uint64_t time_ns,
                         const struct flashloom_command *command, uint64_t *id);

/* Runs the next event. Returns 1; 0 if no event is left; -1 on error. */
int32_t flashloom_step(const struct flashloom_device *device);

/* Runs all events up to and including `time_ns`, none beyond it, and sets the clock to it. Returns
 * 0, or -1 on error. */
int32_t flashloom_advance(const struct flashloom_device *device, uint64_t time_ns);

/* Takes the earliest completion. Returns 1; 0 if there is none, and stores nothing; -1 on error. */
int32_t flashloom_completion(const struct flashloom_device *device,
                             struct flashloom_completion *out);

/* Stores the counters. Returns 0, or -1 on error. */
int32_t flashloom_counters(const struct flashloom_device *device, struct flashloom_counters *out);

/* Lets an idle drive write out its buffers and powers it off. Returns the record of all its commands
 * as JSON, as `flashloom run --json` prints it for a run called `workload`, with wall time and
 * memory 0; null on error. flashloom_text_free() frees the text; the drive remains to be freed. */
char *flashloom_finish(const struct flashloom_device *device, const char *workload);

/* Frees a text of flashloom_finish(). */
void flashloom_text_free(char *text);

/* The name of a completion's status. It lives as long as the program. */
const char *flashloom_status(uint32_t status);

#ifdef __cplusplus
}
#endif

#endif
