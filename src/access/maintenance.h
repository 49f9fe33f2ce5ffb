/*
 * Maintenance windows: when no uploads are taken. All in UTC; several are separated by ';':
 *
 *     2026-11-20T02:00Z/2026-11-20T04:00Z    once
 *     02:00-04:00                            every day
 *     Sun 02:00-04:00                        every Sunday; also Sat,Sun or Mon-Fri
 *
 * A window whose end is not after its start goes on to the next day and belongs to the day it
 * starts on; 24:00 is the day's end. The end itself is outside.
 */
#ifndef DF_ACCESS_MAINTENANCE_H
#define DF_ACCESS_MAINTENANCE_H

#include "base/clock.h"
#include "base/err.h"

#define DF_MAINTENANCE_MAX 16

struct df_maintenance_window {
    unsigned days; /* bit 0 is Sunday; 0: once */
    int64_t start; /* milliseconds since 1970; of the day, if it repeats */
    int64_t end;   /* beyond a day's length if it goes on into the next */
};

/* A zeroed one has no windows. */
struct df_maintenance {
    size_t count;
    struct df_maintenance_window windows[DF_MAINTENANCE_MAX];
};

/* Adds the windows of the text, which may be blank. On an error (DF_E_VALIDATION, with the reason)
 * *m is unchanged. Windows of a client and of the server may be added to the same struct. */
enum df_code df_maintenance_add(struct df_maintenance *m, struct df_str text,
                                struct df_err *err) DF_MUST_CHECK;

/* -1: there is none. */
struct df_maintenance_times {
    int64_t since_ms; /* the first start of the windows in force */
    int64_t until_ms; /* the end of the window in force and those that follow on it without a gap;
                         at least 31 days ahead if that never ends */
    int64_t next_ms;  /* the start of the first one after that */
};

struct df_maintenance_times df_maintenance_next(const struct df_maintenance *m, int64_t now_ms);

#endif
