#include "access/denials.h"

#include "access/audit.h"
#include "access/auth.h"
#include "base/lock.h"
#include "base/mem.h"

#include <stdlib.h>

#define SLOTS    4096 /* keys times routes; beyond it nothing is written */
#define PAUSE_MS 60000

struct slot {
    const struct df_admin *admin;
    const struct df_route *route;
    int64_t noted_ms;
};

struct df_denials {
    struct df_store *store;
    const struct df_clock *clock;
    struct df_mutex lock;
    size_t count DF_GUARDED_BY(lock);
    struct slot *slots DF_GUARDED_BY(lock);
};

struct df_denials *df_denials_new(struct df_store *store, const struct df_clock *clock)
{
    struct df_denials *d = df_calloc(1, sizeof *d);

    d->store = store;
    d->clock = clock;
    df_mutex_init(&d->lock);
    return d;
}

void df_denials_free(struct df_denials *d)
{
    if (!d)
        return;
    df_mutex_destroy(&d->lock);
    free(d->slots);
    free(d);
}

/* Whether this one is written. Refusals are rare: a list is enough. */
static bool is_due(struct df_denials *d, const struct df_admin *admin, const struct df_route *route)
{
    int64_t now_ms = df_mono_ms(d->clock);
    size_t i = 0;
    bool due = false;

    df_lock(&d->lock);
    while (i < d->count && (d->slots[i].admin != admin || d->slots[i].route != route))
        i++;
    if (i == d->count && i < SLOTS) {
        d->slots = df_realloc(d->slots, (i + 1) * sizeof *d->slots);
        d->slots[d->count++] = (struct slot){admin, route, now_ms};
        due = true;
    } else if (i < d->count && now_ms - d->slots[i].noted_ms >= PAUSE_MS) {
        d->slots[i].noted_ms = now_ms;
        due = true;
    }
    df_unlock(&d->lock);
    return due;
}

struct denial {
    struct df_job job;
    struct df_arena arena;
    struct df_actor by;
    struct df_str target;
    struct df_str details;
    int64_t now_ms;
};

static enum df_code run_denial(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct denial *n = (const struct denial *)job;

    return df_audit_add(db,
                        &(struct df_audit_entry){.by = &n->by,
                                                 .action = "Denied",
                                                 .outcome = "denied",
                                                 .target = n->target,
                                                 .details = n->details,
                                                 .now_ms = n->now_ms},
                        err);
}

static void free_denial(struct denial *n)
{
    df_arena_release(&n->arena);
    free(n);
}

static void denial_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    if (code != DF_OK)
        df_log_warn("AuditFailed", "a refusal was not written to the audit log: %s", err->detail);
    free_denial((struct denial *)job);
}

void df_denials_note(struct df_denials *d, struct df_req *req, const char *needed)
{
    const struct df_route *route = df_req_route(req);
    struct df_actor by = df_actor_of(req);

    if (!is_due(d, df_auth_admin(req), route))
        return;
    struct denial *n = df_calloc(1, sizeof *n);
    df_arena_init(&n->arena);
    n->job = (struct df_job){.run = run_denial, .done = denial_done};
    n->by = (struct df_actor){.name = df_arena_str(&n->arena, by.name),
                              .ip = df_arena_str(&n->arena, by.ip),
                              .correlation_id = df_arena_str(&n->arena, by.correlation_id),
                              .role = by.role};
    n->target = df_arena_printf(&n->arena, "%s %s", route->method, route->pattern);
    n->details = df_arena_printf(&n->arena, "{\"needs\":\"%s\"}", needed);
    n->now_ms = df_wall_ms(d->clock);
    if (!df_store_write(d->store, &n->job))
        free_denial(n);
}
