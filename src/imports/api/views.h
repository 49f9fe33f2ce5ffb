/*
 * What clients look at for longer than an answer takes: event streams of batches (events_api.c) and
 * error reports (report_api.c); and acks that wait for a moment (ack_wait.h). Each has threads of
 * its own, so that none holds up an HTTP thread or a store thread.
 *
 * Limits: DF_STREAMS_MAX streams, DF_STREAMS_PER_CLIENT of a client; a queue of reports, a few of a
 * client. Beyond them: 503 for all, 429 for the client.
 */
#ifndef DF_IMPORTS_VIEWS_H
#define DF_IMPORTS_VIEWS_H

#include "imports/ack_wait.h"
#include "net/http.h"
#include "store/store.h"

#define DF_STREAMS_MAX        1000
#define DF_STREAMS_PER_CLIENT 100
#define DF_REPORTS_WAITING    32
#define DF_REPORTS_PER_CLIENT 4
#define DF_REPORT_THREADS     2

struct df_import_views;
struct df_import_events;
struct df_import_reports;

/* Starts the threads. temp_dir is copied; the store outlives them. */
struct df_import_views *df_import_views_new(struct df_store *store, const char *temp_dir);
/* Closes the streams; what is queued of reports is answered 503. Before the store is closed. */
void df_import_views_stop(struct df_import_views *v);
/* After the HTTP server has stopped. NULL is fine. */
void df_import_views_free(struct df_import_views *v);

/* --- private to imports/ --- */

struct df_import_events *df_import_events_new(struct df_store *store);
void df_import_events_stop(struct df_import_events *e);
void df_import_events_free(struct df_import_events *e);

struct df_import_reports *df_import_reports_new(struct df_store *store, const char *temp_dir);
void df_import_reports_stop(struct df_import_reports *r);
void df_import_reports_free(struct df_import_reports *r);

struct df_import_events *df_import_events_of(const struct df_req *req);
struct df_import_reports *df_import_reports_of(const struct df_req *req);
struct df_ack_waits *df_ack_waits_of(const struct df_req *req);

/* Handlers. */
void df_import_handle_events(struct df_req *req);
void df_import_handle_xlsx(struct df_req *req);
void df_import_handle_csv(struct df_req *req);
void df_import_handle_json(struct df_req *req);

#endif
