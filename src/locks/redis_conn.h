/*
 * One connection to a Redis server, used by one thread. hiredis writes commands and reads replies;
 * libcurl dials, as for all connections of the process (net/security.h): Debian's hiredis has no
 * TLS, and cannot be bound in time where a name is looked up.
 */
#ifndef DF_LOCKS_REDIS_CONN_H
#define DF_LOCKS_REDIS_CONN_H

#include "locks/locks.h"
#include "locks/redis_url.h"

struct redis_conn;
struct redisReply;

/* Connects and logs in. The error's text names the server, and has no secret in it. */
enum df_code redis_conn_open(const struct redis_url *url, int64_t timeout_ms,
                             struct redis_conn **ret, struct df_err *err) DF_MUST_CHECK;
/* NULL is fine. */
void redis_conn_close(struct redis_conn *c);

/* Sends a command and waits for its reply. An error of the server is an error, too. After an error
 * of the network (DF_E_NET…) the connection must be closed. The caller frees the reply by
 * freeReplyObject. */
enum df_code redis_conn_ask(struct redis_conn *c, const char *const *words, size_t count,
                            int64_t timeout_ms, struct redisReply **ret,
                            struct df_err *err) DF_MUST_CHECK;

/* What the server tells of itself. run_id is empty when it tells none. */
#define REDIS_RUN_ID_MAX 64
enum df_code redis_conn_info(struct redis_conn *c, int64_t timeout_ms, struct df_redis_facts *ret,
                             char run_id[REDIS_RUN_ID_MAX + 1], struct df_err *err) DF_MUST_CHECK;

#endif
