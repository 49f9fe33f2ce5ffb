/*
 * What comes with lists: cursors, and errors of peers that become causes. A cursor that is taken
 * has one spelling; the cause of a cause is itself, is valid UTF-8 if the error was, and is
 * bounded; a pattern has no character of LIKE but those of its places.
 */
#include "base/cause.h"
#include "net/cursor.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

static void check_cursor(struct df_str text)
{
    char again[DF_CURSOR_TEXT_MAX + 1];
    struct df_cursor c;

    for (int by_uuid = 0; by_uuid <= 1; by_uuid++) {
        if (!df_cursor_parse(text, "l", by_uuid, &c))
            continue;
        df_cursor_write(&c, "l", again);
        CHECK(df_str_eq(text, df_str_c(again)));
    }
}

static void check_cause(struct df_str text)
{
    struct df_arena a;

    df_arena_init(&a);
    struct df_str cause = df_cause_of(text, &a);
    CHECK(df_utf8_count(cause) <= DF_CAUSE_CHARS);
    CHECK(df_str_eq(df_cause_of(cause, &a), cause));
    struct df_str pattern = df_cause_pattern(cause, &a);
    CHECK(pattern.len >= 2 && pattern.ptr[0] == '%' && pattern.ptr[pattern.len - 1] == '%');
    CHECK(pattern.len <= 2 * cause.len + 2);
    df_arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_str text = df_str_n((const char *)data, size);

    check_cursor(text);
    if (df_utf8_valid_prefix(text) == size)
        check_cause(text);
    return 0;
}
