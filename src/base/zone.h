/*
 * Time zones, out of the system's zone data (TZif, RFC 8536): $TZDIR or /usr/share/zoneinfo. Not
 * by localtime() and TZ, which are one for the whole process and not thread-safe.
 *
 * A zone is read once and never changes: it may be shared between threads. Times are milliseconds
 * since 1970 UTC; a moment outside the years 1 to 9998 is taken for the nearest inside.
 */
#ifndef DF_BASE_ZONE_H
#define DF_BASE_ZONE_H

#include "base/clock.h"
#include "base/err.h"

struct df_zone;

/*
 * "America/Sao_Paulo". DF_E_CONFIG when there is no such zone, or its file is none; the name can
 * not lead out of the directory. "UTC" is there without any file.
 */
enum df_code df_zone_open(const char *name, struct df_zone **ret, struct df_err *err) DF_MUST_CHECK;
/* The same from a file's content. */
enum df_code df_zone_parse(struct df_str tzif, struct df_zone **ret,
                           struct df_err *err) DF_MUST_CHECK;
void df_zone_free(struct df_zone *z);

/* Seconds east of UTC at that moment. */
int32_t df_zone_offset(const struct df_zone *z, int64_t utc_ms);

/* What calendar and clock show there. */
struct df_date_time df_zone_local(const struct df_zone *z, int64_t utc_ms);

/*
 * The first moment at which they show that time or a later one: of a time that comes twice the
 * first, and for one that is left out the moment of the change. The date must be a real one, or a
 * day after one that is; hour may be 24.
 */
int64_t df_zone_to_utc(const struct df_zone *z, const struct df_date_time *local);

/* 0 is Sunday. */
int df_weekday(int year, int month, int day);

#endif
