#include "imports/api/views.h"

#include "access/services.h"
#include "base/mem.h"

#include <stdlib.h>

struct df_import_views {
    struct df_import_events *events;
    struct df_import_reports *reports;
    struct df_ack_waits *acks;
};

struct df_import_views *df_import_views_new(struct df_store *store, const char *temp_dir)
{
    struct df_import_views *v = df_calloc(1, sizeof *v);
    v->events = df_import_events_new(store);
    v->reports = df_import_reports_new(store, temp_dir);
    v->acks = df_ack_waits_new(store);
    return v;
}

void df_import_views_stop(struct df_import_views *v)
{
    if (!v)
        return;
    df_import_events_stop(v->events);
    df_import_reports_stop(v->reports);
    df_ack_waits_stop(v->acks);
}

void df_import_views_free(struct df_import_views *v)
{
    if (!v)
        return;
    df_import_events_free(v->events);
    df_import_reports_free(v->reports);
    df_ack_waits_free(v->acks);
    free(v);
}

struct df_import_events *df_import_events_of(const struct df_req *req)
{
    return df_services_of(req)->import_views->events;
}

struct df_import_reports *df_import_reports_of(const struct df_req *req)
{
    return df_services_of(req)->import_views->reports;
}

struct df_ack_waits *df_ack_waits_of(const struct df_req *req)
{
    return df_services_of(req)->import_views->acks;
}
