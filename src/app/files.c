#include "app/files.h"

#include "base/log.h"

#include <sys/resource.h>

/* For databases, calls to other systems, uploads, sockets that linger. */
#define OWN_FILES 1024

int64_t df_files_for_connections(int64_t wanted)
{
    struct rlimit files;
    rlim_t need = (rlim_t)wanted + OWN_FILES;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= need)
        return wanted;
    rlim_t before = files.rlim_cur;
    files.rlim_cur = files.rlim_max < need ? files.rlim_max : need;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        files.rlim_cur = before;
    if (files.rlim_cur >= need)
        return wanted;
    /* With few files connections get half of them, so that neither side starves. */
    rlim_t own = files.rlim_cur / 2 < OWN_FILES ? files.rlim_cur / 2 : OWN_FILES;
    int64_t fit = (int64_t)(files.rlim_cur - own);
    if (fit >= wanted)
        return wanted;
    df_log_warn("ConnectionsLimited",
                "the limit of open files is %llu: %lld connections are taken, not %lld",
                (unsigned long long)files.rlim_cur, (long long)fit, (long long)wanted);
    return fit;
}
