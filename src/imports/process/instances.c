/*
 * Which processes are alive. Each holds a lock on a file of its own in data_dir/instances, and the
 * kernel releases it however the process ends. So processes that share the directory know at once
 * that one is gone, and claim its batches.
 */
#include "imports/process/process.sql.h"
#include "imports/process/process_private.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_MAX_BYTES 4096
#define INSTANCE_AGE_S 60

static void instance_path(const struct df_imports *i, struct df_str instance, char *out)
{
    (void)snprintf(out, PATH_MAX_BYTES, "%s/instances/" DF_STR_FMT, i->opt.data_dir,
                   DF_STR_ARG(instance));
}

/* Without the file, only the lock's timeout tells others that this process has died. */
void import_instance_hold(struct df_imports *i)
{
    char path[PATH_MAX_BYTES];
    char name[128] = "";
    struct df_err err = DF_ERR_INIT;

    (void)gethostname(name, sizeof(name) - 1);
    i->instance = df_uuid_v4(i->opt.clock);
    (void)snprintf(i->host, sizeof(i->host), "%s/%s", name, i->instance.text);
    (void)snprintf(path, sizeof(path), "%s/instances", i->opt.data_dir);
    (void)mkdir(path, 0700);
    instance_path(i, df_uuid_str(&i->instance), path);
    i->instance_fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (i->instance_fd >= 0 && flock(i->instance_fd, LOCK_EX | LOCK_NB) == 0)
        return;
    (void)df_err_errno(&err, "%s", path);
    df_log_warn("InstanceUnmarked", "%s", err.detail);
}

void import_instance_drop(struct df_imports *i)
{
    char path[PATH_MAX_BYTES];

    if (i->instance_fd < 0)
        return;
    instance_path(i, df_uuid_str(&i->instance), path);
    (void)unlink(path);
    (void)close(i->instance_fd);
    i->instance_fd = -1;
}

void import_host_name(const struct df_imports *i, int64_t rules, char out[IMPORT_HOST_MAX + 1])
{
    if (rules > IMPORT_RULES_EACH)
        (void)snprintf(out, IMPORT_HOST_MAX + 1, "%.180s/%lld", i->host, (long long)rules);
    else
        (void)snprintf(out, IMPORT_HOST_MAX + 1, "%s", i->host);
}

/* "host/instance" of a ProcessingHost, which may end with "/rules". */
static struct df_str without_rules(struct df_str host)
{
    size_t digits = 0;

    while (digits < host.len && digits < 4 && host.ptr[host.len - 1 - digits] >= '0' &&
           host.ptr[host.len - 1 - digits] <= '9')
        digits++;
    if (digits > 0 && digits < host.len && host.ptr[host.len - 1 - digits] == '/')
        host.len -= digits + 1;
    return host;
}

bool import_host_is_this(const struct df_imports *i, struct df_str host)
{
    return df_str_eq(without_rules(host), df_str_c(i->host));
}

bool import_instance_is_gone(const struct df_imports *i, struct df_str host)
{
    struct df_uuid instance;
    char path[PATH_MAX_BYTES];

    host = without_rules(host);
    const char *slash = host.len > 0 ? memrchr(host.ptr, '/', host.len) : NULL;
    if (!slash ||
        !df_uuid_parse(df_str_n(slash + 1, host.len - (size_t)(slash + 1 - host.ptr)), &instance))
        return false;
    instance_path(i, df_uuid_str(&instance), path);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool gone = flock(fd, LOCK_EX | LOCK_NB) == 0;
    (void)close(fd);
    return gone;
}

struct instance {
    struct df_job job;
    char pattern[DF_UUID_LEN + 4]; /* of ProcessingHost */
    int64_t batches;
};

static enum df_code run_instance(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct instance *in = (struct instance *)job;
    return df_db_query_int(db,
                           DF_Q(housekeeping_instance, .pattern = df_text(df_str_c(in->pattern))),
                           &in->batches, err);
}

/* Removes the file of a process that is gone, when no batch of it is left to claim. A young file is
 * left alone: its process may not have locked it yet. */
static void sweep_instance(struct df_imports *i, const char *name)
{
    struct instance in = {.job = {.run = run_instance}};
    struct df_err err = DF_ERR_INIT;
    struct df_uuid id;
    struct stat st;
    char path[PATH_MAX_BYTES];
    char host[DF_UUID_LEN + 2];

    if (!df_uuid_parse(df_str_c(name), &id))
        return;
    instance_path(i, df_uuid_str(&id), path);
    (void)snprintf(host, sizeof(host), "/%s", id.text);
    (void)snprintf(in.pattern, sizeof(in.pattern), "%%/%s%%", id.text);
    if (stat(path, &st) == 0 && time(NULL) - st.st_mtime > INSTANCE_AGE_S &&
        import_instance_is_gone(i, df_str_c(host)) &&
        df_store_read_wait(i->opt.store, &in.job, &err) == DF_OK && in.batches == 0)
        (void)unlink(path);
}

void import_instances_sweep(struct df_imports *i)
{
    char path[PATH_MAX_BYTES];

    instance_path(i, DF_STR(""), path);
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (const struct dirent *e; (e = readdir(dir));) /* NOLINT(concurrency-mt-unsafe) */
        sweep_instance(i, e->d_name);
    (void)closedir(dir);
}
