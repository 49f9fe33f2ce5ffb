/*
 * What the files of the sandbox share.
 *
 *   sandbox.c   start, stop, routes, the path of a request
 *   control.c   /_stats, /_received, /_config
 *   config.c    settings that can be changed while it runs
 *   omniflow.c  gateway.c  webhooks.c  payments.c: the peers that are played
 *   faults.c    which calls are to fail
 *   errand.c    acks and callbacks sent back
 *   journal.c   the requests that came
 *   keyset.c    the keys that were seen
 *
 * A request to a peer's path takes these steps. Faults are asked. Unless one ends the call, the
 * peer makes its reply. The request is counted and kept. The reply goes out, at once or after the
 * fault's delay; an errand that the request caused is due after that. So a delayed call has been
 * processed: to a caller that gives up first, the answer was lost.
 */
#ifndef DF_SANDBOX_INTERNAL_H
#define DF_SANDBOX_INTERNAL_H

#include "base/buf.h"
#include "base/lock.h"
#include "base/secret.h"
#include "base/timer.h"
#include "delivery/verify.h"
#include "net/client.h"
#include "net/http.h"
#include "net/input.h"
#include "sandbox/faults.h"
#include "sandbox/journal.h"
#include "sandbox/keyset.h"
#include "sandbox/sandbox.h"

#include <stdatomic.h>

#define DF_SB_JSON "application/json"

/* --- config.c --- */

/* Where acks and callbacks go. Immutable and counted, since an errand keeps the one that it began
 * with. */
struct df_sb_server {
    _Atomic unsigned refs;
    char *url; /* without a slash at the end */
    char *client_id;
    struct df_secret *client_secret;
};

enum df_sb_item_results { DF_SB_ITEMS_ALL, DF_SB_ITEMS_ERRORS, DF_SB_ITEMS_NONE };

#define DF_SB_SECRETS_MAX 1000
#define DF_SB_SECRET_LEN  256

struct df_sb_path_secret {
    char *path;
    struct df_secret *secret;
};

/* A copy of the configuration, as a request needs it. */
struct df_sb_settings {
    bool async;
    int64_t ack_delay_ms;
    int64_t callback_delay_ms;
    enum df_sb_item_results item_results;
    char error_phone_suffix[32];
    char callback_status[8];     /* Success, Error, Warning */
    int64_t webhook_tolerance_s; /* 0: any timestamp */
};

struct df_sb_config {
    struct df_mutex lock;
    struct df_sb_settings settings DF_GUARDED_BY(lock);
    struct df_sb_server *server DF_GUARDED_BY(lock); /* NULL: none */
    struct df_secret *webhook_secret DF_GUARDED_BY(lock);
    struct df_sb_path_secret *secrets DF_GUARDED_BY(lock);
    size_t secret_count DF_GUARDED_BY(lock);
};

enum df_code df_sb_config_init(struct df_sb_config *c, const struct df_sandbox_options *opt,
                               struct df_err *err) DF_MUST_CHECK;
void df_sb_config_release(struct df_sb_config *c);
struct df_sb_settings df_sb_config_settings(struct df_sb_config *c);
/* A reference, or NULL. */
struct df_sb_server *df_sb_config_server(struct df_sb_config *c);
void df_sb_server_unref(struct df_sb_server *s);
/* Copies the secret for a path into `out`, which the caller wipes. Returns its length; 0: none is
 * known. */
size_t df_sb_config_secret(struct df_sb_config *c, struct df_str path, char out[DF_SB_SECRET_LEN]);
void df_sb_config_get(struct df_req *req);
void df_sb_config_put(struct df_req *req);

/* --- errand.c --- */

enum df_sb_errand_kind { DF_SB_ACK, DF_SB_CALLBACK, DF_SB_ERRAND_KINDS };

struct df_sb_errand_counts {
    _Atomic uint64_t sent;
    _Atomic uint64_t failed;  /* after the last attempt */
    _Atomic uint64_t dropped; /* lost by a fault, or because too many were waiting */
    _Atomic int64_t pending;
};

struct df_sb_errand;

/*
 * Makes a POST to {server}{path} with the body, which it takes. NULL: there is no server to send it
 * to, or too much is waiting.
 */
struct df_sb_errand *df_sb_errand_new(struct df_sandbox *s, enum df_sb_errand_kind kind,
                                      const char *path, struct df_str correlation_id,
                                      struct df_buf *take_body, int64_t delay_ms);
/* Schedules the errand `wait_ms` plus its own delay from now. Takes the errand; NULL is allowed. */
void df_sb_errand_schedule(struct df_sb_errand *take_errand, int64_t wait_ms);
/* Drops the errand, as a fault demands. NULL is allowed. */
void df_sb_errand_drop(struct df_sb_errand *take_errand);

/* --- the sandbox --- */

struct df_sandbox {
    const struct df_clock *clock;
    struct df_http_server *http;
    struct df_http_client *client;
    struct df_timer *timer;
    struct df_sb_journal *journal;
    struct df_sb_faults faults;
    struct df_sb_config config;
    struct df_sb_errand_counts errands[DF_SB_ERRAND_KINDS];
    _Atomic size_t errand_bytes;
};

/* A peer's answer. */
struct df_sb_reply {
    unsigned status;
    struct df_str fixed; /* a body that outlives the sandbox; absent: `body` */
    struct df_buf body;
    enum df_sb_verified verified;
    bool replays; /* a header tells that the key is a repeat */
    struct df_sb_errand *errand;
};

/*
 * A peer either fills the reply, or answers the request itself (with a problem) and sets the
 * reply's status to what it answered.
 */
typedef void df_sb_peer(struct df_sandbox *s, struct df_req *req, struct df_sb_reply *reply);

df_sb_peer df_sb_omniflow, df_sb_gateway, df_sb_webhook, df_sb_payment;

/* --- control.c --- */

void df_sb_stats_get(struct df_req *req);
void df_sb_stats_delete(struct df_req *req);
void df_sb_received_get(struct df_req *req);
void df_sb_reset(struct df_req *req);
/* Adds an error for every member that is none of these. */
void df_sb_input_known(struct df_input *in, const char *const *known, size_t count);

/* webhooks.c and its tests: why the request does not verify, or NULL. */
const char *df_sb_verify(struct df_str secret, const struct df_signed *m, int64_t now_s,
                         int64_t tolerance_s);

#endif
