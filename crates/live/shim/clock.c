/* Moves the wall clock of the process that preloads it. The offset is in microseconds, a 64-bit
 * number of this machine at the beginning of the file $LOCKKEEPER_LIVE_CLOCK. With
 * $LOCKKEEPER_LIVE_CLOCK_STANDS the number is the time itself: the clock stands still until a test
 * writes another number. Monotonic clocks stay as they are, as they do when the time of a machine is
 * set.
 *
 * The functions ask the kernel directly: a look-up of the library's own function allocates memory,
 * and an allocator that asks for the time itself (like jemalloc) would come here again. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PER_SECOND 1000000LL

static const volatile int64_t *offset;
static int stands;

__attribute__((constructor)) static void open_offset(void)
{
    const char *path = getenv("LOCKKEEPER_LIVE_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset = mapped;
    stands = offset && getenv("LOCKKEEPER_LIVE_CLOCK_STANDS");
}

static int64_t now(clockid_t clock, long *nanos)
{
    if (stands) {
        *nanos = 0;
        return *offset;
    }
    struct timespec real;
    syscall(SYS_clock_gettime, clock, &real);
    *nanos = real.tv_nsec % 1000;
    return real.tv_sec * PER_SECOND + real.tv_nsec / 1000 + (offset ? *offset : 0);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, time);
    long nanos;
    int64_t micros = now(clock, &nanos);
    time->tv_sec = micros / PER_SECOND;
    time->tv_nsec = micros % PER_SECOND * 1000 + nanos;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    (void)zone;
    long nanos;
    int64_t micros = now(CLOCK_REALTIME, &nanos);
    time->tv_sec = micros / PER_SECOND;
    time->tv_usec = micros % PER_SECOND;
    return 0;
}

time_t time(time_t *out)
{
    long nanos;
    time_t seconds = now(CLOCK_REALTIME, &nanos) / PER_SECOND;
    if (out)
        *out = seconds;
    return seconds;
}
