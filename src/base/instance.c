#include "base/instance.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_MAX_BYTES 4096
#define YOUNG_S        60 /* a younger file may be one that its process has not locked yet */

static void instance_path(const struct df_instance *i, const struct df_uuid *id, char *out)
{
    (void)snprintf(out, PATH_MAX_BYTES, "%s/%s", i->directory, id->text);
}

struct df_instance *df_instance_hold(const char *data_dir, const struct df_clock *clock)
{
    struct df_instance *i = df_calloc(1, sizeof(*i));
    char path[PATH_MAX_BYTES];
    struct df_err err = DF_ERR_INIT;

    (void)gethostname(i->host, sizeof(i->host) - 1);
    i->id = df_uuid_v4(clock);
    (void)snprintf(path, sizeof(path), "%s/instances", data_dir);
    i->directory = df_strdup(df_str_c(path));
    (void)mkdir(data_dir, 0700);
    (void)mkdir(path, 0700);
    instance_path(i, &i->id, path);
    i->fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (i->fd >= 0 && flock(i->fd, LOCK_EX | LOCK_NB) == 0)
        return i;
    (void)df_err_errno(&err, "%s", path);
    df_log_warn("InstanceUnmarked", "%s", err.detail);
    if (i->fd >= 0) { /* a file without a lock would say that this process is gone */
        (void)unlink(path);
        (void)close(i->fd);
        i->fd = -1;
    }
    return i;
}

void df_instance_drop(struct df_instance *i)
{
    char path[PATH_MAX_BYTES];

    if (!i)
        return;
    if (i->fd >= 0) {
        instance_path(i, &i->id, path);
        (void)unlink(path);
        (void)close(i->fd);
    }
    free(i->directory);
    free(i);
}

bool df_instance_is_gone(const struct df_instance *i, const struct df_uuid *id)
{
    char path[PATH_MAX_BYTES];

    instance_path(i, id, path);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool gone = flock(fd, LOCK_EX | LOCK_NB) == 0;
    (void)close(fd);
    return gone;
}

void df_instance_sweep(const struct df_instance *i,
                       bool (*needed)(void *arg, const struct df_uuid *id), void *arg)
{
    DIR *dir = opendir(i->directory);
    if (!dir)
        return;
    for (const struct dirent *e; (e = readdir(dir));) { /* NOLINT(concurrency-mt-unsafe) */
        struct df_uuid id;
        struct stat st;
        char path[PATH_MAX_BYTES];
        if (!df_uuid_parse(df_str_c(e->d_name), &id))
            continue;
        instance_path(i, &id, path);
        if (stat(path, &st) == 0 && time(NULL) - st.st_mtime > YOUNG_S &&
            df_instance_is_gone(i, &id) && !needed(arg, &id))
            (void)unlink(path);
    }
    (void)closedir(dir);
}
