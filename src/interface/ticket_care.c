/*
 * What the loop takes up after a process that did not end as it should. What that process left as
 * Processing is reset. One of its tickets may have been the cause of its end. So the first tickets
 * of its shards are taken with care: at most CAREFUL_MAX at a time, each with a mark (WorkMarks)
 * that is committed before the ticket is read and cleared with its outcome. A ticket that has a
 * mark already is taken alone, and one that has been taken DF_MARKS_MAX times is given up unread.
 */
#include "interface/processing.sql.h"
#include "interface/processing_private.h"

#include <stdatomic.h>

#define CAREFUL_MAX     16
#define CAREFUL_TICKETS 1024 /* more than a process has in hand */

#define GIVEN_UP_WHY    DF_STR("the server ended unexpectedly while it processed this ticket")

static struct ticket_mark *find_mark(struct ticket_care *c, int64_t id)
{
    for (size_t i = 0; i < c->mark_count; i++) {
        if (c->marks[i].id == id)
            return &c->marks[i];
    }
    return NULL;
}

static void read_mark(void *arg, struct df_str id, int64_t taken)
{
    struct ticket_care *c = arg;
    int64_t n;

    if (c->mark_count < TICKET_MARKS && df_str_to_i64(id, &n))
        c->marks[c->mark_count++] = (struct ticket_mark){.id = n, .taken = taken};
}

/* --- the beginning ---------------------------------------------------------------------------- */

static enum df_code run_reset(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct ticket_batch *b = (struct ticket_batch *)job;
    uint32_t own;
    enum df_code code = ticket_lock_shards(db, b, b->care.reset, &own, err);

    b->care.mark_count = 0;
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(process_reset, .shards = df_int(own)), NULL, err);
    if (code == DF_OK)
        code = df_marks_read(db, TICKET_CHANNEL, TICKET_MARKS, read_mark, &b->care, err);
    return code;
}

/* Shards are held until they are reset and the pass with care is over: who gets them then need not
 * do it again. */
static void release_shards(struct ticket_batch *b)
{
    struct ticket_care *c = &b->care;
    uint32_t over = c->held & ~(c->reset | c->shards);

    for (unsigned s = 0; s < DF_SHARDS; s++) {
        if (over >> s & 1)
            df_shards_leave(b->i->shards, s);
    }
    c->held &= ~over;
}

/* They are entered before the loop hears of them, which leaves them. */
void ticket_care_lost(struct df_interface *i, uint32_t unclean)
{
    for (unsigned s = 0; s < DF_SHARDS; s++) {
        if (unclean >> s & 1)
            df_shards_enter(i->shards, s);
    }
    uint32_t known = unclean & atomic_fetch_or(&i->lost_shards, unclean);
    for (unsigned s = 0; s < DF_SHARDS; s++) {
        if (known >> s & 1)
            df_shards_leave(i->shards, s);
    }
}

/*
 * b->shards was read before: what it names was told of. What is owned is read after: what was told
 * of, and is not owned by then, was lost. Shards that are to be handed over stay until they are
 * reset and the pass with care is over.
 */
static void take_lost(struct ticket_batch *b)
{
    struct ticket_care *c = &b->care;
    uint32_t lost = atomic_exchange(&b->i->lost_shards, 0);
    int64_t epochs[DF_SHARDS];
    uint32_t owned = df_shards_owned(b->i->shards, epochs);

    if (lost) {
        c->reset |= lost;
        c->shards |= lost;
        c->left = CAREFUL_TICKETS;
        b->cursor = (struct ticket_cursor)TICKET_CURSOR_START;
    }
    c->reset &= owned;
    c->shards &= owned;
    for (unsigned s = 0; s < DF_SHARDS; s++) {
        if (lost & c->held & UINT32_C(1) << s) /* lost, and taken once more */
            df_shards_leave(b->i->shards, s);
        if ((c->reset | c->shards) >> s & 1)
            b->epochs[s] = epochs[s];
    }
    c->held |= lost;
}

enum df_code ticket_care_begin(struct ticket_batch *b, struct df_err *err)
{
    struct ticket_care *c = &b->care;

    take_lost(b);
    release_shards(b);
    if (!c->reset)
        return DF_OK;
    b->job = (struct df_job){.run = run_reset};
    enum df_code code = df_store_write_wait(b->i->opt.store, &b->job, err);
    if (code == DF_OK)
        c->reset = 0;
    return code;
}

/* --- marks ------------------------------------------------------------------------------------ */

static struct df_str mark_key(struct df_arena *a, int64_t id)
{
    return df_arena_printf(a, "%lld", (long long)id);
}

static void drop_mark(struct ticket_care *c, int64_t id)
{
    struct ticket_mark *m = find_mark(c, id);

    if (m)
        *m = c->marks[--c->mark_count];
}

bool ticket_care_needed(struct ticket_batch *b)
{
    bool needed = b->care.shards != 0;

    for (size_t i = 0; i < b->due_count && !needed; i++)
        needed = find_mark(&b->care, b->due[i].id) != NULL;
    return needed;
}

static enum df_code run_mark(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct ticket_batch *b = (struct ticket_batch *)job;
    enum df_code code = ticket_lock_shards(db, b, b->shards, &b->own, err);

    if (code != DF_OK || b->own != b->shards)
        return code;
    df_arena_reset(&b->params);
    struct df_str *keys = DF_ARENA_ARRAY(&b->params, struct df_str, b->due_count);
    for (size_t i = 0; i < b->due_count; i++)
        keys[i] = mark_key(&b->params, b->due[i].id);
    return df_marks_add(db, TICKET_CHANNEL, keys, b->due_count, df_wall_ms(b->i->opt.clock), err);
}

/* Some of the shards have another owner by now: nothing was marked, and what is in hand is left.
 * The next pass begins at the first ticket of the others. */
static void leave_lost(struct ticket_batch *b)
{
    uint32_t lost = b->shards & ~b->own;

    df_shards_doubt(b->i->shards, lost);
    b->care.shards &= ~lost;
    b->due_count = 0;
    b->more = true;
    b->cursor = (struct ticket_cursor)TICKET_CURSOR_START;
}

/* At most CAREFUL_MAX, and tickets with a mark alone. */
static void take_fewer(struct ticket_batch *b)
{
    size_t count = b->due_count < CAREFUL_MAX ? b->due_count : CAREFUL_MAX;

    for (size_t i = 0; i < count; i++) {
        if (find_mark(&b->care, b->due[i].id))
            count = i > 0 ? i : 1;
    }
    b->more = b->more || count < b->due_count;
    b->due_count = count;
}

enum df_code ticket_care_mark(struct ticket_batch *b, bool *ret_none, struct df_err *err)
{
    struct ticket_care *c = &b->care;

    take_fewer(b);
    c->left -= c->left < b->due_count ? c->left : b->due_count;
    struct ticket_mark *m = find_mark(c, b->due[0].id);
    *ret_none = m && m->taken >= DF_MARKS_MAX;
    if (*ret_none) {
        enum df_code code = ticket_refuse_unread(b, GIVEN_UP_WHY, true, err);
        if (code == DF_OK)
            drop_mark(c, b->due[0].id);
        return code;
    }
    b->job = (struct df_job){.run = run_mark};
    enum df_code code = df_store_write_wait(b->i->opt.store, &b->job, err);
    *ret_none = code == DF_OK && b->own != b->shards;
    if (*ret_none)
        leave_lost(b);
    return code;
}

enum df_code ticket_care_clear(struct df_db *db, struct ticket_batch *b, struct df_err *err)
{
    struct df_str *keys = DF_ARENA_ARRAY(&b->params, struct df_str, b->count);
    size_t count = 0;

    for (size_t i = 0; i < b->count; i++) {
        if (b->own >> ticket_shard(b->tickets[i].id) & 1)
            keys[count++] = mark_key(&b->params, b->tickets[i].id);
    }
    return df_marks_clear(db, TICKET_CHANNEL, keys, count, err);
}

void ticket_care_cleared(struct ticket_batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        drop_mark(&b->care, b->tickets[i].id);
}

/* --- the end ---------------------------------------------------------------------------------- */

static enum df_code run_clear_rest(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct ticket_batch *b = (struct ticket_batch *)job;
    const struct ticket_care *c = &b->care;
    uint32_t own;
    size_t count = 0;
    enum df_code code = ticket_lock_shards(db, b, b->shards, &own, err);

    df_arena_reset(&b->params);
    struct df_str *keys = DF_ARENA_ARRAY(&b->params, struct df_str, c->mark_count);
    for (size_t i = 0; i < c->mark_count; i++) {
        if (own >> ticket_shard(c->marks[i].id) & 1)
            keys[count++] = mark_key(&b->params, c->marks[i].id);
    }
    return code == DF_OK ? df_marks_clear(db, TICKET_CHANNEL, keys, count, err) : code;
}

/* Marks of tickets that are not due are left over. */
enum df_code ticket_care_end(struct ticket_batch *b, struct df_err *err)
{
    struct ticket_care *c = &b->care;
    enum df_code code = DF_OK;

    if (!b->more && c->mark_count > 0) {
        b->job = (struct df_job){.run = run_clear_rest};
        code = df_store_write_wait(b->i->opt.store, &b->job, err);
        c->mark_count = code == DF_OK ? 0 : c->mark_count;
    }
    if (code == DF_OK)
        c->shards = 0;
    release_shards(b);
    return code;
}
