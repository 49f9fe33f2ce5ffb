/*
 * `serve --demo`: what a newcomer needs to try the product. An admin key (unless one is
 * configured), a client named "demo" and a sandbox that plays the outside world. Key and secret are
 * kept in data_dir, readable by the owner alone, so that copied commands still work after a
 * restart.
 */
#ifndef DF_APP_DEMO_H
#define DF_APP_DEMO_H

#include "app/server.h"

struct df_demo;

/*
 * For commands beside a running demo: what it has set for itself (the admin key, the sandbox as
 * gateway and OmniFlow) is set here too, where the configuration leaves it open. Without a demo in
 * data_dir nothing changes.
 */
void df_demo_adopt(struct df_settings *settings);
/* A server without --demo: what an earlier one left behind is no longer so. */
void df_demo_forget(const struct df_settings *settings);

/* Before the server starts: sets settings->admin.key if it is not set, and makes the sandbox the
 * gateway and OmniFlow if these are not configured and the sandbox's port is known. */
enum df_code df_demo_prepare(struct df_settings *settings, const char *sandbox_listen,
                             struct df_demo **ret, struct df_err *err) DF_MUST_CHECK;
/* Makes the client, starts the sandbox and prints commands to try. */
enum df_code df_demo_start(struct df_demo *d, struct df_server *server, const char *sandbox_listen,
                           struct df_err *err) DF_MUST_CHECK;
void df_demo_stop(struct df_demo *d);

#endif
