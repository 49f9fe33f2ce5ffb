/*
 * What the calls about batches work with, those that receive a file apart. Some take longer than an
 * answer: event streams of batches (events_api.c), error reports (report_api.c), and acks that wait
 * for a moment (ack_wait.h). Each of these has threads of its own, so that none holds up an HTTP
 * thread or a store thread.
 *
 * Limits: DF_STREAMS_MAX streams, DF_STREAMS_PER_CLIENT of a client; a queue of reports, a few of a
 * client. Beyond them: 503 for all, 429 for the client.
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

/* Starts the threads. temp_dir is copied; imports and receiver outlive them. */
struct df_import_views *df_import_views_new(struct df_imports *imports,
                                            struct df_receiver *receiver, const char *temp_dir);
/* Closes the streams; what is queued of reports is answered 503. Before the store is closed. */
void df_import_views_stop(struct df_import_views *v);
/* After the HTTP server has stopped. NULL is fine. */
void df_import_views_free(struct df_import_views *v);

/* --- private to imports/api --- */

struct df_import_views {
    struct df_imports *imports;
    struct df_receiver *receiver;
    struct df_import_events *events;
    struct df_import_reports *reports;
    struct df_ack_waits *acks;
};

struct df_import_events *df_import_events_new(struct df_store *store, const struct df_clock *clock);
void df_import_events_stop(struct df_import_events *e);
void df_import_events_free(struct df_import_events *e);

struct df_import_reports *df_import_reports_new(struct df_store *store, const char *temp_dir);
void df_import_reports_stop(struct df_import_reports *r);
void df_import_reports_free(struct df_import_reports *r);

extern const struct df_handler df_import_events_handler;
extern const struct df_handler df_import_xlsx_handler;
extern const struct df_handler df_import_csv_handler;
extern const struct df_handler df_import_json_handler;

#endif
