/*
 * The scanner is a state machine over tokens. Between two tokens it keeps only the state (what may
 * come next), the depth and the closing bracket of each level:
 *
 *     START       before the document: a byte order mark may stand here
 *     VALUE       a value must come: first of all, after ':' and after ',' in an array
 *     FIRST_ITEM  after '[': a value or ']'
 *     FIRST_KEY   after '{': a name or '}'
 *     KEY         after ',' in an object
 *     COLON       after a name
 *     NEXT        after a value in an array or object: ',' or the closing bracket
 *     IN_STRING   after a part of a string
 *     DONE        after the outermost value: white space only
 *
 * `p` moves only past complete items: white space, a comma, a colon, a whole token. A token that
 * the window cuts is scanned again from its first byte.
 */
#include "json/scan.h"

#include "json/lex.h"

#include <stdio.h>

enum state { VALUE, FIRST_ITEM, FIRST_KEY, KEY, COLON, NEXT, /* rare: */ START, IN_STRING, DONE };

#define ALWAYS_INLINE inline __attribute__((always_inline))

enum fault {
    CUT, /* the window ended; an error only when it is the last one */
    NO_VALUE,
    NO_FIRST_ITEM,
    NO_FIRST_KEY,
    NO_KEY,
    NO_COLON,
    NO_NEXT_ITEM,
    NO_NEXT_KEY,
    NO_END,
    NO_DIGIT,
    NO_HEX,
    NO_ESCAPE,
    NO_TRUE,
    NO_FALSE,
    NO_NULL,
    CONTROL,
    BAD_UTF8,
    SURROGATE,
    NUL,
    TWICE,
    TOO_MANY,
    TOO_DEEP,
};

/* "expected <words>"; df_json_scan_error handles the faults without words. */
static const char *const expected[] = {
    [NO_VALUE] = "a value",
    [NO_FIRST_ITEM] = "a value or ']'",
    [NO_FIRST_KEY] = "a name in quotes or '}'",
    [NO_KEY] = "a name in quotes",
    [NO_COLON] = "':'",
    [NO_NEXT_ITEM] = "',' or ']'",
    [NO_NEXT_KEY] = "',' or '}'",
    [NO_END] = "nothing more after the document",
    [NO_DIGIT] = "a digit",
    [NO_HEX] = "a hexadecimal digit",
    [NO_ESCAPE] = "one of \"\\/bfnrtu after '\\'",
    [NO_TRUE] = "true",
    [NO_FALSE] = "false",
    [NO_NULL] = "null",
};

void df_json_scan_init(struct df_json_scan *s, unsigned flags, unsigned max_depth)
{
    *s = (struct df_json_scan){
        .flags = flags,
        .state = START,
        .keys = {.copy_depth = DF_JSON_DEPTH_MAX},
        .max_depth = max_depth < DF_JSON_DEPTH_MAX ? max_depth : DF_JSON_DEPTH_MAX,
    };
    df_json_scan_window(s, DF_STR(""), 0, false);
}

void df_json_scan_release(struct df_json_scan *s)
{
    df_json_keys_release(&s->keys);
}

void df_json_scan_reset(struct df_json_scan *s)
{
    df_json_keys_cut(&s->keys, 0);
    s->state = START;
    s->depth = 0;
}

void df_json_scan_window(struct df_json_scan *s, struct df_str window, int64_t offset, bool final)
{
    s->p = s->begin = window.ptr ? window.ptr : "";
    s->end = s->p + window.len;
    s->begin_offset = offset;
    s->final = final;
}

void df_json_scan_back(struct df_json_scan *s, const char *start, unsigned depth)
{
    df_json_keys_cut(&s->keys, depth);
    s->p = start;
    s->depth = depth;
    s->state = VALUE;
}

int64_t df_json_scan_offset(const struct df_json_scan *s)
{
    return s->begin_offset + (s->p - s->begin);
}

/*
 * Functions that scan a piece of a token return the byte after it, or NULL when it is wrong or the
 * window ends in it; df_json_scan_next then returns `answer`.
 */
static const char *set_fault(struct df_json_scan *s, enum fault fault, const char *at)
{
    s->answer = DF_TOK_ERROR;
    s->fault = fault;
    s->fault_at = at;
    return NULL;
}

/* The window ends, and so does the document if this is the last one. */
static const char *set_cut(struct df_json_scan *s)
{
    if (s->final)
        return set_fault(s, CUT, s->end);
    s->answer = DF_TOK_MORE;
    return NULL;
}

/* Reports `fault`, unless the byte in question has not arrived yet. */
static const char *set_fault_or_cut(struct df_json_scan *s, enum fault fault, const char *at)
{
    return at < s->end ? set_fault(s, fault, at) : set_cut(s);
}

static enum df_json_token fault_token(struct df_json_scan *s, enum fault fault, const char *at)
{
    set_fault(s, fault, at);
    return DF_TOK_ERROR;
}

static const char *scan_hex4(struct df_json_scan *s, const char *p, unsigned *ret)
{
    unsigned v = 0;

    for (int i = 0; i < 4; i++, p++) {
        int digit = p < s->end ? df_hex_digit(*p) : -1;
        if (digit < 0)
            return set_fault_or_cut(s, NO_HEX, p);
        v = v << 4 | (unsigned)digit;
    }
    *ret = v;
    return p;
}

/* The low surrogate at p, in an escape of its own; the high one stands at `high`. */
static const char *scan_low_surrogate(struct df_json_scan *s, const char *p, const char *high)
{
    unsigned unit;

    for (const char *want = "\\u"; *want; want++, p++) {
        if (p == s->end)
            return set_cut(s);
        if (*p != *want)
            return set_fault(s, SURROGATE, high);
    }
    p = scan_hex4(s, p, &unit);
    return p && (unit < 0xDC00 || unit > 0xDFFF) ? set_fault(s, SURROGATE, high) : p;
}

/* The escape at p, which is a backslash. */
static const char *scan_escape(struct df_json_scan *s, const char *p)
{
    const char *start = p++;
    unsigned unit;

    if (p == s->end)
        return set_cut(s);
    switch (*p) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return p + 1;
    case 'u':
        break;
    default:
        return set_fault(s, NO_ESCAPE, p);
    }
    p = scan_hex4(s, p + 1, &unit);
    if (!p)
        return NULL;
    if (unit == 0 && (s->flags & DF_JSON_NO_NUL))
        return set_fault(s, NUL, start);
    if (unit < 0xD800 || unit > 0xDFFF)
        return p;
    return unit > 0xDBFF ? set_fault(s, SURROGATE, start) : scan_low_surrogate(s, p, start);
}

static const char *scan_utf8(struct df_json_scan *s, const char *p)
{
    int len = df_json_utf8(p, s->end);

    if (len == DF_JSON_UTF8_CUT)
        return set_cut(s);
    return len == DF_JSON_UTF8_BAD ? set_fault(s, BAD_UTF8, p) : p + len;
}

/* The rest of a string's content from p on; returns its closing quote. */
static ALWAYS_INLINE const char *scan_text(struct df_json_scan *s, const char *p)
{
    const char *const end = s->end;

    s->escaped = false;
    for (;;) {
        p = df_json_plain(p, end);
        s->whole = p;
        if (p == end)
            return set_cut(s);
        if (*p == '"')
            return p;
        if (*p == '\\') {
            s->escaped = true;
            p = scan_escape(s, p);
        } else if ((unsigned char)*p >= 0x80) {
            p = scan_utf8(s, p);
        } else {
            return set_fault(s, CONTROL, p);
        }
        if (!p)
            return NULL;
    }
}

/* One digit at least. */
static inline const char *scan_digits(struct df_json_scan *s, const char *p)
{
    if (p == s->end || !df_json_is_digit(*p))
        return set_fault_or_cut(s, NO_DIGIT, p);
    do
        p++;
    while (p < s->end && df_json_is_digit(*p));
    return p;
}

static inline const char *scan_number(struct df_json_scan *s, const char *p)
{
    p += *p == '-';
    if (p < s->end && *p == '0')
        p++;
    else if (!(p = scan_digits(s, p)))
        return NULL;
    if (p < s->end && *p == '.' && !(p = scan_digits(s, p + 1)))
        return NULL;
    if (p < s->end && (*p | 0x20) == 'e') {
        p++;
        p += p < s->end && (*p == '+' || *p == '-');
        if (!(p = scan_digits(s, p)))
            return NULL;
    }
    return p == s->end && !s->final ? set_cut(s) : p;
}

static inline const char *scan_word(struct df_json_scan *s, const char *p, const char *word,
                                    size_t len, enum fault fault)
{
    if ((size_t)(s->end - p) >= len && memcmp(p, word, len) == 0)
        return p + len;
    while (p < s->end && *p == *word) {
        p++;
        word++;
    }
    return set_fault_or_cut(s, fault, p);
}

static enum df_json_token open_level(struct df_json_scan *s, enum df_json_token t)
{
    if (s->depth == s->max_depth)
        return fault_token(s, TOO_DEEP, s->start);
    s->p = s->start + 1;
    s->stack[++s->depth] = t == DF_TOK_OBJECT ? '}' : ']';
    s->state = t == DF_TOK_OBJECT ? FIRST_KEY : FIRST_ITEM;
    if (s->flags & DF_JSON_UNIQUE_KEYS)
        df_json_keys_open(&s->keys, s->depth);
    return t;
}

static inline enum df_json_token close_level(struct df_json_scan *s, const char *p)
{
    s->start = p;
    s->p = p + 1;
    s->depth--;
    s->state = s->depth ? NEXT : DONE;
    if (s->flags & DF_JSON_UNIQUE_KEYS)
        df_json_keys_cut(&s->keys, s->depth);
    return *p == '}' ? DF_TOK_OBJECT_END : DF_TOK_ARRAY_END;
}

/* A string value whose content after `from` is cut: returns the part that is there, if parts are
 * wanted. */
static enum df_json_token string_part(struct df_json_scan *s, const char *from)
{
    if (s->answer != DF_TOK_MORE || !(s->flags & DF_JSON_PARTS) || s->whole == from)
        return s->answer;
    s->text = df_str_n(from, (size_t)(s->whole - from));
    s->p = s->whole;
    s->state = IN_STRING;
    return DF_TOK_STRING_PART;
}

static ALWAYS_INLINE enum df_json_token scan_string(struct df_json_scan *s, const char *from)
{
    const char *quote = scan_text(s, from);

    if (!quote)
        return string_part(s, from);
    s->text = df_str_n(from, (size_t)(quote - from));
    s->p = quote + 1;
    s->state = s->depth ? NEXT : DONE;
    return DF_TOK_STRING;
}

static enum df_json_token go_on_with_string(struct df_json_scan *s)
{
    s->start = s->p;
    return scan_string(s, s->p);
}

/* From here on p is past white space, unless the window ends there. */

static ALWAYS_INLINE enum df_json_token scan_key(struct df_json_scan *s, const char *p,
                                                 enum fault otherwise)
{
    s->start = p;
    if (p == s->end || *p != '"') {
        set_fault_or_cut(s, otherwise, p);
        return s->answer;
    }
    const char *quote = scan_text(s, p + 1);
    if (!quote)
        return s->answer;
    s->text = df_str_n(p + 1, (size_t)(quote - p - 1));
    if (s->flags & DF_JSON_UNIQUE_KEYS) {
        enum df_json_keys_result r = df_json_keys_add(&s->keys, s->text, s->escaped);
        if (r != DF_JSON_KEYS_NEW)
            return fault_token(s, r == DF_JSON_KEYS_TWICE ? TWICE : TOO_MANY, p);
    }
    s->p = quote + 1;
    s->state = COLON;
    return DF_TOK_KEY;
}

static ALWAYS_INLINE enum df_json_token scan_value(struct df_json_scan *s, const char *p,
                                                   enum fault otherwise)
{
    enum df_json_token t;

    s->start = p;
    if (p == s->end) {
        set_cut(s);
        return s->answer;
    }
    switch (*p) {
    case '{':
        return open_level(s, DF_TOK_OBJECT);
    case '[':
        return open_level(s, DF_TOK_ARRAY);
    case '"':
        return scan_string(s, p + 1);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        t = DF_TOK_NUMBER;
        p = scan_number(s, p);
        break;
    case 't':
        t = DF_TOK_TRUE;
        p = scan_word(s, p, "true", 4, NO_TRUE);
        break;
    case 'f':
        t = DF_TOK_FALSE;
        p = scan_word(s, p, "false", 5, NO_FALSE);
        break;
    case 'n':
        t = DF_TOK_NULL;
        p = scan_word(s, p, "null", 4, NO_NULL);
        break;
    default:
        return fault_token(s, otherwise, p);
    }
    if (!p)
        return s->answer;
    s->text = df_str_n(s->start, (size_t)(p - s->start));
    s->p = p;
    s->state = s->depth ? NEXT : DONE;
    return t;
}

/* Skips a byte order mark if that is allowed; otherwise it is refused like any other non-value. */
static bool start_document(struct df_json_scan *s)
{
    static const char mark[3] = "\xEF\xBB\xBF";
    size_t have = (size_t)(s->end - s->p);

    if (s->flags & DF_JSON_BOM) {
        if (have < sizeof(mark) && memcmp(s->p, mark, have) == 0 && !s->final)
            return false;
        if (have >= sizeof(mark) && memcmp(s->p, mark, sizeof(mark)) == 0)
            s->p += sizeof(mark);
    }
    s->state = VALUE;
    return true;
}

static enum df_json_token finish_document(struct df_json_scan *s)
{
    s->p = df_json_skip_space(s->p, s->end);
    if (s->p < s->end)
        return fault_token(s, NO_END, s->p);
    return s->final ? DF_TOK_END : DF_TOK_MORE;
}

static ALWAYS_INLINE enum df_json_token scan_token(struct df_json_scan *s)
{
    enum fault otherwise = NO_VALUE;
    bool is_key = false;

    if (__builtin_expect(s->state >= START, 0)) {
        if (s->state == IN_STRING)
            return go_on_with_string(s);
        if (s->state == DONE)
            return finish_document(s);
        if (!start_document(s))
            return DF_TOK_MORE;
    }
    const char *p = s->p = df_json_skip_space(s->p, s->end);
    if (p == s->end) {
        set_cut(s);
        return s->answer;
    }
    switch ((enum state)s->state) {
    case NEXT:
        is_key = s->stack[s->depth] == '}';
        if (*p == s->stack[s->depth])
            return close_level(s, p);
        if (*p != ',')
            return fault_token(s, is_key ? NO_NEXT_KEY : NO_NEXT_ITEM, p);
        p = s->p = df_json_skip_space(p + 1, s->end);
        s->state = is_key ? KEY : VALUE;
        otherwise = is_key ? NO_KEY : NO_VALUE;
        break;
    case COLON:
        if (*p != ':')
            return fault_token(s, NO_COLON, p);
        p = s->p = df_json_skip_space(p + 1, s->end);
        s->state = VALUE;
        break;
    case FIRST_KEY:
        if (*p == '}')
            return close_level(s, p);
        is_key = true;
        otherwise = NO_FIRST_KEY;
        break;
    case KEY:
        is_key = true;
        otherwise = NO_KEY;
        break;
    case FIRST_ITEM:
        if (*p == ']')
            return close_level(s, p);
        otherwise = NO_FIRST_ITEM;
        break;
    case VALUE:
    case START:
    case IN_STRING:
    case DONE:
        break;
    }
    return is_key ? scan_key(s, p, otherwise) : scan_value(s, p, otherwise);
}

enum df_json_token df_json_scan_next(struct df_json_scan *s)
{
    return scan_token(s);
}

enum df_json_token df_json_scan_skip(struct df_json_scan *s, unsigned depth)
{
    enum df_json_token t;

    do
        t = scan_token(s);
    while (t > DF_TOK_END && s->depth > depth);
    return t;
}

/* Describes the byte at p for a message: as a character if it can be shown. */
static const char *describe_byte(const struct df_json_scan *s, const char *p, char buf[16])
{
    if (p == s->end)
        return "the end of the input";
    if ((unsigned char)*p > 0x20 && (unsigned char)*p < 0x7F)
        snprintf(buf, 16, "'%c'", *p);
    else
        snprintf(buf, 16, "byte 0x%02X", (unsigned)(unsigned char)*p);
    return buf;
}

enum df_code df_json_scan_error(const struct df_json_scan *s, struct df_err *err)
{
    int64_t at = s->begin_offset + (s->fault_at - s->begin);
    long long n = (long long)at;
    char buf[16];

    switch ((enum fault)s->fault) {
    case CUT:
        return df_err_at(err, DF_E_MALFORMED_JSON, at, "the document ends too early, at byte %lld",
                         n);
    case CONTROL:
        return df_err_at(err, DF_E_MALFORMED_JSON, at,
                         "control character 0x%02X in a string at byte %lld must be escaped",
                         (unsigned)(unsigned char)*s->fault_at, n);
    case BAD_UTF8:
        return df_err_at(err, DF_E_INVALID_TEXT, at, "invalid UTF-8 at byte %lld", n);
    case SURROGATE:
        return df_err_at(err, DF_E_INVALID_TEXT, at, "lone surrogate in an escape at byte %lld", n);
    case NUL:
        return df_err_at(err, DF_E_INVALID_TEXT, at, "NUL character in a string at byte %lld", n);
    case TWICE:
        return df_err_at(err, DF_E_DUPLICATE_KEY, at,
                         "the name at byte %lld stands twice in the same object", n);
    case TOO_MANY:
        return df_err_at(err, DF_E_TOO_LARGE, at, "too many or too long names at byte %lld", n);
    case TOO_DEEP:
        return df_err_at(err, DF_E_TOO_DEEP, at, "nested deeper than %u levels at byte %lld",
                         s->max_depth, n);
    case NO_VALUE:
    case NO_FIRST_ITEM:
    case NO_FIRST_KEY:
    case NO_KEY:
    case NO_COLON:
    case NO_NEXT_ITEM:
    case NO_NEXT_KEY:
    case NO_END:
    case NO_DIGIT:
    case NO_HEX:
    case NO_ESCAPE:
    case NO_TRUE:
    case NO_FALSE:
    case NO_NULL:
        break;
    }
    return df_err_at(err, DF_E_MALFORMED_JSON, at, "expected %s at byte %lld, found %s",
                     expected[s->fault], n, describe_byte(s, s->fault_at, buf));
}

enum df_code df_json_check(struct df_str input, unsigned flags, unsigned max_depth,
                           struct df_err *err)
{
    struct df_json_scan s;
    enum df_json_token t;
    enum df_code rc = DF_OK;

    df_json_scan_init(&s, flags & ~(unsigned)DF_JSON_PARTS, max_depth);
    s.keys.copy_depth = 0;
    df_json_scan_window(&s, input, 0, true);
    do
        t = scan_token(&s);
    while (t > DF_TOK_END);
    if (t == DF_TOK_ERROR)
        rc = df_json_scan_error(&s, err);
    df_json_scan_release(&s);
    return rc;
}
