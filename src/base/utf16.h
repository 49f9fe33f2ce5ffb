/*
 * Conversion between UTF-8 and UTF-16, for interfaces that use UTF-16 (ODBC). Units are in the
 * machine's byte order. Nothing is lost in either direction.
 */
#ifndef DF_BASE_UTF16_H
#define DF_BASE_UTF16_H

#include "base/str.h"

/*
 * Writes the units of s, which must be valid UTF-8 (df_utf8_valid_prefix), and returns how many
 * (df_utf8_count). out needs room for s.len units: no character has more units than bytes.
 */
size_t df_utf16_from_utf8(struct df_str s, uint16_t *out);

/*
 * Writes count units as UTF-8 and returns the bytes. out needs room for DF_UTF8_PER_UTF16 * count.
 * Half of a surrogate pair, which UTF-8 cannot express, becomes U+FFFD.
 */
#define DF_UTF8_PER_UTF16 3
size_t df_utf16_to_utf8(const uint16_t *units, size_t count, char *out);

#endif
