/*
 * Reads plain XML, token by token over a window. Each rule is one of libxml2's or narrower: XML
 * that passes here gives the same events there, and a fuzz target compares the two. Between two
 * tokens `p` is at the next byte; a token that the window cuts is read again from its first byte
 * once more of it is there.
 */
#include "tabular/xlsx_xml.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define MAIN_URI   "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
#define STRICT_URI "http://purl.oclc.org/ooxml/spreadsheetml/main"

enum { NAME_FIRST = 1, NAME = 2, SPACE = 4, TEXT = 8, VALUE = 16 };

/* What an ASCII byte may be part of; other bytes have no bit and are checked by wide_character.
 * TEXT: stands for itself in text. VALUE: stands for itself in a quoted value, except the quote. */
/* clang-format off */
enum {
    R = SPACE, W = SPACE | TEXT, S = SPACE | TEXT | VALUE, T = TEXT | VALUE, V = VALUE,
    N = NAME | TEXT | VALUE, F = NAME_FIRST | NAME | TEXT | VALUE,
};

static const unsigned char classes[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, W, W, 0, 0, R, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    S, T, T, T, T, T, 0, T, T, T, T, T, T, N, N, T,
    N, N, N, N, N, N, N, N, N, N, T, T, 0, T, V, T,
    T, F, F, F, F, F, F, F, F, F, F, F, F, F, F, F,
    F, F, F, F, F, F, F, F, F, F, F, T, T, T, T, F,
    T, F, F, F, F, F, F, F, F, F, F, F, F, F, F, F,
    F, F, F, F, F, F, F, F, F, F, F, T, T, T, T, T,
};
/* clang-format on */

static bool is_class(char c, unsigned what)
{
    return classes[(unsigned char)c] & what;
}

void df_xml_plain_init(struct df_xml_plain *x, struct df_xml_sink sink, struct df_zip_reader *part)
{
    x->part = part;
    x->sink = sink;
    x->window = df_malloc(DF_XML_PLAIN_WINDOW);
    x->p = x->end = x->window;
    x->final = x->begun = x->had_root = false;
    x->depth = 0;
    x->names_len = 0;
}

void df_xml_plain_release(struct df_xml_plain *x)
{
    free(x->window);
    x->window = NULL;
}

/* Reads more into the window, for a token that it cuts. UNUSUAL: the window is full already. */
static enum df_xml_plain_answer read_more(struct df_xml_plain *x, struct df_err *err)
{
    size_t kept = (size_t)(x->end - x->p), got = 0;
    if (x->final || kept == DF_XML_PLAIN_WINDOW)
        return DF_PLAIN_UNUSUAL;
    memmove(x->window, x->p, kept);
    x->p = x->window;
    x->end = x->window + kept;
    if (df_zip_read(x->part, x->window + kept, DF_XML_PLAIN_WINDOW - kept, &got, err) != DF_OK)
        return DF_PLAIN_ERROR;
    x->end += got;
    x->final = got == 0;
    return DF_PLAIN_GO;
}

/* Length of the character at p, which is not ASCII. 0: broken, cut, or forbidden in XML. */
static size_t wide_character(const char *p, const char *end)
{
    unsigned char c = (unsigned char)*p;
    size_t len = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if ((size_t)(end - p) < len || df_utf8_valid_prefix(df_str_n(p, len)) != len)
        return 0;
    /* U+FFFE and U+FFFF */
    if (c == 0xEF && (unsigned char)p[1] == 0xBF && (unsigned char)p[2] >= 0xBE)
        return 0;
    return len;
}

const char *df_xml_plain_run(const char *p, const char *end)
{
    for (;;) {
#if defined(__SSE2__)
        while (end - p >= 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
            __m128i odd = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('<')),
                                       _mm_cmpeq_epi8(v, _mm_set1_epi8('&')));
            odd = _mm_or_si128(odd, _mm_cmpeq_epi8(v, _mm_set1_epi8('>')));
            /* As signed bytes, those that are not ASCII are below the space too. */
            odd = _mm_or_si128(odd, _mm_cmplt_epi8(v, _mm_set1_epi8(0x20)));
            int found = _mm_movemask_epi8(odd);
            if (found) {
                p += __builtin_ctz((unsigned)found);
                break;
            }
            p += 16;
        }
#endif
        while (p < end && is_class(*p, TEXT))
            p++;
        if (p == end || (unsigned char)*p < 0x80)
            return p;
        size_t len = wide_character(p, end);
        if (len == 0)
            return p;
        p += len;
    }
}

/* Writes the character of a reference into out. Returns the byte after the reference, NULL for an
 * unknown one, or `end` (with *ret_len 0) if it may be cut. */
static const char *read_reference(const char *p, const char *end, char out[4], size_t *ret_len)
{
    static const struct {
        struct df_str name;
        char c;
    } five[] = {{DF_STR_INIT("&lt;"), '<'},
                {DF_STR_INIT("&gt;"), '>'},
                {DF_STR_INIT("&amp;"), '&'},
                {DF_STR_INIT("&quot;"), '"'},
                {DF_STR_INIT("&apos;"), '\''}};
    const char *stop = memchr(p, ';', (size_t)(end - p) < 12 ? (size_t)(end - p) : 12);
    if (!stop)
        return end - p < 12 ? end : NULL;
    struct df_str all = df_str_n(p, (size_t)(stop - p) + 1);
    for (size_t i = 0; i < 5; i++) {
        if (df_str_eq(all, five[i].name)) {
            out[0] = five[i].c;
            *ret_len = 1;
            return stop + 1;
        }
    }
    bool hex = all.len > 2 && all.ptr[2] == 'x';
    uint32_t c = 0;
    if (all.ptr[1] != '#' || all.len < (hex ? 5U : 4U))
        return NULL;
    for (const char *d = p + (hex ? 3 : 2); d < stop; d++) {
        uint32_t digit = *d >= '0' && *d <= '9'          ? (uint32_t)(*d - '0')
                         : hex && *d >= 'a' && *d <= 'f' ? (uint32_t)(*d - 'a' + 10)
                         : hex && *d >= 'A' && *d <= 'F' ? (uint32_t)(*d - 'A' + 10)
                                                         : 99;
        if (digit == 99 || c > 0x10FFFF)
            return NULL;
        c = c * (hex ? 16 : 10) + digit;
    }
    if ((c < 0x20 && c != 9 && c != 10 && c != 13) || (c >= 0xD800 && c < 0xE000) || c == 0xFFFE ||
        c == 0xFFFF || c > 0x10FFFF)
        return NULL;
    if (c < 0x80) {
        out[0] = (char)c;
        *ret_len = 1;
    } else if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        *ret_len = 2;
    } else if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        *ret_len = 3;
    } else {
        out[0] = (char)(0xF0 | c >> 18);
        out[1] = (char)(0x80 | (c >> 12 & 0x3F));
        out[2] = (char)(0x80 | (c >> 6 & 0x3F));
        out[3] = (char)(0x80 | (c & 0x3F));
        *ret_len = 4;
    }
    return stop + 1;
}

static enum df_xml_plain_answer emit_text(struct df_xml_plain *x, struct df_str piece,
                                          struct df_err *err)
{
    return x->sink.text(x->sink.arg, piece, err) == DF_OK ? DF_PLAIN_GO : DF_PLAIN_ERROR;
}

/* Reads a piece of text at p, within an element. */
static enum df_xml_plain_answer read_text(struct df_xml_plain *x, struct df_err *err)
{
    const char *run = df_xml_plain_run(x->p, x->end);
    if (run > x->p) {
        struct df_str piece = df_str_n(x->p, (size_t)(run - x->p));
        x->p = run;
        return emit_text(x, piece, err);
    }
    char out[4];
    size_t len = 0;
    const char *after;
    switch (*x->p) {
    case '&':
        after = read_reference(x->p, x->end, out, &len);
        if (after == x->end && len == 0)
            return read_more(x, err);
        if (!after)
            return DF_PLAIN_UNUSUAL;
        x->p = after;
        return emit_text(x, df_str_n(out, len), err);
    case '>':
        /* Allowed, except as the end of "]]>". */
        if (x->p - x->window < 2 || (x->p[-1] == ']' && x->p[-2] == ']'))
            return DF_PLAIN_UNUSUAL;
        x->p++;
        return emit_text(x, DF_STR(">"), err);
    case '\r':
        /* CR alone is a line end; before LF it is dropped. */
        if (x->end - x->p < 2)
            return read_more(x, err);
        x->p++;
        return *x->p == '\n' ? DF_PLAIN_GO : emit_text(x, DF_STR("\n"), err);
    default:
        /* A wide character that the window cuts, or one that is not plain. */
        return (unsigned char)*x->p >= 0xC2 && x->end - x->p < 4 ? read_more(x, err)
                                                                 : DF_PLAIN_UNUSUAL;
    }
}

/* The byte after the name at p, which has at most one prefix, or NULL. *ret_local: the name without
 * its prefix. */
static const char *read_name(const char *p, const char *end, struct df_str *ret_local,
                             bool *ret_prefixed)
{
    const char *start = p;
    *ret_prefixed = false;
    if (p == end || !is_class(*p, NAME_FIRST))
        return NULL;
    while (p < end && is_class(*p, NAME))
        p++;
    if (p < end && *p == ':') {
        *ret_prefixed = true;
        start = ++p;
        if (p == end || !is_class(*p, NAME_FIRST))
            return NULL;
        while (p < end && is_class(*p, NAME))
            p++;
    }
    *ret_local = df_str_n(start, (size_t)(p - start));
    return p;
}

/* The byte after the quoted value at p, or NULL. References are checked but not resolved. */
static const char *read_value(const char *p, const char *end, struct df_str *ret,
                              bool *ret_references)
{
    char quote = *p, out[4];
    size_t len = 0;
    const char *start = ++p;
    if (quote != '"' && quote != '\'')
        return NULL;
    while (p < end && *p != quote) {
        if (is_class(*p, VALUE)) {
            p++;
        } else if (*p == '&') {
            *ret_references = true;
            const char *after = read_reference(p, end, out, &len);
            if (!after || after == end)
                return NULL;
            p = after;
        } else if ((unsigned char)*p >= 0x80 && (len = wide_character(p, end))) {
            p += len;
        } else {
            return NULL;
        }
    }
    *ret = df_str_n(start, (size_t)(p - start));
    return p < end ? p + 1 : NULL;
}

static bool is_main(struct df_str uri)
{
    return df_str_eq(uri, DF_STR(MAIN_URI)) || df_str_eq(uri, DF_STR(STRICT_URI));
}

/*
 * Reads the attributes of a start tag from p on. Returns its '>' or '/', or NULL if it is unusual.
 * The root must set the default namespace, and no other element may; no prefix may stand for the
 * main namespace.
 */
static const char *read_attributes(struct df_xml_plain *x, const char *p, const char *end,
                                   struct df_xml_tag *tag, bool *ret_references)
{
    bool has_default = false;
    struct df_str full[DF_XML_PLAIN_ATTRS];
    while (p < end && is_class(*p, SPACE)) {
        while (p < end && is_class(*p, SPACE))
            p++;
        if (p == end || *p == '>' || *p == '/')
            break;
        struct df_xml_attr *a = &x->attrs[tag->count];
        bool prefixed;
        const char *start = p;
        if (tag->count == DF_XML_PLAIN_ATTRS || !(p = read_name(p, end, &a->name, &prefixed)) ||
            end - p < 2 || *p != '=')
            return NULL;
        full[tag->count] = df_str_n(start, (size_t)(p - start));
        for (size_t i = 0; i < tag->count; i++)
            if (df_str_eq(full[i], full[tag->count]))
                return NULL;
        if (!(p = read_value(p + 1, end, &a->value, ret_references)))
            return NULL;
        a->ns = prefixed ? DF_XML_OTHER : DF_XML_NONE;
        tag->count++;
        bool is_default = df_str_eq(full[tag->count - 1], DF_STR("xmlns"));
        if (is_default && (x->depth > 0 || !is_main(a->value)))
            return NULL;
        has_default |= is_default;
        if (prefixed && df_str_starts(full[tag->count - 1], DF_STR("xml")) &&
            (is_main(a->value) || *ret_references))
            return NULL;
    }
    return x->depth > 0 || has_default ? p : NULL;
}

bool df_xml_plain_enter(struct df_xml_plain *x, struct df_str name)
{
    if (x->depth == DF_XML_DEPTH_MAX || name.len > sizeof x->names - x->names_len)
        return false;
    x->had_root = true;
    memcpy(x->names + x->names_len, name.ptr, name.len);
    x->names_len += name.len;
    x->name_lens[x->depth++] = (uint16_t)name.len;
    return true;
}

void df_xml_plain_leave(struct df_xml_plain *x)
{
    assert(x->depth > 0);
    x->names_len -= x->name_lens[--x->depth];
}

static enum df_xml_plain_answer close_element(struct df_xml_plain *x, struct df_err *err)
{
    df_xml_plain_leave(x);
    return x->sink.end(x->sink.arg, err) == DF_OK ? DF_PLAIN_GO : DF_PLAIN_ERROR;
}

static enum df_xml_plain_answer read_start_tag(struct df_xml_plain *x, struct df_err *err)
{
    struct df_xml_tag tag = {.attrs = x->attrs};
    bool prefixed, references = false;
    const char *end = x->end;
    const char *p = read_name(x->p + 1, end, &tag.name, &prefixed);
    if (!p)
        return read_more(x, err);
    struct df_str full = df_str_n(x->p + 1, (size_t)(p - x->p - 1));
    tag.ns = prefixed ? DF_XML_OTHER : DF_XML_MAIN;
    p = read_attributes(x, p, end, &tag, &references);
    /* A tag that looks wrong may only be cut: it is read again as long as the window can grow. */
    bool empty = p && p < end && *p == '/';
    if (!p || p + empty >= end || p[empty] != '>')
        return read_more(x, err);
    /* Elements whose attributes matter have short names; they are not written with references. */
    if (references && tag.name.len <= 3)
        return DF_PLAIN_UNUSUAL;
    if (!df_xml_plain_enter(x, full))
        return DF_PLAIN_UNUSUAL;
    x->p = p + 1 + empty;
    if (x->sink.start(x->sink.arg, &tag, err) != DF_OK)
        return DF_PLAIN_ERROR;
    return empty ? close_element(x, err) : DF_PLAIN_GO;
}

static enum df_xml_plain_answer read_end_tag(struct df_xml_plain *x, struct df_err *err)
{
    size_t len = x->name_lens[x->depth - 1];
    const char *p = x->p + 2;
    if ((size_t)(x->end - p) <= len)
        return read_more(x, err);
    if (memcmp(p, x->names + x->names_len - len, len) != 0)
        return DF_PLAIN_UNUSUAL;
    for (p += len; p < x->end && is_class(*p, SPACE);)
        p++;
    if (p == x->end)
        return read_more(x, err);
    if (*p != '>')
        return DF_PLAIN_UNUSUAL;
    x->p = p + 1;
    return close_element(x, err);
}

/* Skips the byte order mark and the XML declaration, in the forms that programs write. */
static enum df_xml_plain_answer read_head(struct df_xml_plain *x, struct df_err *err)
{
    static const char *const forms[] = {
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>",
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>",
        "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>",
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>",
        "<?xml version='1.0' encoding='UTF-8'?>",
        "<?xml version='1.0' encoding='UTF-8' standalone='yes'?>",
        "<?xml version=\"1.0\"?>",
    };
    enum df_xml_plain_answer answer = DF_PLAIN_GO;
    while (answer == DF_PLAIN_GO && !x->final && x->end - x->p < 128)
        answer = read_more(x, err);
    if (answer != DF_PLAIN_GO)
        return answer;
    x->begun = true;
    struct df_str in = df_str_n(x->p, (size_t)(x->end - x->p));
    if (df_str_starts(in, DF_STR("\xEF\xBB\xBF")))
        in = df_str_n(in.ptr + 3, in.len - 3);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (df_str_starts(in, df_str_c(forms[i]))) {
            in = df_str_n(in.ptr + strlen(forms[i]), in.len - strlen(forms[i]));
            break;
        }
    }
    x->p = in.ptr;
    return DF_PLAIN_GO;
}

enum df_xml_plain_answer df_xml_plain_step(struct df_xml_plain *x, struct df_err *err)
{
    if (!x->begun) {
        enum df_xml_plain_answer answer = read_head(x, err);
        if (answer != DF_PLAIN_GO)
            return answer;
    }
    if (x->depth == 0) { /* before the root or after it */
        while (x->p < x->end && is_class(*x->p, SPACE))
            x->p++;
        if (x->p == x->end && x->final)
            return x->had_root ? DF_PLAIN_DONE : DF_PLAIN_UNUSUAL;
        if (x->p < x->end && (*x->p != '<' || x->had_root))
            return DF_PLAIN_UNUSUAL;
    }
    if (x->p == x->end)
        return read_more(x, err);
    if (*x->p != '<')
        return read_text(x, err);
    if (x->end - x->p < 2)
        return read_more(x, err);
    if (x->p[1] == '/')
        return x->depth ? read_end_tag(x, err) : DF_PLAIN_UNUSUAL;
    return read_start_tag(x, err);
}
