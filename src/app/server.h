/*
 * The server put together: store, authentication, routes, HTTP, housekeeping. `serve` starts it,
 * and so does dataflow-bench, which adds routes of its own.
 */
#ifndef DF_APP_SERVER_H
#define DF_APP_SERVER_H

#include "access/access.h"
#include "app/settings.h"

struct df_server;

struct df_server_options {
    const struct df_settings *settings;
    const struct df_route *extra_routes; /* may be NULL */
    struct df_buf *take_warnings;        /* of the settings, a line each; NULL: none. They are
                                            logged as soon as the log is shipped. */
};

/*
 * Opens the database, applies the schema scripts if asked to, and listens. Makes data_dir.
 * Call df_signals_block() before anything that starts threads.
 */
enum df_code df_server_start(const struct df_server_options *opt, struct df_server **ret,
                             struct df_err *err) DF_MUST_CHECK;
const char *df_server_address(const struct df_server *s);
const struct df_access *df_server_access(const struct df_server *s);

/* Reads certificates and authorities again, soon. Any thread. */
void df_server_reload(struct df_server *s);

/* Drains (stops accepting, finishes what is in hand within drain_seconds) and frees. NULL is
 * fine. */
void df_server_stop(struct df_server *s);

/*
 * The whole of `serve`: starts, waits for a signal, drains. cmd is named in messages. demo_sandbox:
 * the sandbox's address for a demo; NULL: no demo. take_warnings as in df_server_options. Returns
 * the exit status.
 */
struct df_command;
int df_serve(const struct df_command *cmd, struct df_settings *take_settings,
             struct df_buf *take_warnings, const struct df_route *extra_routes,
             const char *demo_sandbox);

/* Writes "METHOD /path" lines, for the test of the documentation. */
void df_server_print_routes(struct df_buf *out);

#endif
