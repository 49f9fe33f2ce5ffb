/*
 * Time zones from the system's zone data (TZif, RFC 8536): $TZDIR or /usr/share/zoneinfo.
 * localtime() and TZ would apply to the whole process and are not thread-safe.
 *
 * A zone is read once and never changes, so threads may share it. Times are milliseconds since 1970
 * UTC; a moment outside the years 1 to 9998 is moved to the nearest inside.
 */
#ifndef DF_BASE_ZONE_H
#define DF_BASE_ZONE_H

#include "base/clock.h"
#include "base/err.h"

struct df_zone;

/*
 * Opens "America/Sao_Paulo". DF_E_CONFIG when there is no such zone or its file is invalid; a name
 * cannot lead out of the directory. "UTC" needs no file.
 */
enum df_code df_zone_open(const char *name, struct df_zone **ret, struct df_err *err) DF_MUST_CHECK;
/* The same from a file's content. */
enum df_code df_zone_parse(struct df_str tzif, struct df_zone **ret,
                           struct df_err *err) DF_MUST_CHECK;
void df_zone_free(struct df_zone *z);

/* Seconds east of UTC at that moment. */
int32_t df_zone_offset(const struct df_zone *z, int64_t utc_ms);

/* The local date and time at that moment. */
struct df_date_time df_zone_local(const struct df_zone *z, int64_t utc_ms);

/*
 * The first moment at which local clocks show that time or a later one: the first occurrence of a
 * time that comes twice, and the moment of the change for a time that is skipped. The date must be
 * a real one, or the day after one; hour may be 24.
 */
int64_t df_zone_to_utc(const struct df_zone *z, const struct df_date_time *local);

/* 0 is Sunday. */
int df_weekday(int year, int month, int day);

#endif
