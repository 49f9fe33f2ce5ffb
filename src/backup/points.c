#include "backup/points.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

static void add_object(void *arg, const char *name, uint64_t size)
{
    struct df_points *p = arg;

    if (strlen(name) > DF_PLACE_NAME_MAX)
        return;
    if (p->count == p->room) {
        p->room = p->room ? 2 * p->room : 64;
        p->items = df_realloc(p->items, p->room * sizeof *p->items);
    }
    struct df_point_object *o = &p->items[p->count++];
    *o = (struct df_point_object){.size = size};
    (void)snprintf(o->name, sizeof o->name, "%s", name);
    o->is_point = df_point_name_read(name, &o->point);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct df_point_object *)a)->name,
                  ((const struct df_point_object *)b)->name);
}

enum df_code df_points_list(struct df_depot *place, struct df_points *ret, struct df_err *err)
{
    *ret = (struct df_points){.count = 0};
    enum df_code code = df_depot_each(place, add_object, ret, err);
    if (code != DF_OK)
        df_points_release(ret);
    else if (ret->count > 0)
        qsort(ret->items, ret->count, sizeof *ret->items, by_name);
    return code;
}

void df_points_release(struct df_points *p)
{
    free(p->items);
    *p = (struct df_points){.count = 0};
}

/* Points of a generation stand side by side. */
bool df_points_is_whole(const struct df_points *p, size_t at)
{
    const struct df_point_object *o = &p->items[at];

    if (!o->is_point || o->point.number > at)
        return false;
    const struct df_point_object *base = o - o->point.number;
    for (uint32_t n = 0; n <= o->point.number; n++)
        if (!base[n].is_point || base[n].point.number != n ||
            strcmp(base[n].point.generation, o->point.generation) != 0)
            return false;
    return true;
}

ptrdiff_t df_points_at(const struct df_points *p, int64_t time_ms)
{
    ptrdiff_t best = -1;

    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].is_point && p->items[i].point.time_ms <= time_ms &&
            (best < 0 || p->items[i].point.time_ms >= p->items[best].point.time_ms) &&
            df_points_is_whole(p, i))
            best = (ptrdiff_t)i;
    return best;
}

const char *df_points_generation_at(const struct df_points *p, int64_t time_ms)
{
    const char *newest = NULL;

    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].is_point && p->items[i].point.number == 0 &&
            p->items[i].point.time_ms <= time_ms)
            newest = p->items[i].point.generation;
    return newest;
}
