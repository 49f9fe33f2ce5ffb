/* Others: the bucket, Redis, relays and their brokers, and every destination that is called. */
#include "app/doctor.h"
#include "app/queue.h"
#include "base/clock.h"
#include "files/storage.h"
#include "locks/locks.h"
#include "net/probe.h"
#include "net/url.h"
#include "relay/probe.h"
#include "relay/relay.h"
#include "ship/target.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CLOCK_MS 2000                        /* Redis tells whole seconds */
#define PROBE_MS (DF_DOCTOR_LIMIT_MS - 1500) /* so that the check itself tells what failed */

/* What failed, after the name of what was tried, which some reasons begin with. */
static void say_away(struct df_check *c, const char *what, const char *advice, const char *name,
                     const struct df_err *err)
{
    const char *why = err->detail;
    size_t len = strlen(name);

    if (strncmp(why, name, len) == 0 && strncmp(why + len, ": ", 2) == 0)
        why += len + 2;
    df_check_say(c, DF_HEALTH_PROBLEM, what, advice, "%s: %s", name, why);
}

/* --- the bucket --- */

size_t df_count_storages(const struct df_settings *s)
{
    return s->storage.where == DF_STORAGE_S3 || s->storage.bucket ||
                   df_storage_is_outside(s->storage.scheduled)
               ? 1
               : 0;
}

static enum df_code write_note(struct df_storage *st, const struct df_uuid *batch,
                               struct df_str name, struct df_err *err)
{
    static const char text[] = "dataflow doctor was here\n";
    char checksum[DF_CHECKSUM_LEN + 1];
    uint64_t size;
    struct df_storage_writer *w = NULL;
    enum df_code code = df_storage_create(st, batch, sizeof text - 1, &w, err);
    if (code != DF_OK)
        return code;
    code = df_storage_write(w, text, sizeof text - 1, err);
    if (code == DF_OK)
        return df_storage_finish(w, name, checksum, &size, err);
    df_storage_abort(w);
    return code;
}

/* A small file there and back, as an upload or as one that waits for its time. */
static enum df_code send_and_fetch(struct df_storage *st, const struct df_uuid *batch,
                                   char *location, struct df_err *err)
{
    struct df_str name = DF_STR("doctor.txt");
    enum df_code code = write_note(st, batch, name, err);
    if (code == DF_OK && df_storage_is_remote(st))
        df_storage_location(st, batch, location);
    else if (code == DF_OK)
        code = df_storage_put_scheduled(st, batch, name, location, err);
    if (code == DF_OK)
        code = df_storage_drop_local(st, batch, location, err);
    if (code == DF_OK)
        code = df_storage_fetch(st, batch, name, location, NULL, err);
    return code;
}

static void ignore_entry(void *arg, const struct df_storage_found *f)
{
    (void)arg;
    (void)f;
}

/* A page of each listing that the sweep needs. */
static enum df_code list_bucket(struct df_storage *st, struct df_err *err)
{
    struct df_storage_cursor at = {.stage = DF_STORAGE_OBJECTS};
    enum df_code code = df_storage_list(st, &at, ignore_entry, NULL, err);

    at = (struct df_storage_cursor){.stage = DF_STORAGE_UPLOADS};
    return code == DF_OK ? df_storage_list(st, &at, ignore_entry, NULL, err) : code;
}

void df_check_storage(struct df_check *c)
{
    const struct df_settings *s = df_check_settings(c);
    const struct df_storage_options opt = {
        .data_dir = s->data_dir, .settings = s->storage, .s3_retry_base_ms = 200};
    char location[DF_STORAGE_LOCATION_MAX + 1] = "";
    const char *what = s->storage.where == DF_STORAGE_S3 ? "imports.storage"
                       : s->storage.bucket               ? "imports.bucket"
                                                         : "imports.scheduled_storage";
    const char *advice = "check [s3] endpoint, region and keys, and that they may put, get and "
                         "delete objects of the bucket";
    struct df_uuid batch = df_uuid_v4(df_clock_real());
    struct df_storage *st = NULL;
    struct df_err err = DF_ERR_INIT, ignored = DF_ERR_INIT;
    enum df_code code = df_storage_new(&opt, &st, &err);
    if (code == DF_OK)
        code = send_and_fetch(st, &batch, location, &err);
    if (st) {
        enum df_code removed = df_storage_remove(st, &batch, *location ? location : NULL,
                                                 code == DF_OK ? &err : &ignored);
        code = code == DF_OK ? removed : code;
    }
    if (code == DF_OK && df_storage_is_swept(st)) {
        code = list_bucket(st, &err);
        advice = "files can be put, fetched and removed, but what a crash leaves behind is not "
                 "found: allow the key s3:ListBucket and s3:ListBucketMultipartUploads";
    }
    if (code == DF_OK)
        df_check_say(c, DF_HEALTH_OK, what, NULL, "a file was put, fetched and removed%s",
                     df_storage_is_swept(st) ? ", and the bucket listed" : "");
    else
        df_check_say(c, DF_HEALTH_PROBLEM, what, advice, "%s", err.detail);
    df_storage_free(st);
}

/* --- Redis --- */

size_t df_count_redis(const struct df_settings *s)
{
    return df_locks_servers(&s->locks);
}

void df_check_redis(struct df_check *c)
{
    static const char what[] = "redis.urls";
    struct df_redis_facts f;
    struct df_err err = DF_ERR_INIT;

    if (df_redis_probe(&df_check_settings(c)->locks, df_check_index(c), PROBE_MS / 4, &f, &err) !=
        DF_OK) {
        df_check_say(c, DF_HEALTH_PROBLEM, what,
                     "is the server running, and are address, user and password right?", "%s",
                     err.detail);
        return;
    }
    int64_t apart_ms = f.clock_ms - df_wall_ms(df_clock_real());
    if (f.evicts)
        df_check_say(c, DF_HEALTH_PROBLEM, what, "CONFIG SET maxmemory-policy noeviction",
                     "%s drops keys when its memory is full: maxmemory-policy is %s", f.address,
                     f.policy);
    else if (f.is_replica)
        df_check_say(c, DF_HEALTH_PROBLEM, what, "name servers that are independent of each other",
                     "%s is a replica", f.address);
    else if (apart_ms > CLOCK_MS || apart_ms < -CLOCK_MS)
        df_check_say(c, DF_HEALTH_WARNING, what, "set both clocks by NTP",
                     "%s: its clock is %" PRId64 " s from ours", f.address, apart_ms / 1000);
    else
        df_check_say(c, DF_HEALTH_OK, what, NULL, "%s is Redis %s, with noeviction", f.address,
                     f.version);
}

/* --- relays --- */

size_t df_count_relays(const struct df_settings *s)
{
    return s->relay_count;
}

static const struct df_relay_settings *relay_of(const struct df_check *c)
{
    return &df_check_settings(c)->relays[df_check_index(c)];
}

void df_check_relay_source(struct df_check *c)
{
    const struct df_relay_settings *relay = relay_of(c);
    struct df_relay_status st;
    struct df_err err = DF_ERR_INIT;
    struct df_buf complaints;
    char what[96];
    (void)snprintf(what, sizeof what, "relay.%s.url", relay->name);
    df_buf_init(&complaints, 64 << 10);
    if (df_relay_look(relay, &st, &complaints, &err) == DF_OK)
        df_check_say(c, DF_HEALTH_OK, what, NULL, "the table %s is right, %" PRId64 " events wait",
                     st.table, st.waiting);
    else
        df_check_say(c, DF_HEALTH_PROBLEM, what, "`dataflow relay status` says more", "%s",
                     complaints.len > 0 ? df_buf_str(&complaints).ptr : err.detail);
    df_buf_release(&complaints);
}

void df_check_relay_broker(struct df_check *c)
{
    const struct df_relay_settings *relay = relay_of(c);
    struct df_err err = DF_ERR_INIT;
    char what[96], target[256];
    if (!df_relay_has_broker(relay))
        return;
    (void)snprintf(what, sizeof what, "relay.%s.target", relay->name);
    df_relay_target_masked(relay, target, sizeof target);
    if (df_relay_probe(relay, PROBE_MS, &err) == DF_OK)
        df_check_say(c, DF_HEALTH_OK, what, NULL, "%s takes connections", target);
    else
        say_away(c, what, "is the broker running, and are address, user and password right?",
                 target, &err);
}

/* --- the queue of batches --- */

size_t df_count_queues(const struct df_settings *s)
{
    return s->imports.queue != DF_QUEUE_POLL;
}

void df_check_queue(struct df_check *c)
{
    struct df_relay_settings queue;
    struct df_err err = DF_ERR_INIT;
    char target[256];
    if (!df_queue_relay(df_check_settings(c), &queue))
        return;
    df_relay_target_masked(&queue, target, sizeof target);
    if (df_relay_probe(&queue, PROBE_MS, &err) == DF_OK)
        df_check_say(c, DF_HEALTH_OK, "imports.queue_url", NULL, "%s takes connections", target);
    else
        say_away(c, "imports.queue_url",
                 "is the broker running, and are address, user and password right? Until it is "
                 "back, workers look for batches every imports.poll_ms",
                 target, &err);
}

/* --- destinations --- */

struct destination {
    char what[96];
    const char *url;
};

static void set_destination(struct destination *ret, const char *url, const char *fmt,
                            const char *name)
{
    ret->url = url;
    (void)snprintf(ret->what, sizeof ret->what, "%s%s", fmt, name);
}

static bool is_http_relay(const struct df_relay_settings *r)
{
    return df_dispatchers[r->dispatcher] == &df_dispatch_http;
}

/* The i-th destination; returns how many there are up to it, so that SIZE_MAX counts all. */
static size_t find_destination(const struct df_settings *s, size_t wanted, struct destination *ret)
{
    const struct {
        const char *name, *url;
    } fixed[] = {
        {"gateway.functional_ack_url", s->interface.functional_ack_url},
        {"gateway.ticket_return_url", s->interface.ticket_return_url},
        {"gateway.ticket_send_url", s->interface.ticket_send_url},
        {"omniflow.url", s->imports.url},
        {"alerts.pagerduty_url", s->alerts.pagerduty_routing_key ? s->alerts.pagerduty_url : NULL},
        {"alerts.teams_url", s->alerts.teams_url ? df_secret_str(s->alerts.teams_url).ptr : NULL},
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (fixed[i].url && n++ == wanted)
            set_destination(ret, fixed[i].url, fixed[i].name, "");
    for (size_t i = 0; i < s->integration_count; i++)
        if (n++ == wanted)
            set_destination(ret, s->integrations[i].base_url, "integration.",
                            s->integrations[i].name);
    for (size_t i = 0; i < s->relay_count; i++)
        if (is_http_relay(&s->relays[i]) && n++ == wanted)
            set_destination(ret, s->relays[i].target, "relay.", s->relays[i].name);
    return n;
}

size_t df_count_destinations(const struct df_settings *s)
{
    struct destination none;
    return find_destination(s, SIZE_MAX, &none);
}

void df_check_destination(struct df_check *c)
{
    struct destination d = {.url = NULL};
    struct df_err err = DF_ERR_INIT;
    char name[DF_DESTINATION_SIZE];
    int64_t took_ms = 0;
    (void)find_destination(df_check_settings(c), df_check_index(c), &d);
    if (!d.url)
        return;
    (void)df_destination_of(d.url, name);
    if (df_net_probe(d.url, PROBE_MS, &took_ms, &err) == DF_OK)
        df_check_say(c, DF_HEALTH_OK, d.what, NULL, "%s takes connections, in %" PRId64 " ms", name,
                     took_ms);
    else
        say_away(c, d.what,
                 "check the URL, the name's address, firewalls and, for https, the peer's "
                 "certificate",
                 name, &err);
}

/* --- where the log is sent --- */

size_t df_count_ship(const struct df_settings *s)
{
    return s->ship.url ? 1 : 0;
}

void df_check_ship(struct df_check *c)
{
    struct df_ship_target *t = NULL;
    struct df_err err = DF_ERR_INIT;
    char name[DF_DESTINATION_SIZE];
    int64_t took_ms = 0;

    if (df_ship_target_new(&df_check_settings(c)->ship, &t, &err) != DF_OK)
        return; /* the check of the configuration has said it */
    (void)df_destination_of(t->url, name);
    if (df_net_probe(t->url, PROBE_MS, &took_ms, &err) == DF_OK)
        df_check_say(c, DF_HEALTH_OK, "log.ship", NULL, "%s takes connections, in %" PRId64 " ms",
                     name, took_ms);
    else
        say_away(c, "log.ship",
                 "check the URL, the name's address, firewalls and, with lokis, elastics or "
                 "otlps, the peer's certificate; lines wait in the spool meanwhile",
                 name, &err);
    df_ship_target_free(t);
}
