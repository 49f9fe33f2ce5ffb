/* What a place holds: its objects, and which of them are points in time. */
#ifndef DF_BACKUP_POINTS_H
#define DF_BACKUP_POINTS_H

#include "backup/place.h"
#include "backup/point.h"

struct df_point_object {
    char name[DF_PLACE_NAME_MAX + 1];
    uint64_t size;
    bool is_point;
    struct df_point_name point;
};

/* By name, so by generation, and in it by number. */
struct df_points {
    struct df_point_object *items;
    size_t count, room;
};

enum df_code df_points_list(struct df_depot *place, struct df_points *ret,
                            struct df_err *err) DF_MUST_CHECK;
void df_points_release(struct df_points *p);
/* Whether the point and all before it in its generation are there: it can be restored. */
bool df_points_is_whole(const struct df_points *p, size_t at);
/* The newest point that can be restored and is not after the time; -1: there is none. */
ptrdiff_t df_points_at(const struct df_points *p, int64_t time_ms);
/* The newest generation whose base is not after the time; NULL: there is none. */
const char *df_points_generation_at(const struct df_points *p, int64_t time_ms);

#endif
