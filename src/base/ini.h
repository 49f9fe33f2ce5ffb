/*
 * Reader of INI text that is already in memory. Reports sections, entries and complaints with their
 * line, through callbacks and in the order of the text; it goes on after a complaint, so that all
 * are reported.
 */
#ifndef DF_BASE_INI_H
#define DF_BASE_INI_H

#include "base/str.h"

#define DF_INI_LINE_MAX_BYTES 16384

struct df_ini_handler {
    /* A header, also of a section without entries. */
    void (*section)(void *arg, size_t line, struct df_str name);
    /* Slices of the text, trimmed; valid UTF-8 without control characters other than the tab. */
    void (*entry)(void *arg, size_t line, struct df_str section, struct df_str key,
                  struct df_str value);
    /* what: constant. The line's content is never part of it, since it may be a secret. */
    void (*complaint)(void *arg, size_t line, const char *what);
    void *arg;
};

void df_ini_read(struct df_str text, const struct df_ini_handler *h);

/* Why a text is not allowed in a line; NULL when it is. */
const char *df_ini_text_fault(struct df_str s);

#endif
