/*
 * The argument of all import routes except POST /imports. Three of them take longer than other
 * calls: event streams of batches (events_api.c), error reports (report_api.c), and acks that wait
 * for a moment (ack_wait.h). Each has threads of its own, so that none holds up an HTTP thread or a
 * store thread.
 *
 * Limits: DF_STREAMS_MAX streams and DF_STREAMS_PER_CLIENT for a client; DF_REPORTS_WAITING reports
 * in the queue and DF_REPORTS_PER_CLIENT for a client. Over the first the answer is 503, over the
 * second 429.
 */
#ifndef DF_IMPORTS_VIEWS_H
#define DF_IMPORTS_VIEWS_H

#include "access/handler.h"
#include "imports/ack_wait.h"
#include "imports/imports.h"

#define DF_STREAMS_MAX        1000
#define DF_STREAMS_PER_CLIENT 100
#define DF_REPORTS_WAITING    32
#define DF_REPORTS_PER_CLIENT 4
#define DF_REPORT_THREADS     2

struct df_import_views;
struct df_import_events;
struct df_import_reports;
struct df_receiver;

/* Starts the threads. temp_dir is copied; imports and receiver must outlive the views. */
struct df_import_views *df_import_views_new(struct df_imports *imports,
                                            struct df_receiver *receiver, const char *temp_dir);
/* Closes the streams and answers queued reports with 503. Call it before the store is closed. */
void df_import_views_stop(struct df_import_views *v);
/* Call it after the HTTP server has stopped. v may be NULL. */
void df_import_views_free(struct df_import_views *v);

/* --- private to imports/api --- */

struct df_import_views {
    struct df_imports *imports;
    struct df_receiver *receiver;
    struct df_import_events *events;
    struct df_import_reports *reports;
    struct df_ack_waits *acks;
};

struct df_import_events *df_import_events_new(struct df_imports *imports);
void df_import_events_stop(struct df_import_events *e);
void df_import_events_free(struct df_import_events *e);

struct df_import_reports *df_import_reports_new(struct df_store *store, struct df_keys *keys,
                                                const char *temp_dir);
void df_import_reports_stop(struct df_import_reports *r);
void df_import_reports_free(struct df_import_reports *r);

extern const struct df_handler df_import_events_handler;
extern const struct df_handler df_import_xlsx_handler;
extern const struct df_handler df_import_csv_handler;
extern const struct df_handler df_import_json_handler;

#endif
