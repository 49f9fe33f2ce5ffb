/*
 * A clock that tests move: preloaded into the program, it adds an offset to the real time. The
 * offset, nanoseconds in eight bytes, is the content of the file that TEST_CLOCK names; the test
 * writes it, and every process that has the file sees it at once.
 *
 * Only what the program itself asks for is moved. Its libraries see real time, so that no call that
 * is under way and no connection times out when hours pass in a moment. A wait for a condition is
 * cut into short ones, so that it ends soon after the time that it waits for has come.
 *
 * Built and loaded by tests/integration/harness.py (FakeClock).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define SLICE_NS (50 * INT64_C(1000000))

typedef int gettime_fn(clockid_t id, struct timespec *ret);
typedef int wait_fn(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until);
typedef int clockwait_fn(pthread_cond_t *c, pthread_mutex_t *m, clockid_t id,
                         const struct timespec *until);

static _Atomic int64_t *offset_ns;
static uintptr_t program_begin, program_end;
static gettime_fn *real_gettime;
static wait_fn *real_wait;
static clockwait_fn *real_clockwait;

static int64_t ns_of(const struct timespec *ts)
{
    return ts->tv_sec * NS_PER_S + ts->tv_nsec;
}

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

static void fail(const char *what)
{
    perror(what);
    _exit(127);
}

/* The first object that the dynamic linker names is the program. */
static int find_program(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X)) {
            program_begin = info->dlpi_addr + p->p_vaddr;
            program_end = program_begin + p->p_memsz;
        }
    }
    return 1;
}

static void *find_real(const char *name)
{
    /* On x86-64 there is an older pthread_cond_timedwait too, for another layout of conditions. */
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void open_clock(void)
{
    const char *path = getenv("TEST_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = fd >= 0 ? mmap(NULL, sizeof(*offset_ns), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (map == MAP_FAILED)
        fail("TEST_CLOCK");
    close(fd);
    offset_ns = map;
    dl_iterate_phdr(find_program, NULL);
    *(void **)&real_gettime = find_real("clock_gettime");
    *(void **)&real_wait = find_real("pthread_cond_timedwait");
    *(void **)&real_clockwait = find_real("pthread_cond_clockwait");
    if (!real_gettime || !real_wait || !real_clockwait)
        fail("tests/shim/clock.c");
}

/* Whether the program itself called, not a library. */
static int is_moved(clockid_t id, const void *caller)
{
    return offset_ns && (id == CLOCK_REALTIME || id == CLOCK_MONOTONIC) &&
           (uintptr_t)caller >= program_begin && (uintptr_t)caller < program_end;
}

static int64_t real_ns(clockid_t id)
{
    struct timespec ts;
    if (!real_gettime) /* a library's constructor asks */
        *(void **)&real_gettime = find_real("clock_gettime");
    real_gettime(id, &ts);
    return ns_of(&ts);
}

/* Only the wall clock can be behind: the other one never goes back, and on a machine that was
 * started a moment ago it would be negative. */
static int64_t offset_of(clockid_t id)
{
    int64_t ns = atomic_load(offset_ns);
    return id == CLOCK_MONOTONIC && ns < 0 ? 0 : ns;
}

static int64_t moved_ns(clockid_t id, const void *caller)
{
    return real_ns(id) + (is_moved(id, caller) ? offset_of(id) : 0);
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
    if (!is_moved(id, __builtin_return_address(0))) {
        if (!real_gettime)
            *(void **)&real_gettime = find_real("clock_gettime");
        return real_gettime(id, ret);
    }
    *ret = timespec_of(real_ns(id) + offset_of(id));
    return 0;
}

time_t time(time_t *ret)
{
    time_t now = moved_ns(CLOCK_REALTIME, __builtin_return_address(0)) / NS_PER_S;
    if (ret)
        *ret = now;
    return now;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    (void)zone;
    int64_t now = moved_ns(CLOCK_REALTIME, __builtin_return_address(0));
    *ret = (struct timeval){.tv_sec = now / NS_PER_S, .tv_usec = now % NS_PER_S / 1000};
    return 0;
}

/* Until the moved clock shows `until`, which may be soon, whatever it shows now. */
static int wait_moved(pthread_cond_t *c, pthread_mutex_t *m, clockid_t id, int64_t until)
{
    for (;;) {
        int64_t real = real_ns(id);
        int64_t left = until - offset_of(id) - real;
        struct timespec slice = timespec_of(real + (left < SLICE_NS ? left : SLICE_NS));
        if (left <= 0)
            return ETIMEDOUT;
        int code = real_clockwait(c, m, id, &slice);
        if (code != ETIMEDOUT)
            return code;
    }
}

/* The program's conditions are all of CLOCK_MONOTONIC (src/base/lock.c). */
int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m,
                           const struct timespec *restrict until)
{
    if (!is_moved(CLOCK_MONOTONIC, __builtin_return_address(0)))
        return real_wait(c, m, until);
    return wait_moved(c, m, CLOCK_MONOTONIC, ns_of(until));
}

int pthread_cond_clockwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t id,
                           const struct timespec *restrict until)
{
    if (!is_moved(id, __builtin_return_address(0)))
        return real_clockwait(c, m, id, until);
    return wait_moved(c, m, id, ns_of(until));
}
