/* Who works on a batch: the process's instance (base/instance.h) in ProcessingHost. Others that
 * share its data directory know at once when it is gone, and claim its batches. */
#include "base/instance.h"
#include "imports/process/process.sql.h"
#include "imports/process/process_private.h"

#include <stdio.h>

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

    host = without_rules(host);
    const char *slash = host.len > 0 ? memrchr(host.ptr, '/', host.len) : NULL;
    if (!slash ||
        !df_uuid_parse(df_str_n(slash + 1, host.len - (size_t)(slash + 1 - host.ptr)), &instance))
        return false;
    return df_instance_is_gone(i->opt.instance, &instance);
}

struct instance {
    struct df_job job;
    const struct df_uuid *id;
    int64_t left;
};

static enum df_code run_instance(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct instance *in = (struct instance *)job;
    char pattern[DF_UUID_LEN + 4]; /* of ProcessingHost */
    (void)snprintf(pattern, sizeof(pattern), "%%/%s%%", in->id->text);
    return df_db_query_int(db,
                           DF_Q(housekeeping_instance, .pattern = df_text(df_str_c(pattern)),
                                .id = df_uuid(df_uuid_str(in->id))),
                           &in->left, err);
}

/* Whether it left a batch, or shards, to be claimed by those who see that it is gone. */
static bool is_instance_needed(void *arg, const struct df_uuid *id)
{
    const struct df_imports *i = arg;
    struct instance in = {.job = {.run = run_instance}, .id = id};
    struct df_err err = DF_ERR_INIT;
    return df_store_read_wait(i->opt.store, &in.job, &err) != DF_OK || in.left > 0;
}

void import_instances_sweep(struct df_imports *i)
{
    df_instance_sweep(i->opt.instance, is_instance_needed, i);
}
