#ifndef TESTS_UNIT_SCRATCH_H
#define TESTS_UNIT_SCRATCH_H

#include <stdlib.h>
#include <string.h>

/* With a name for mkdtemp() behind it, it fits where the tests keep their directory: 64 bytes. */
#define SCRATCH_LEN_MAX 40

/* Where temporary files lie: where tests/run.py says, which may have more room than /tmp. The
 * environment is read before a test starts threads. */
static inline const char *scratch_dir(void)
{
    const char *dir = getenv("TMPDIR");

    return dir && *dir && strlen(dir) <= SCRATCH_LEN_MAX ? dir : "/tmp";
}

#endif
