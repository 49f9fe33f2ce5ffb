#include "imports/api/views.h"

#include "base/mem.h"

#include <stdlib.h>

struct df_import_views *df_import_views_new(struct df_imports *imports,
                                            struct df_receiver *receiver, const char *temp_dir)
{
    struct df_import_views *v = df_calloc(1, sizeof *v);
    struct df_store *store = df_imports_options_of(imports)->store;

    v->imports = imports;
    v->receiver = receiver;
    v->events = df_import_events_new(imports);
    v->reports = df_import_reports_new(store, df_imports_options_of(imports)->keys, temp_dir);
    v->acks = df_ack_waits_new(store, df_imports_options_of(imports)->clock);
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
