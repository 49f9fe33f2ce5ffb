#include "base/temp.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Not every file system can create a file without a name; elsewhere the name is removed at once. */
enum df_code df_temp_open(const char *dir, int *ret, struct df_err *err)
{
    char path[4096];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0 && snprintf(path, sizeof(path), "%s/temp-XXXXXX", dir) < (int)sizeof(path)) {
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0)
            (void)unlink(path);
    }
    if (fd < 0)
        return df_err_errno(err, "cannot open a temporary file in %s", dir);
    *ret = fd;
    return DF_OK;
}
