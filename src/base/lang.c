#include "base/lang.h"

#include "base/buf.h"
#include "lang_texts.h"

#include <assert.h>
#include <pthread.h>

#define HOLES_MAX 9
#define DEPTH_MAX 4

/* Bytes of a compiled entry (tools/embed_lang.py). In English a hole is one byte that tells what it
 * takes. In Portuguese it is one byte that tells whether what it took is translated, and the number
 * of the hole. */
enum { HOLE_TEXT = 1, HOLE_INT = 2, HOLE_HEX = 3, HOLE_REAL = 4, HOLE_LAST = 4 };
enum { PUT_AS_IS = 1, PUT_TRANSLATED = 2 };

struct entry {
    const char *english;
    const char *portuguese;
    struct df_str tail; /* the literal at the end of the English text: rejects most texts at once */
    bool argument;      /* only for what a hole took, never for a whole text */
    struct entry *next; /* with the same first byte, less specific */
};

/* Written once. */
static struct catalogue {
    struct df_arena arena;
    struct entry *by_first[256]; /* entries that begin with a hole are under HOLE_TEXT */
} catalogue;
static pthread_once_t catalogue_once = PTHREAD_ONCE_INIT;

static bool is_hole(char c)
{
    return c > 0 && c <= HOLE_LAST;
}

static struct df_str tail_of(const char *english)
{
    size_t len = strlen(english), begin = len;
    while (begin > 0 && !is_hole(english[begin - 1]))
        begin--;
    return df_str_n(english + begin, len - begin);
}

/* The blob is entries of a letter (M, A), the English text, NUL, the Portuguese text, NUL; the most
 * specific entry first. */
static void read_catalogue(void)
{
    struct df_arena *a = &catalogue.arena;
    assert(df_lang_texts_count == 1);
    struct df_str blob = df_file_text(&df_lang_texts[0], a);
    struct entry **last[256];

    for (size_t i = 0; i < 256; i++)
        last[i] = &catalogue.by_first[i];
    for (const char *at = blob.ptr, *end = blob.ptr + blob.len; at < end;) {
        struct entry *e = DF_ARENA_NEW(a, struct entry);
        e->argument = *at == 'A';
        e->english = at + 1;
        e->portuguese = e->english + strlen(e->english) + 1;
        e->tail = tail_of(e->english);
        at = e->portuguese + strlen(e->portuguese) + 1;
        unsigned char first = (unsigned char)e->english[0];
        size_t bucket = is_hole((char)first) ? HOLE_TEXT : first;
        *last[bucket] = e;
        last[bucket] = &e->next;
    }
}

const char *df_lang_tag(enum df_lang lang)
{
    return lang == DF_LANG_PT ? "pt-BR" : "en";
}

enum df_lang df_lang_of_locale(const char *locale)
{
    struct df_str s = df_str_c(locale);
    bool pt = s.len >= 2 && df_str_ieq(df_str_n(s.ptr, 2), DF_STR("pt")) &&
              (s.len == 2 || strchr("_-.@", s.ptr[2]));
    return pt ? DF_LANG_PT : DF_LANG_EN;
}

/* --- matching --- */

struct match {
    struct df_str took[HOLES_MAX];
    size_t count;
};

static bool is_of_number(char hole, char c)
{
    if (c >= '0' && c <= '9')
        return true;
    return hole == HOLE_HEX ? df_hex_digit(c) >= 0 : hole == HOLE_REAL && c == '.';
}

/* The end of the number that begins at `at`, or NULL. It takes all digits there are: what follows a
 * number in a text is never a digit. */
static const char *end_of_number(char hole, const char *at, const char *end)
{
    const char *from = at < end && *at == '-' && hole != HOLE_HEX ? at + 1 : at;
    const char *to = from;
    while (to < end && is_of_number(hole, *to))
        to++;
    return to > from ? to : NULL;
}

/*
 * Matches as a shell does with `*`: each piece between two text holes is taken at the first place
 * where it fits, and when a later piece fits nowhere, only the last hole grows. So the work is at
 * most the product of both lengths.
 */
static bool match_text(const char *p, struct df_str text, struct match *m)
{
    const char *at = text.ptr, *end = text.ptr + text.len;
    const char *hole = NULL; /* behind the last text hole of the pattern */
    const char *grown = NULL;
    size_t count = 0, hole_count = 0;

    for (;;) {
        if (*p == HOLE_TEXT) {
            assert(count < HOLES_MAX);
            m->took[count] = df_str_n(at, 0);
            hole = ++p;
            grown = at;
            hole_count = ++count;
            continue;
        }
        const char *number = is_hole(*p) ? end_of_number(*p, at, end) : NULL;
        if (number) {
            assert(count < HOLES_MAX);
            m->took[count++] = df_str_n(at, (size_t)(number - at));
            at = number;
            p++;
        } else if (*p && !is_hole(*p) && at < end && *p == *at) {
            p++;
            at++;
        } else if (!*p && at == end) {
            m->count = count;
            return true;
        } else if (hole && grown < end) {
            at = ++grown;
            m->took[hole_count - 1].len++;
            count = hole_count;
            p = hole;
        } else {
            return false;
        }
    }
}

/* --- writing --- */

static bool put_text(struct df_str text, bool argument, unsigned depth, struct df_buf *out);

static void put_translation(const char *p, const struct match *m, unsigned depth,
                            struct df_buf *out)
{
    while (*p) {
        const char *literal = p;
        while (*p && *p != PUT_AS_IS && *p != PUT_TRANSLATED)
            p++;
        df_buf_add(out, literal, (size_t)(p - literal));
        if (!*p)
            return;
        size_t number = (size_t)(p[1] - '1');
        assert(number < m->count);
        struct df_str took = m->took[number];
        if (*p == PUT_AS_IS || !put_text(took, true, depth + 1, out))
            df_buf_adds(out, took);
        p += 2;
    }
}

static bool put_by(const struct entry *e, struct df_str text, bool argument, unsigned depth,
                   struct df_buf *out)
{
    struct match m;

    for (; e; e = e->next) {
        if ((e->argument && !argument) || !df_str_ends(text, e->tail) ||
            !match_text(e->english, text, &m))
            continue;
        put_translation(e->portuguese, &m, depth, out);
        return true;
    }
    return false;
}

/* False: nothing matches, and nothing was written. */
static bool put_text(struct df_str text, bool argument, unsigned depth, struct df_buf *out)
{
    if (text.len == 0 || depth > DEPTH_MAX)
        return false;
    return put_by(catalogue.by_first[(unsigned char)text.ptr[0]], text, argument, depth, out) ||
           put_by(catalogue.by_first[HOLE_TEXT], text, argument, depth, out);
}

struct df_str df_lang_text(enum df_lang lang, struct df_str english, struct df_arena *a)
{
    struct df_buf out;

    if (lang == DF_LANG_EN || english.len == 0 || english.len > DF_LANG_TEXT_MAX)
        return english;
    pthread_once(&catalogue_once, read_catalogue);
    df_buf_init(&out, 2 * DF_LANG_TEXT_MAX);
    bool found = put_text(english, false, 0, &out) && !df_buf_failed(&out);
    struct df_str text = found ? df_arena_str(a, df_buf_str(&out)) : english;
    df_buf_release(&out);
    return text;
}
