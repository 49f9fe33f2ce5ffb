#include "base/cause.h"

#include <stdlib.h>
#include <string.h>

#define ID_DIGITS     4  /* of a word that has letters too: it is an id, not a name */
#define WILDCARDS_MAX 40 /* of a pattern; databases go back at each of them */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Of a word. */
static bool is_inner(char c)
{
    return is_digit(c) || is_letter(c) || c == '_' || c == '-';
}

/* "503" of "HTTP 503", where HTTP is a word: of "00a1b2cHTTP 503" an id is made, and a number. */
static bool is_status(struct df_str s, size_t at, size_t len)
{
    return len == 3 && at >= 5 && memcmp(s.ptr + at - 5, "HTTP ", 5) == 0 &&
           (at == 5 || !is_inner(s.ptr[at - 6]));
}

struct word {
    size_t len, digits, letters;
};

static struct word word_at(struct df_str s, size_t at)
{
    struct word w = {0};

    for (; at + w.len < s.len && is_inner(s.ptr[at + w.len]); w.len++) {
        w.digits += is_digit(s.ptr[at + w.len]);
        w.letters += is_letter(s.ptr[at + w.len]);
    }
    return w;
}

static size_t put(char *out, size_t at, struct df_str text)
{
    memcpy(out + at, text.ptr, text.len);
    return at + text.len;
}

/* The word with each of its numbers replaced. */
static size_t put_word(char *out, size_t to, struct df_str word)
{
    for (size_t i = 0; i < word.len; i++) {
        if (!is_digit(word.ptr[i]))
            out[to++] = word.ptr[i];
        else if (i == 0 || !is_digit(word.ptr[i - 1]))
            to = put(out, to, DF_STR("{n}"));
    }
    return to;
}

struct df_str df_cause_of(struct df_str error, struct df_arena *a)
{
    struct df_str s = df_utf8_cut(df_str_trim(error), (size_t)2 * DF_CAUSE_CHARS);
    char *out = df_arena_alloc(a, 4 * s.len + 1); /* "{id}" is longer than the shortest id */
    size_t to = 0;

    for (size_t at = 0; at < s.len;) {
        struct word w = word_at(s, at);
        if (w.len == 0) {
            out[to++] = s.ptr[at++];
            continue;
        }
        if (w.digits >= ID_DIGITS && w.letters > 0) {
            to = put(out, to, DF_STR("{id}"));
        } else if (is_status(s, at, w.len)) {
            memcpy(out + to, s.ptr + at, w.len);
            to += w.len;
        } else {
            to = put_word(out, to, df_str_n(s.ptr + at, w.len));
        }
        at += w.len;
    }
    struct df_str whole = df_str_trim(df_str_n(out, to));
    struct df_str cut = df_str_trim(df_utf8_cut(whole, DF_CAUSE_CHARS));
    /* A status may have lost a digit, and is none any more. */
    return cut.len < whole.len ? df_cause_of(cut, a) : cut;
}

/* How many bytes of a place there are: {n}, {id}, or the beginning of one where the cause was
 * cut. */
static size_t place_at(struct df_str s, size_t at)
{
    struct df_str rest = df_str_n(s.ptr + at, s.len - at);

    if (df_str_starts(rest, DF_STR("{id}")))
        return 4;
    if (df_str_starts(rest, DF_STR("{n}")))
        return 3;
    return df_str_starts(DF_STR("{id}"), rest) || df_str_starts(DF_STR("{n}"), rest) ? rest.len : 0;
}

struct df_str df_cause_pattern(struct df_str text, struct df_arena *a)
{
    size_t to = 0, wildcards = 0;
    bool open_end = false; /* it ends with a wildcard */

    if (!text.ptr)
        return DF_STR_NULL;
    char *out = df_arena_alloc(a, 2 * text.len + 2);
    out[to++] = '%';
    for (size_t at = 0; at < text.len && wildcards < WILDCARDS_MAX;) {
        size_t place = place_at(text, at);
        if (place > 0) {
            out[to++] = '%';
            at += place;
            wildcards++;
            open_end = true;
            continue;
        }
        open_end = false;
        if (strchr("%_[]!", text.ptr[at]) && text.ptr[at])
            out[to++] = '!';
        out[to++] = text.ptr[at++];
    }
    if (!open_end)
        out[to++] = '%';
    return df_str_n(out, to);
}

/* --- failures by cause --- */

void df_causes_init(struct df_causes *c, struct df_arena *a)
{
    *c = (struct df_causes){.arena = a};
}

void df_causes_release(struct df_causes *c)
{
    df_map_release(&c->map);
}

void df_causes_add(struct df_causes *c, struct df_str error, int64_t at_ms, bool retried,
                   struct df_str id)
{
    if (df_str_trim(error).len == 0)
        return;
    struct df_str text = df_cause_of(error, c->arena);
    struct df_cause *cause = df_map_get(&c->map, text);
    if (!cause && c->map.count >= DF_CAUSES_KINDS) {
        text = DF_STR("other");
        cause = df_map_get(&c->map, text);
    }
    if (!cause) {
        cause = DF_ARENA_NEW(c->arena, struct df_cause);
        *cause = (struct df_cause){.text = text,
                                   .first_ms = at_ms,
                                   .last_ms = at_ms,
                                   .example = df_arena_str(c->arena, id)};
        df_map_add(&c->map, text, cause);
    }
    c->failures++;
    cause->count++;
    cause->retried = cause->retried || retried;
    if (at_ms < cause->first_ms)
        cause->first_ms = at_ms;
    if (at_ms > cause->last_ms)
        cause->last_ms = at_ms;
}

static int compare_causes(const void *a, const void *b)
{
    const struct df_cause *x = *(struct df_cause *const *)a, *y = *(struct df_cause *const *)b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->last_ms > y->last_ms ? -1 : x->last_ms < y->last_ms;
}

struct df_cause **df_causes_top(struct df_causes *c, size_t most, size_t *ret_count)
{
    struct df_cause **all = DF_ARENA_ARRAY(c->arena, struct df_cause *, c->map.count + 1);
    struct df_cause *cause;
    size_t n = 0;

    for (size_t at = 0; (cause = df_map_next(&c->map, &at));)
        all[n++] = cause;
    qsort(all, n, sizeof(struct df_cause *), compare_causes);
    *ret_count = n < most ? n : most;
    return all;
}
