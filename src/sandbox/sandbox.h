/*
 * The sandbox: the outside world on one port. It plays OmniFlow, the gateway, a receiver of
 * webhooks and a payment gateway; it fails when told to, counts requests and shows them. It serves
 * for trying the product, for users' own tests, and as the destination of benchmarks.
 * docs/sandbox.md describes its calls.
 *
 * Its control calls (/_faults, /_config, …) need no credentials: keep it on loopback.
 *
 * Memory is bounded: requests are kept up to `keep` for each path and 64 MiB in all, a thousand
 * paths and twenty million keys are told apart.
 */
#ifndef DF_SANDBOX_SANDBOX_H
#define DF_SANDBOX_SANDBOX_H

#include "base/clock.h"
#include "base/err.h"

struct df_sandbox;

/* A zeroed struct is valid; everything is copied. */
struct df_sandbox_options {
    const char *listen;     /* NULL: 127.0.0.1:8090; port 0 picks one */
    int64_t threads;        /* 0: the number of processors, at most 8 */
    size_t max_body_bytes;  /* 0: 16 MiB */
    const char *server_url; /* where acks and callbacks go, "http://127.0.0.1:8080"; NULL: none */
    const char *client_id;  /* X-Client-Id and X-Client-Secret of acks and callbacks */
    const char *client_secret;
    const char *ca_file;          /* trusted beside the system's, for an https server_url */
    const char *mode;             /* OmniFlow answers "sync" (NULL too) or "async" */
    int64_t ack_delay_ms;         /* from the answer to its ack */
    int64_t callback_delay_ms;    /* from a ticket's answer to its callback */
    const char *webhook_secret;   /* for paths under /webhooks; NULL: signatures are not checked */
    size_t keep;                  /* requests kept for each path; 0: 1000 */
    bool no_record;               /* count, but keep nothing */
    const struct df_clock *clock; /* NULL: the real one */
};

enum df_code df_sandbox_start(const struct df_sandbox_options *opt, struct df_sandbox **ret,
                              struct df_err *err) DF_MUST_CHECK;
/* "127.0.0.1:8090" as bound; borrowed. */
const char *df_sandbox_address(const struct df_sandbox *s);

/* Answers the requests that it holds back, forgets acks and callbacks that wait, and stops. NULL is
 * allowed. */
void df_sandbox_stop(struct df_sandbox *s);

#endif
