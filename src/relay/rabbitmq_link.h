/*
 * A connection to RabbitMQ with one channel in confirm mode: dialling, TLS, login, and frames in
 * and out that never wait past a deadline. What the frames mean is dispatch_rabbitmq.c's business.
 *
 * librabbitmq's own amqp_basic_publish blocks without limit when the broker stops reading, as a
 * broker short of memory or disk does. So a message goes out frame by frame, each only when the
 * socket has room for it. Used by one thread.
 */
#ifndef DF_RELAY_RABBITMQ_LINK_H
#define DF_RELAY_RABBITMQ_LINK_H

#include "base/err.h"
#include "relay/dispatcher.h"

#include <amqp.h>

#define DF_RABBIT_CHANNEL   1
#define DF_RABBIT_FRAME_MAX 32768 /* small compared with the socket's buffer */

struct df_rabbit_link {
    char *url; /* a copy that `info` points into; has the password */
    size_t url_len;
    struct amqp_connection_info info;
    char slash[2];   /* the vhost "/" */
    char place[320]; /* amqp://host:port, for people */
    const char *relay;
    const struct df_clock *clock;
    const struct df_sink_options *opt;

    amqp_connection_state_t conn; /* NULL: none */
    bool channel_open;
    int close_code;  /* why the broker closed it last; 0: it did not */
    uint64_t tag;    /* of the channel's last message */
    bool in_message; /* a message was begun and not ended: the connection is unusable */
    bool blocked;    /* the broker takes no messages now, for the reason below */
    char blocked_why[160];
    size_t room_bytes; /* that the socket takes without blocking */
    int64_t sent_ms;   /* monotonic: when something last went out */
    int wake_fd;       /* readable: df_rabbit_link_wait() with len 0 returns; -1: none */
};

/* DF_E_CONFIG says what is wrong with the URL, without repeating it. */
enum df_code df_rabbit_link_init(struct df_rabbit_link *l, const struct df_sink_options *opt,
                                 struct df_err *err) DF_MUST_CHECK;
void df_rabbit_link_release(struct df_rabbit_link *l);

/* Connects and opens the channel, if that is not done; else quick. Deadlines are monotonic
 * times. */
enum df_code df_rabbit_link_up(struct df_rabbit_link *l, int64_t deadline_ms,
                               struct df_err *err) DF_MUST_CHECK;
/* For a link with nothing under way: reads and ignores what has come in, and sends the heartbeat if
 * it is due. */
void df_rabbit_link_beat(struct df_rabbit_link *l);
/* Drops a connection that is no longer trusted, without telling the broker, and logs why. */
void df_rabbit_link_lost(struct df_rabbit_link *l, const char *why);

/* A frame on the channel other than its close: confirms and returned messages. */
typedef void df_rabbit_frame_fn(void *arg, const amqp_frame_t *f);

/*
 * Waits until a frame of len bytes can be sent without blocking (len > 0), or until something has
 * come in or wake_fd is readable (len 0). Frames that come in are handed to fn, and heartbeats go
 * out. DF_E_TIMEOUT: the deadline has passed. DF_E_NET: the connection is lost, or the broker
 * closed it or the channel: every message without a confirm is in doubt, and df_rabbit_link_up()
 * comes next.
 */
enum df_code df_rabbit_link_wait(struct df_rabbit_link *l, size_t len, int64_t deadline_ms,
                                 df_rabbit_frame_fn *fn, void *arg,
                                 struct df_err *err) DF_MUST_CHECK;

/* After df_rabbit_link_wait() with that len. DF_E_NET as there. */
enum df_code df_rabbit_link_send(struct df_rabbit_link *l, const amqp_frame_t *f, size_t len,
                                 struct df_err *err) DF_MUST_CHECK;
/* After a call of the library that asked the broker for something: DF_E_NET if it refused, and the
 * connection is given up. */
enum df_code df_rabbit_link_answered(struct df_rabbit_link *l, struct df_err *err) DF_MUST_CHECK;
/* Entries of a table of arguments; the texts are borrowed. */
amqp_table_entry_t df_rabbit_text(const char *name, const char *value);
amqp_table_entry_t df_rabbit_number(const char *name, int32_t value);
/* Holds small frames back to share packets; switch it off after the last frame. */
void df_rabbit_link_cork(struct df_rabbit_link *l, bool on);

#endif
