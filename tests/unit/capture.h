/* What is written to standard error, and so the log: from capture() to captured_lines(). */
#ifndef DF_TEST_CAPTURE_H
#define DF_TEST_CAPTURE_H

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int captured_fd = -1, captured_before = -1;

static inline void capture(void)
{
    captured_before = dup(STDERR_FILENO);
    captured_fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(captured_before >= 0 && captured_fd >= 0);
    /* As a log file would have it: lines of several threads must not overwrite each other. */
    assert_int_equal(fcntl(captured_fd, F_SETFL, O_APPEND), 0);
    assert_int_equal(dup2(captured_fd, STDERR_FILENO), STDERR_FILENO);
}

/* Until the next capture. */
static inline char *captured_lines(void)
{
    static char captured[1 << 21];

    dup2(captured_before, STDERR_FILENO);
    close(captured_before);
    ssize_t n = pread(captured_fd, captured, sizeof(captured) - 1, 0);
    close(captured_fd);
    assert_true(n >= 0);
    captured[n] = '\0';
    return captured;
}

/* captured_lines(), of which only those count that hold a text. */
static inline int captured_with(const char *what)
{
    int count = 0;
    for (char *line = captured_lines(), *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        count += strstr(line, what) != NULL;
    }
    return count;
}

#endif
