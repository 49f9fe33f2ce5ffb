/*
 * All unit tests in one program, so that the library is linked once and not for every file of them.
 *
 *     unit --list           the names, one a line: room and file, base/str
 *     unit NAME...          runs these, one after the other
 *
 * A test may leave something behind that another trips over (a thread, the environment, a library's
 * settings); tests/run.py therefore starts a process for each name. The files of UNIT_ALONE in the
 * Makefile are programs of their own, which this one starts.
 */
#include "entry.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The linker's names for the bounds of the section. */
extern const struct unit_entry *const __start_unit_entries[];
extern const struct unit_entry *const __stop_unit_entries[];

static const char *const alone[] = {UNIT_ALONE};
#define ALONE_COUNT (sizeof(alone) / sizeof(alone[0]))

static void print_names(void)
{
    for (const struct unit_entry *const *e = __start_unit_entries; e < __stop_unit_entries; e++)
        puts((*e)->name);
    for (size_t i = 0; i < ALONE_COUNT; i++)
        puts(alone[i]);
}

/* The programs stand in tests/unit beside this one. */
static void become_program(const char *name)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

    path[length < 0 ? 0 : length] = '\0';
    char *slash = strrchr(path, '/');
    size_t room = slash ? (size_t)(slash + 1 - path) : 0;
    (void)snprintf(path + room, sizeof(path) - room, "tests/unit/%s_test", name);
    (void)execl(path, path, (char *)NULL);
    (void)fprintf(stderr, "unit: %s: %s\n", path, strerror(errno));
}

static int run_program(const char *name)
{
    int status = 0;

    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        become_program(name);
        _exit(EXIT_FAILURE);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return EXIT_FAILURE;
    if (WIFSIGNALED(status)) /* whoever asked is to see that, too */
        (void)raise(WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

static int run_one(const char *name)
{
    for (const struct unit_entry *const *e = __start_unit_entries; e < __stop_unit_entries; e++)
        if (strcmp((*e)->name, name) == 0)
            return (*e)->run();
    for (size_t i = 0; i < ALONE_COUNT; i++)
        if (strcmp(alone[i], name) == 0)
            return run_program(name);
    (void)fprintf(stderr, "unit: no test %s; --list names them\n", name);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    int failed = 0;

    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        print_names();
        return EXIT_SUCCESS;
    }
    if (argc < 2) {
        (void)fprintf(stderr, "usage: unit --list | NAME...\n");
        return EXIT_FAILURE;
    }
    for (int i = 1; i < argc; i++)
        if (run_one(argv[i]) != 0)
            failed++;
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
