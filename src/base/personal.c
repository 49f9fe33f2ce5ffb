/*
 * A text is read word by word; a word is a run of ASCII letters and digits. Words that separators
 * join (". - / ( )" and blanks) are groups of one number when their lengths and digits fit a
 * document or a phone. At each word at most GROUPS_MAX groups of at most GROUP_MAX characters are
 * looked at, and at each @ at most an address's length, so that the work is linear.
 *
 * An escape (%2B, \n, \u002b) ends a word, so that a number in a URL or in quoted JSON is found.
 */
#include "base/personal.h"

#define GROUPS_MAX    6
#define GROUP_MAX     15
#define LOCAL_MAX     64 /* of an address, before the @ */
#define PHONE_MAX     15 /* digits, E.164 */
#define PHONE_MIN     8
#define PHONE_ENOUGH  10 /* digits after which another country's number may end */
#define UUID_LEN      36
#define NUMBER_STAYS  2   /* characters of a number that are shown */
#define FOUND_MAX     400 /* bytes, more than any number or address has */
#define SEPARATOR_MAX 3   /* bytes between two groups: ") ", " - ", or one of Unicode's dashes */

enum glyph { OTHER, DIGIT, LETTER };

static enum glyph glyph_of(char c)
{
    if ((unsigned)(unsigned char)c - '0' < 10)
        return DIGIT;
    return ((unsigned)(unsigned char)c | 0x20) - 'a' < 26 ? LETTER : OTHER;
}

static char to_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* --- documents -------------------------------------------------------------------------------- */

static bool all_same(const char *d, size_t n)
{
    return memcmp(d, d + 1, n - 1) == 0;
}

/* The check digit after the n characters d; their weights from the right are 2, 3, … up to top,
 * and then 2 again. */
static char check_digit(const char *d, size_t n, unsigned top)
{
    unsigned sum = 0, weight = 2;

    for (size_t i = n; i-- > 0;) {
        sum += (unsigned)(d[i] - '0') * weight;
        weight = weight == top ? 2 : weight + 1;
    }
    return (char)(sum % 11 < 2 ? '0' : '0' + 11 - sum % 11);
}

/* d is in capitals. The last two characters of a document are digits. */
static enum df_document document_of(const char *d, size_t n)
{
    size_t digits = 0;

    for (size_t i = 0; i < n; i++)
        digits += glyph_of(d[i]) == DIGIT;
    if (n == 11 && digits == n && !all_same(d, n) && check_digit(d, 9, 11) == d[9] &&
        check_digit(d, 10, 11) == d[10])
        return DF_DOCUMENT_CPF;
    if (n == 14 && glyph_of(d[12]) == DIGIT && glyph_of(d[13]) == DIGIT && !all_same(d, n) &&
        check_digit(d, 12, 9) == d[12] && check_digit(d, 13, 9) == d[13])
        return DF_DOCUMENT_CNPJ;
    return DF_DOCUMENT_NONE;
}

enum df_document df_document_parse(struct df_str text, char out[DF_DOCUMENT_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (glyph_of(c) != OTHER) {
            if (n == DF_DOCUMENT_MAX - 1)
                return DF_DOCUMENT_NONE;
            out[n++] = to_upper(c);
        } else if (c != '.' && c != '-' && c != '/' && c != ' ') {
            return DF_DOCUMENT_NONE;
        }
    }
    out[n] = '\0';
    return document_of(out, n);
}

/* --- e-mail ----------------------------------------------------------------------------------- */

static bool is_local(char c)
{
    return glyph_of(c) != OTHER || (unsigned char)c >= 0x80 || (c && strchr("._+-'", c));
}

static bool is_domain(char c)
{
    return glyph_of(c) != OTHER || (unsigned char)c >= 0x80 || c == '.' || c == '-';
}

/* The end of the domain that begins at p, or NULL: it needs a dot and two letters after it. */
static const char *domain_end(const char *p, const char *end)
{
    const char *stop = p, *dot = NULL;

    if (p == end || *p == '.' || *p == '-')
        return NULL;
    while (stop < end && stop - p < DF_EMAIL_MAX - 1 && is_domain(*stop))
        stop++;
    while (stop > p && (stop[-1] == '.' || stop[-1] == '-'))
        stop--;
    for (const char *q = p; q < stop; q++) {
        if (*q == '.' && q[1] == '.')
            return NULL;
        if (*q == '.')
            dot = q;
    }
    if (!dot || stop - dot < 3)
        return NULL;
    for (const char *q = dot + 1; q < stop; q++)
        if (glyph_of(*q) == DIGIT)
            return NULL;
    return stop;
}

/* The first byte of the part before the @, or NULL: there is none. `begin` is as far as it goes. */
static const char *local_start(const char *begin, const char *at)
{
    const char *p = at;

    if (at - begin > LOCAL_MAX)
        begin = at - LOCAL_MAX;
    while (p > begin && is_local(p[-1]))
        p--;
    while (p < at && (*p == '.' || *p == '-' || *p == '\'' || ((unsigned char)*p & 0xC0) == 0x80))
        p++;
    return p < at && at[-1] != '.' ? p : NULL;
}

bool df_email_parse(struct df_str text, char out[DF_EMAIL_MAX])
{
    const char *end = text.ptr + text.len;
    const char *at =
        text.len > 0 && text.len < DF_EMAIL_MAX ? memchr(text.ptr, '@', text.len) : NULL;

    if (!at || local_start(text.ptr, at) != text.ptr || domain_end(at + 1, end) != end)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '.' && i + 1 < text.len && text.ptr[i + 1] == '.')
            return false;
        out[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    out[text.len] = '\0';
    return true;
}

/* --- groups of a number ----------------------------------------------------------------------- */

struct group {
    const char *p;
    size_t len;
    bool digits; /* and nothing else */
    bool slash;  /* before it: a document may have one, a phone not */
};

static const char *word_end(const char *p, const char *end, bool *ret_digits)
{
    *ret_digits = true;
    while (p < end && glyph_of(*p) != OTHER)
        *ret_digits &= glyph_of(*p++) == DIGIT;
    return p;
}

/* The length of the separator at p, or 0. */
static size_t separator_len(const char *p, const char *end)
{
    const unsigned char *u = (const unsigned char *)p;

    if (p == end)
        return 0;
    if (*p == ' ' || (*p >= '(' && *p <= '/' && *p != '*' && *p != '+' && *p != ','))
        return 1;                                     /* ( ) - . / */
    if (end - p >= 2 && u[0] == 0xC2 && u[1] == 0xA0) /* a space that does not break */
        return 2;
    /* Unicode's spaces and dashes: U+2000 to U+2015, U+202F. */
    return end - p >= 3 && u[0] == 0xE2 && u[1] == 0x80 &&
                   ((u[2] >= 0x80 && u[2] <= 0x95) || u[2] == 0xAF)
               ? 3
               : 0;
}

/* Reads the groups that begin at the word p. */
static size_t read_groups(const char *p, const char *end, struct group *g)
{
    size_t n = 0;
    bool slash = false;

    while (n < GROUPS_MAX) {
        const char *stop = end - p > GROUP_MAX + 1 ? p + GROUP_MAX + 1 : end;
        bool digits;
        const char *q = word_end(p, stop, &digits);
        if (q == p || q - p > GROUP_MAX)
            break;
        g[n++] = (struct group){p, (size_t)(q - p), digits, slash};
        slash = false;
        const char *last = q;
        for (size_t m;
             (m = separator_len(q, end)) > 0 && q - last + (ptrdiff_t)m <= SEPARATOR_MAX;) {
            slash = slash || *q == '/';
            q += m;
        }
        if (q == last)
            break;
        p = q;
    }
    return n;
}

/* How many groups from the first are one document; 0: none. */
static size_t document_groups(const struct group *g, size_t n)
{
    if (n == 0)
        return 0;
    static const unsigned char shapes[][GROUPS_MAX] = {
        {11}, {9, 2}, {3, 3, 3, 2}, {14}, {12, 2}, {8, 4, 2}, {2, 3, 3, 4, 2},
    };

    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        if (shapes[s][0] != g[0].len)
            continue;
        char plain[DF_DOCUMENT_MAX];
        size_t k = 0, len = 0;
        for (; k < n && shapes[s][k] == g[k].len && len + g[k].len < sizeof(plain); k++)
            for (size_t i = 0; i < g[k].len; i++)
                plain[len++] = to_upper(g[k].p[i]);
        if (shapes[s][k] == 0 && k > 0 && document_of(plain, len) != DF_DOCUMENT_NONE)
            return k;
    }
    return 0;
}

/* Brazil's 67 area codes: code n is bit n % 10 of row n / 10. */
static bool is_area(const char *d)
{
    static const unsigned short areas[10] = {0,     0x3FE, 0x196, 0x1BE, 0x3FE,
                                             0x03A, 0x3FE, 0x2BA, 0x3FE, 0x3FE};
    return areas[d[0] - '0'] >> (d[1] - '0') & 1;
}

/* Area code and subscriber number, perhaps after 00, 55 and a trunk zero. */
static bool is_brazilian(const char *d, size_t n)
{
    if (n > 13 && d[0] == '0' && d[1] == '0') {
        d += 2;
        n -= 2;
    }
    if ((n == 12 || n == 13) && d[0] == '5' && d[1] == '5') {
        d += 2;
        n -= 2;
    }
    if ((n == 11 || n == 12) && d[0] == '0') {
        d++;
        n--;
    }
    if ((n != 10 && n != 11) || !is_area(d) || all_same(d, n))
        return false;
    return n == 11 ? d[2] == '9' : d[2] >= '2';
}

/* Whether k groups are parted as a Brazilian number is: before its last four digits, or after its
 * area code. It keeps dates and amounts from being read as phones. */
static bool is_parted_as_phone(const struct group *g, size_t k)
{
    size_t last = g[k - 1].len;

    if (k == 1)
        return true;
    if (g[0].len < 2)
        return false;
    if (last == 4)
        return g[k - 2].len >= 4;
    return (last >= 8 && last <= 11) && g[k - 2].len <= 4;
}

/* How many groups from the first are one phone; 0: none. plus: a + stands before them. */
static size_t phone_groups(const struct group *g, size_t n, bool plus)
{
    char d[PHONE_MAX];
    size_t len = 0, best = 0, foreign = 0;

    for (size_t k = 0; k < n && g[k].digits && len + g[k].len <= PHONE_MAX; k++) {
        if (k > 0 && g[k].slash)
            break;
        memcpy(d + len, g[k].p, g[k].len);
        if (len < PHONE_ENOUGH && len + g[k].len >= PHONE_MIN)
            foreign = k + 1;
        len += g[k].len;
        if (is_parted_as_phone(g, k + 1) && is_brazilian(d, len))
            best = k + 1;
    }
    if (best == 0 && plus && len > 0 && d[0] != '0')
        best = foreign;
    return best;
}

/* --- finding ---------------------------------------------------------------------------------- */

enum found { NOTHING, NUMBER, EMAIL };

struct finder {
    const char *p; /* the next byte to look at */
    const char *end;
    const char *sign; /* the last @ that was looked for; end: there is none. NULL: not yet */
    /* The next address: [mail, mail_end), with its @ at `at`. NULL: there is none. */
    const char *mail, *at, *mail_end;
    /* What was found last. */
    const char *from, *to;
    const char *from_at; /* of an address */
};

static bool is_escaped(const char *p, const char *end, const char *code)
{
    return end - p >= 3 && p[0] == '%' && p[1] == code[0] && to_upper(p[2]) == code[1];
}

/* The first @ or %40 at or after p; NULL: there is none. An @ is looked for once, whatever stands
 * before it. */
static const char *find_at(struct finder *f, const char *p)
{
    if (!f->sign || f->sign < p) {
        f->sign = memchr(p, '@', (size_t)(f->end - p));
        f->sign = f->sign ? f->sign : f->end;
    }
    for (const char *q = p; q < f->sign && (q = memchr(q, '%', (size_t)(f->sign - q))); q++)
        if (f->sign - q >= 3 && q[1] == '4' && q[2] == '0')
            return q;
    return f->sign < f->end ? f->sign : NULL;
}

/* Finds the next address at or after p. */
static void find_mail(struct finder *f, const char *p)
{
    f->mail = NULL;
    for (const char *begin = p; begin < f->end && (f->at = find_at(f, begin));) {
        size_t len = *f->at == '@' ? 1 : 3;
        const char *start = local_start(begin, f->at);
        const char *stop = start ? domain_end(f->at + len, f->end) : NULL;
        /* "//user@host" is the address of a server. */
        if (stop && !(start - begin >= 2 && start[-1] == '/' && start[-2] == '/')) {
            f->mail = start;
            f->mail_end = stop;
            return;
        }
        begin = f->at + len;
    }
}

static bool is_uuid(const char *p, const char *end)
{
    if (end - p < UUID_LEN || (end - p > UUID_LEN && glyph_of(p[UUID_LEN]) != OTHER))
        return false;
    for (int i = 0; i < UUID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? p[i] != '-' : df_hex_digit(p[i]) < 0)
            return false;
    }
    return true;
}

/* The length of the escape at p, or 0. */
static size_t escape_len(const char *p, const char *end)
{
    ptrdiff_t left = end - p;

    if (*p == '%' && left >= 3 && df_hex_digit(p[1]) >= 0 && df_hex_digit(p[2]) >= 0)
        return 3;
    if (*p != '\\' || left < 2)
        return 0;
    if (p[1] != 'u' || left < 6)
        return 2;
    for (int i = 2; i < 6; i++)
        if (df_hex_digit(p[i]) < 0)
            return 2;
    return 6;
}

/* Looks at the word at f->p, before which a + may stand. */
static enum found find_number(struct finder *f, bool plus)
{
    struct group g[GROUPS_MAX];
    bool digits;
    const char *stop = word_end(f->p, f->end, &digits);
    size_t len = (size_t)(stop - f->p);

    f->from = f->p;
    if (len == 8 && is_uuid(f->p, f->end)) {
        f->p += UUID_LEN;
        return NOTHING;
    }
    f->p = stop;
    if (len > GROUP_MAX || (!digits && len != 2 && len != 8 && len != 12 && len != 14))
        return NOTHING;
    size_t n = read_groups(f->from, f->end, g);
    size_t document = document_groups(g, n), phone = phone_groups(g, n, plus);
    size_t k = document > phone ? document : phone;
    if (k == 0)
        return NOTHING;
    f->p = f->to = g[k - 1].p + g[k - 1].len;
    return NUMBER;
}

/* Finds the next number or address: [from, to). */
static enum found find_next(struct finder *f)
{
    bool plus = false;

    while (f->p < f->end) {
        if (f->mail && f->p >= f->mail) {
            f->from = f->mail;
            f->to = f->p = f->mail_end;
            f->from_at = f->at;
            find_mail(f, f->mail_end);
            return EMAIL;
        }
        if (glyph_of(*f->p) != OTHER) {
            enum found found = find_number(f, plus);
            plus = false;
            if (f->mail && f->p > f->mail && f->from < f->mail)
                f->p = f->mail; /* the word's end is a part of an address */
            else if (found != NOTHING)
                return found;
            continue;
        }
        size_t len = escape_len(f->p, f->end);
        if (is_escaped(f->p, f->end, "2B") ||
            (len == 6 && memcmp(f->p + 2, "002", 3) == 0 && to_upper(f->p[5]) == 'B') ||
            *f->p == '+')
            plus = true;
        else if (*f->p != '(')
            plus = false;
        f->p += len > 0 ? len : 1;
    }
    return NOTHING;
}

static struct finder start_finding(struct df_str text)
{
    struct finder f = {.p = text.ptr, .end = text.ptr};
    size_t digits = 0;

    if (text.len == 0)
        return f; /* it may be absent */
    f.end += text.len;
    find_mail(&f, f.p);
    for (size_t i = 0; i < text.len; i++)
        digits += glyph_of(text.ptr[i]) == DIGIT;
    if (digits < NUMBER_STAYS && !f.mail)
        f.p = f.end; /* every number has that many digits */
    return f;
}

bool df_text_is_personal(struct df_str text)
{
    struct finder f = start_finding(text);
    return find_next(&f) != NOTHING;
}

/* --- masking ---------------------------------------------------------------------------------- */

static void star_letters(char *p, const char *end)
{
    for (; p < end; p++)
        if (glyph_of(*p) != OTHER)
            *p = '*';
}

/* Keeps the first letter, the @ and the domain's last part. */
static void star_mail(char *p, const char *at, size_t at_len, char *end)
{
    size_t first = df_utf8_char(p, end);
    char *dot = end - 1;

    while (*dot != '.')
        dot--;
    for (char *q = p + (first > 0 ? first : 1); q < at; q++)
        *q = '*';
    for (char *q = p + (at - p) + at_len; q < dot; q++)
        *q = *q == '.' ? '.' : '*';
}

/* What is found is overwritten, so the length stays. */
bool df_mask_in_place(char *text, size_t len)
{
    struct finder f = start_finding(df_str_n(text, len));
    enum found found;
    bool changed = false;

    while ((found = find_next(&f)) != NOTHING) {
        changed = true;
        char *from = text + (f.from - text), *to = text + (f.to - text);
        if (found == NUMBER)
            star_letters(from, to - NUMBER_STAYS);
        else
            star_mail(from, f.from_at, *f.from_at == '@' ? 1 : 3, to);
    }
    return changed;
}

bool df_mask_text(struct df_str text, struct df_buf *out)
{
    size_t before = out->len;

    df_buf_adds(out, text);
    return !df_buf_failed(out) && text.len > 0 && df_mask_in_place(out->ptr + before, text.len);
}

struct df_str df_mask_note(struct df_str text, size_t max_units, struct df_arena *a)
{
    if (text.len == 0)
        return text;
    /* What begins before the end and goes beyond it is recognised as in the whole text. */
    if (max_units < SIZE_MAX - FOUND_MAX)
        text = df_utf8_cut(text, max_units + FOUND_MAX);
    char *whole = df_arena_cstr(a, text);
    df_mask_in_place(whole, text.len);
    return df_utf8_cut(df_str_n(whole, text.len), max_units);
}
