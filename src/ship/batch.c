#include "ship/batch.h"

#include <assert.h>

struct reading {
    struct df_ship_batch *batch;
    size_t bytes, max_bytes, max_lines;
};

static bool take_record(void *arg, const struct df_spool_record *r)
{
    struct reading *reading = arg;
    struct df_ship_batch *b = reading->batch;

    if (b->count == reading->max_lines ||
        (b->count > 0 && reading->bytes + r->text.len > reading->max_bytes))
        return false;
    reading->bytes += r->text.len;
    b->lines[b->count] = (struct df_ship_line){.record = *r};
    b->lines[b->count++].record.text = df_arena_str(&b->arena, r->text);
    return true;
}

bool df_ship_batch_read(struct df_ship_batch *b, struct df_spool *spool, size_t max_bytes)
{
    uint64_t lines = df_spool_lines(spool);
    struct reading reading = {.batch = b,
                              .max_bytes = max_bytes,
                              .max_lines =
                                  lines < DF_SHIP_LINES_MAX ? (size_t)lines : DF_SHIP_LINES_MAX};
    struct df_spool_owner owner;

    *b = (struct df_ship_batch){.count = 0};
    if (lines == 0)
        return false;
    df_arena_init(&b->arena);
    b->lines = DF_ARENA_ARRAY(&b->arena, struct df_ship_line, reading.max_lines);
    if (!df_spool_read(spool, take_record, &reading, &owner, &b->end)) {
        df_ship_batch_release(b);
        return false;
    }
    assert(b->count > 0);
    b->folder = df_arena_str(&b->arena, df_str_c(owner.name));
    b->host = df_arena_str(&b->arena, df_str_c(owner.host));
    b->pieces[b->piece_count++] = (struct df_ship_piece){0, b->count};
    return true;
}

void df_ship_batch_release(struct df_ship_batch *b)
{
    df_arena_release(&b->arena);
    *b = (struct df_ship_batch){.count = 0};
}

struct df_ship_line *df_ship_next(struct df_ship_batch *b, const struct df_ship_piece *p,
                                  size_t *at)
{
    for (size_t i = *at > p->from ? *at : p->from; i < p->to; i++) {
        if (b->lines[i].state == DF_SHIP_WAITING) {
            *at = i + 1;
            return &b->lines[i];
        }
    }
    *at = p->to;
    return NULL;
}

size_t df_ship_waiting(struct df_ship_batch *b, const struct df_ship_piece *p)
{
    size_t n = 0;

    for (size_t at = 0; df_ship_next(b, p, &at);)
        n++;
    return n;
}

const struct df_ship_piece *df_ship_batch_piece(struct df_ship_batch *b)
{
    while (b->piece_count > 0 && df_ship_waiting(b, &b->pieces[b->piece_count - 1]) == 0)
        b->piece_count--;
    return b->piece_count > 0 ? &b->pieces[b->piece_count - 1] : NULL;
}

static void settle_piece(struct df_ship_batch *b, enum df_ship_state state)
{
    struct df_ship_line *line;

    assert(b->piece_count > 0);
    const struct df_ship_piece *p = &b->pieces[b->piece_count - 1];
    for (size_t at = 0; (line = df_ship_next(b, p, &at));)
        line->state = state;
    b->piece_count--;
}

void df_ship_batch_taken(struct df_ship_batch *b)
{
    settle_piece(b, DF_SHIP_SHIPPED);
}

/* Both halves have half of the lines that wait; the first one is sent next. */
void df_ship_batch_refused(struct df_ship_batch *b, bool halves)
{
    assert(b->piece_count > 0);
    struct df_ship_piece *p = &b->pieces[b->piece_count - 1];
    size_t waiting = df_ship_waiting(b, p), middle = 0;

    b->refusals++;
    if (!halves || waiting <= 1 || b->refusals > DF_SHIP_REFUSED_MAX ||
        b->piece_count == DF_SHIP_PIECES_MAX) {
        settle_piece(b, DF_SHIP_REFUSED);
        return;
    }
    for (size_t i = 0; i < waiting / 2; i++)
        (void)df_ship_next(b, p, &middle);
    const struct df_ship_piece first = {p->from, middle};
    p->from = middle;
    b->pieces[b->piece_count++] = first;
}

size_t df_ship_batch_count(const struct df_ship_batch *b, enum df_ship_state state)
{
    size_t n = 0;

    for (size_t i = 0; i < b->count; i++)
        n += b->lines[i].state == state;
    return n;
}
