#include "app/parts.h"

#include "base/clock.h"

#include <assert.h>

static size_t count_parts(const struct df_parts *p)
{
    size_t count = 0;

    while (p->table[count])
        count++;
    assert(count <= DF_PARTS_MAX);
    return count;
}

enum df_code df_parts_start(struct df_parts *p, struct df_app *app, uint32_t roles,
                            struct df_err *err)
{
    size_t count = count_parts(p);

    for (size_t i = 0; i < count; i++) {
        const struct df_part *part = p->table[i];
        assert(!p->started[i]);
        if (part->roles && !(part->roles & roles))
            continue;
        enum df_code code = part->start(app, err);
        if (code != DF_OK)
            return code;
        p->started[i] = true;
    }
    return DF_OK;
}

void df_parts_stop(const struct df_parts *p, struct df_app *app, int64_t deadline_ms)
{
    size_t count = count_parts(p);

    for (size_t i = count; i-- > 0;) {
        if (p->started[i] && p->table[i]->stop)
            p->table[i]->stop(app, deadline_ms);
    }
    for (size_t i = count; i-- > 0;) {
        if (p->started[i] && p->table[i]->end)
            p->table[i]->end(app);
    }
}

void df_parts_free(struct df_parts *p, struct df_app *app)
{
    for (size_t i = count_parts(p); i-- > 0;) {
        if (p->started[i] && p->table[i]->free)
            p->table[i]->free(app);
        p->started[i] = false;
    }
}

int64_t df_parts_left_ms(int64_t deadline_ms)
{
    int64_t left_ms = deadline_ms - df_mono_ms(df_clock_real());
    return left_ms > 0 ? left_ms : 0;
}
