/*
 * One libcurl easy handle with its state for a call: the header list, the answer, the notes of its
 * callbacks. Handles are created once and reused; options that never change are set once.
 *
 * Belongs to one of the client's threads, but for df_transfer_check.
 */
#ifndef DF_NET_TRANSFER_H
#define DF_NET_TRANSFER_H

#include "net/client.h"
#include "net/sockets.h"
#include "net/url.h"

#include <curl/curl.h>

struct df_transfer;

/* Borrowed by every transfer for as long as it lives. */
struct df_transfer_options {
    long connect_timeout_ms;
    const char *ca_file;
    const char *user_agent;
    bool http2;
    const struct df_clock *clock;
    struct df_sockets *sockets;
};

/* Returns NULL when libcurl gives no handle. */
struct df_transfer *df_transfer_new(const struct df_transfer_options *opt);
void df_transfer_free(struct df_transfer *t);

CURL *df_transfer_easy(struct df_transfer *t);
/* NULL when idle. */
struct df_call *df_transfer_call(struct df_transfer *t);
/* CURLOPT_PRIVATE of a transfer's handle. */
struct df_transfer *df_transfer_of(CURL *easy);

/* Checks the call's URL, method and headers. Any thread. */
enum df_code df_transfer_check(const struct df_call *call, struct df_url *ret_url,
                               struct df_err *err) DF_MUST_CHECK;

/* Readies the handle for a call that passed the check. */
enum df_code df_transfer_begin(struct df_transfer *t, struct df_call *call, int64_t timeout_ms,
                               struct df_err *err) DF_MUST_CHECK;

/* Fills the call's answer, which the transfer owns until df_transfer_recycle. */
void df_transfer_end(struct df_transfer *t, CURLcode result, const char *destination);
void df_transfer_recycle(struct df_transfer *t);

/* Retry-After, seconds or a date: at most a day, -1 when it is neither. */
int64_t df_retry_after_ms(struct df_str value, int64_t now_ms);

#endif
