/*
 * Phones as people type them and tools export them, turned into E.164. The text is cut into runs of
 * digits; the first run that is a valid number wins. If none is, the reason is that of the first.
 *
 * The length alone decides how a number without + or 00 is read, so that nothing is guessed:
 *
 *     8, 9     a subscriber number: refused, the area code is missing
 *     10, 11   area code and subscriber number (55 is an area code too)
 *     12, 13   the same after the country code 55
 *
 * Trunk zeros do not count, nor does a carrier's code after a trunk zero. Every other number must
 * begin with + or 00.
 *
 * Written here because Debian's libphonenumber is C++ and brings protobuf and ICU, for what takes
 * one file.
 */
#include "tabular/normalise.h"

#define DIGITS_MAX       32 /* a longer run is no number */
#define NUMBER_MIN       8  /* digits after which a separator or a word ends a number */
#define NUMBER_WITH_AREA 10 /* digits of the shortest number with an area code */
#define NUMBER_BYTES     64 /* searched for a second number; bounds the work for each blank */

static const char why_empty[] = "no digits in it";
static const char why_short[] = "too few digits";
static const char why_long[] = "too many digits for Brazil; other countries' numbers begin with +";
static const char why_area_missing[] = "the area code is missing";
static const char why_area[] = "no such area code in Brazil";
static const char why_nine[] = "nine digits after the area code, but the first is not 9";
static const char why_eight[] = "no number in Brazil begins with 0 or 1 after the area code";
static const char why_length[] = "neither eight nor nine digits after the area code";
static const char why_service[] = "a service number, not a person's";
static const char why_same[] = "all digits are the same";
static const char why_letters[] = "letters in the middle of it";
static const char why_lost[] = "digits were lost to scientific notation: the column must be text";
static const char why_country[] = "no such country code";
static const char why_nanp[] = "not a number of the North American plan";
static const char why_foreign[] = "too few or too many digits for another country's number";

struct run {
    char digits[DIGITS_MAX];
    size_t count;
    bool plus;
    bool letters;
    bool zero_x; /* the last character was a trunk zero, or an x after it, as in 0XX11 */
};

/* Brazil's 67 area codes: code n is bit n % 10 of row n / 10. */
static const unsigned short areas[10] = {
    0,
    0x3FE,                                                        /* 11-19 */
    1 << 1 | 1 << 2 | 1 << 4 | 1 << 7 | 1 << 8,                   /* 21 22 24 27 28 */
    1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8, /* 31-35 37 38 */
    0x3FE,                                                        /* 41-49 */
    1 << 1 | 1 << 3 | 1 << 4 | 1 << 5,                            /* 51 53-55 */
    0x3FE,                                                        /* 61-69 */
    1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 9,          /* 71 73-75 77 79 */
    0x3FE,                                                        /* 81-89 */
    0x3FE,                                                        /* 91-99 */
};

/* Country codes in use (ITU E.164) of two and of three digits; 1 and 7 are in country_code. */
static const char *const countries_two = "20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 "
                                         "52 53 54 55 56 57 58 60 61 62 63 64 65 66 81 82 84 86 90 "
                                         "91 92 93 94 95 98 ";
static const char *const countries_three =
    "211 212 213 216 218 220 221 222 223 224 225 226 227 228 229 230 231 232 233 234 235 236 237 "
    "238 239 240 241 242 243 244 245 246 247 248 249 250 251 252 253 254 255 256 257 258 260 261 "
    "262 263 264 265 266 267 268 269 290 291 297 298 299 350 351 352 353 354 355 356 357 358 359 "
    "370 371 372 373 374 375 376 377 378 380 381 382 383 385 386 387 389 420 421 423 500 501 502 "
    "503 504 505 506 507 508 509 590 591 592 593 594 595 596 597 598 599 670 672 673 674 675 676 "
    "677 678 679 680 681 682 683 685 686 687 688 689 690 691 692 850 852 853 855 856 870 880 881 "
    "882 883 886 960 961 962 963 964 965 966 967 968 970 971 972 973 974 975 976 977 979 992 993 "
    "994 995 996 998 ";
/* Countries whose national form begins with a zero that the international form drops. */
static const char *const countries_trunk = "31 32 33 41 43 44 46 49 61 64 81 82 ";

static bool has_code(const char *list, const char *code, size_t len)
{
    for (; *list; list += len + 1)
        if (list[0] == code[0] && list[1] == code[1] && (len == 2 || list[2] == code[2]))
            return true;
    return false;
}

/* The length of the country code at the start of d, or 0. */
static size_t country_code(const char *d, size_t count)
{
    if (count > 1 && d[0] == '5' && d[1] == '5')
        return 2;
    if (count > 0 && (d[0] == '1' || d[0] == '7'))
        return 1;
    if (count > 1 && has_code(countries_two, d, 2))
        return 2;
    return count > 2 && has_code(countries_three, d, 3) ? 3 : 0;
}

static const char *put_number(char *out, const char *code, size_t code_len, const char *d,
                              size_t count)
{
    *out++ = '+';
    memcpy(out, code, code_len);
    memcpy(out + code_len, d, count);
    out[code_len + count] = '\0';
    return NULL;
}

static bool is_area(const char *d)
{
    return areas[d[0] - '0'] >> (d[1] - '0') & 1;
}

/* 0800, 0300, 0500 and 0900 without the zero. No area code is 80, 30, 50 or 90, so ten digits that
 * begin with one of these are a service number too. */
static bool is_service(const char *d, size_t count)
{
    return count >= 9 && count <= 11 && d[1] == '0' && d[2] == '0' &&
           (d[0] == '3' || d[0] == '5' || d[0] == '8' || d[0] == '9');
}

static bool all_same(const char *d, size_t count)
{
    return count > 0 && memcmp(d, d + 1, count - 1) == 0;
}

/* d is an area code and a subscriber number. This and the functions below write the number into out
 * and return NULL, or return why it is not valid. */
static const char *brazil_number(const char *d, size_t count, char *out)
{
    char full[11];

    if (count < 10)
        return count == 8 || count == 9 ? why_area_missing : why_short;
    if (count == 10 && is_service(d, count))
        return why_service;
    if (!is_area(d))
        return why_area;
    if (count > 11)
        return why_length;
    if (all_same(d, count))
        return why_same;
    if (count == 11)
        return d[2] == '9' ? put_number(out, "55", 2, d, count) : why_nine;
    if (d[2] < '2')
        return why_eight;
    if (d[2] < '6')
        return put_number(out, "55", 2, d, count);
    /* A mobile number from before the ninth digit. */
    memcpy(full, d, 2);
    full[2] = '9';
    memcpy(full + 3, d + 2, 8);
    return put_number(out, "55", 2, full, 11);
}

static const char *without_zeros(const char *d, size_t *count)
{
    while (*count > 0 && *d == '0') {
        d++;
        --*count;
    }
    return d;
}

static const char *international_number(const char *d, size_t count, char *out)
{
    size_t code = country_code(d, count);
    const char *rest = d + code;
    size_t len = count - code;

    if (code == 0)
        return count == 0 ? why_empty : why_country;
    if (code == 2 && memcmp(d, "55", 2) == 0) {
        rest = without_zeros(rest, &len);
        return brazil_number(rest, len, out);
    }
    if (code == 1 && d[0] == '1')
        return len == 10 && rest[0] >= '2' && rest[3] >= '2' ? put_number(out, d, 1, rest, len)
                                                             : why_nanp;
    if (code == 2 && len > 0 && *rest == '0' && has_code(countries_trunk, d, 2)) {
        rest++;
        len--;
    }
    if (len < 4 || code + len < 7 || code + len > 15)
        return why_foreign;
    return all_same(rest, len) ? why_same : put_number(out, d, code, rest, len);
}

/* A number dialled with 00: a country code follows, perhaps after a carrier's code. 55 is never a
 * carrier's code: else an invalid Brazilian number would be read as one of another country. */
static const char *dialled_number(const char *d, size_t count, char *out)
{
    const char *why = international_number(d, count, out);
    char other[17];

    if (why && count > 12 && memcmp(d, "55", 2) != 0 &&
        international_number(d + 2, count - 2, other) == NULL) {
        memcpy(out, other, sizeof(other));
        return NULL;
    }
    return why;
}

static const char *domestic_number(const char *d, size_t count, char *out)
{
    const char *n = d;
    size_t len = count;
    bool trunk = count > 0 && d[0] == '0';

    n = without_zeros(n, &len);
    if (len >= 12 && len <= 13 && n[0] == '5' && n[1] == '5')
        return brazil_number(n + 2, len - 2, out);
    if (trunk && len >= 12 && len <= 13 && n[1] != '0')
        return brazil_number(n + 2, len - 2, out); /* the carrier's code */
    if (trunk && is_service(n, len))
        return why_service;
    return len > 11 ? why_long : brazil_number(n, len, out);
}

static const char *run_to_number(const struct run *r, char *out)
{
    const char *d = r->digits;

    if (r->letters)
        return why_letters;
    if (r->count == 0)
        return why_empty;
    if (r->count == DIGITS_MAX)
        return why_long;
    if (r->plus)
        return international_number(d, r->count, out);
    if (r->count > 11 && d[0] == '0' && d[1] == '0')
        return dialled_number(d + 2, r->count - 2, out);
    return domestic_number(d, r->count, out);
}

/* What a character means in a phone. */
enum what { DIGIT, PLUS, BLANK, MARK, CUT, SOFT_CUT, COLON, LETTER };

struct glyph {
    enum what what;
    char digit;
    size_t len;
};

static struct glyph ascii_glyph(char c)
{
    struct glyph g = {MARK, c, 1};

    if (c >= '0' && c <= '9')
        g.what = DIGIT;
    else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        g.what = LETTER;
    else if (c == '+')
        g.what = PLUS;
    else if (c == ' ' || c == '\t')
        g.what = BLANK;
    else if (c == ';' || c == '|' || c == '\n' || c == '\r')
        g.what = CUT;
    else if (c == '/' || c == ',' || c == '&' || c == '\\')
        g.what = SOFT_CUT;
    else if (c == ':' || c == '=' || c == '?')
        g.what = COLON;
    return g;
}

/* Knows full-width forms, spaces, dashes and invisible marks of Unicode; the rest are letters. */
static struct glyph glyph_at(const char *text, const char *end)
{
    const unsigned char *p = (const unsigned char *)text;
    struct glyph g = {LETTER, 0, 1};

    if (p[0] < 0x80)
        return ascii_glyph(*text);
    while (text + g.len < end && (p[g.len] & 0xC0) == 0x80)
        g.len++;
    unsigned c = g.len == 2   ? (p[0] & 0x1FU) << 6 | (p[1] & 0x3FU)
                 : g.len == 3 ? (p[0] & 0x0FU) << 12 | (p[1] & 0x3FU) << 6 | (p[2] & 0x3FU)
                              : 0;
    if (c > 0xFF00 && c <= 0xFF5E) { /* full width */
        size_t len = g.len;
        g = ascii_glyph((char)(c - 0xFF00 + 0x20));
        g.len = len;
    } else if (c == 0xA0 || (c >= 0x2000 && c <= 0x200A) || c == 0x202F || c == 0x3000) {
        g.what = BLANK;
    } else if (c == 0x2028 || c == 0x2029) {
        g.what = CUT;
    } else if (c == 0xAD || c == 0xB7 || c == 0xB4 || (c >= 0x200B && c <= 0x206F) || c == 0x2212 ||
               c == 0xFEFF || c == 0x260E || c == 0x260F || c == 0x2022) {
        g.what = MARK;
    }
    return g;
}

struct cursor {
    const char *p;
    const char *end;
};

/* For marks of several characters: " - " between two numbers, "(0)" after a country code. */
static bool text_is_at(const struct cursor *c, const char *what)
{
    size_t len = strlen(what);
    return (size_t)(c->end - c->p) >= len && memcmp(c->p, what, len) == 0;
}

/* A letter belongs to a label before the number, is an x of 0XX, begins a text after the number, or
 * is a mistake. False: the run ends before it. */
static bool take_letter(struct run *r, char c)
{
    if (r->count >= NUMBER_MIN)
        return false;
    if (r->zero_x && (c == 'x' || c == 'X'))
        return true;
    r->letters = r->letters || r->count > 0;
    r->zero_x = false;
    return true;
}

static void take_digit(struct run *r, char digit)
{
    bool begins = r->count == 0 || (r->count == 2 && memcmp(r->digits, "55", 2) == 0);

    r->zero_x = begins && digit == '0';
    if (r->count < DIGITS_MAX)
        r->digits[r->count++] = digit;
}

/* At a blank after a complete number: whether another number follows directly. */
static bool another_follows(const struct cursor *c, const struct run *r)
{
    const char *end = c->end - c->p > NUMBER_BYTES ? c->p + NUMBER_BYTES : c->end;
    size_t digits = 0;
    char number[17];

    if (run_to_number(r, number) != NULL)
        return false;
    for (const char *p = c->p; p < end;) {
        struct glyph g = glyph_at(p, c->end);
        if (g.what == CUT || g.what == LETTER)
            break;
        digits += g.what == DIGIT;
        p += g.len;
    }
    return digits >= NUMBER_WITH_AREA;
}

/* The next run, or false at the end of the text. */
static bool next_run(struct cursor *c, struct run *r)
{
    *r = (struct run){.count = 0};
    if (c->p == c->end)
        return false;
    while (c->p < c->end) {
        struct glyph g = glyph_at(c->p, c->end);
        bool enough = r->count >= NUMBER_MIN;
        if (r->plus && text_is_at(c, "(0)"))
            g = (struct glyph){MARK, 0, 3};
        switch (g.what) {
        case DIGIT:
            take_digit(r, g.digit);
            break;
        case PLUS:
            if (enough)
                return true;
            *r = (struct run){.plus = true};
            break;
        case LETTER:
            if (!take_letter(r, g.digit))
                goto ended;
            break;
        case COLON:
            if (enough)
                goto ended;
            *r = (struct run){.count = 0};
            break;
        case BLANK:
            if (enough && (text_is_at(c, " - ") || another_follows(c, r)))
                goto ended;
            break;
        case SOFT_CUT:
            if (enough)
                goto ended;
            break;
        case CUT:
            goto ended;
        case MARK:
            break;
        }
        c->p += g.len;
    }
    return true;
ended:
    c->p += glyph_at(c->p, c->end).len;
    return true;
}

/*
 * Reads a number that a spreadsheet stored as a float. "5511912345678.0" loses its fraction of
 * zeros; "5.511912345678E+12" has all its digits, "5,51E+12" does not. False: not a float. True and
 * *ret_why: digits are missing.
 */
static bool read_float(struct df_str text, struct run *r, const char **ret_why)
{
    size_t i = 0, point = 0, fraction = 0;
    unsigned exponent = 0;

    *r = (struct run){.count = 0};
    for (; i < text.len; i++) {
        char c = text.ptr[i];
        if (c >= '0' && c <= '9') {
            fraction += point;
            take_digit(r, c);
        } else if ((c == '.' || c == ',') && point == 0 && r->count > 0) {
            point = 1;
        } else {
            break;
        }
    }
    if (r->count == DIGITS_MAX)
        return false;
    if (i < text.len && (text.ptr[i] == 'e' || text.ptr[i] == 'E')) {
        i += i + 1 < text.len && text.ptr[i + 1] == '+' ? 2 : 1;
        if (i == text.len || text.len - i > 2)
            return false;
        for (; i < text.len; i++) {
            if (text.ptr[i] < '0' || text.ptr[i] > '9')
                return false;
            exponent = exponent * 10 + (unsigned)(text.ptr[i] - '0');
        }
        /* Drop zeros after the point that the exponent does not reach. */
        while (fraction > exponent && r->digits[r->count - 1] == '0') {
            r->count--;
            fraction--;
        }
        *ret_why = fraction == exponent ? NULL : why_lost;
        return r->count > 0;
    }
    if (i < text.len || !point || fraction > 2 || r->count - fraction < NUMBER_MIN)
        return false;
    for (size_t k = 1; k <= fraction; k++)
        if (r->digits[r->count - k] != '0')
            return false;
    r->count -= fraction;
    *ret_why = NULL;
    return true;
}

/*
 * Most phones are one number of digits, brackets, dashes and spaces: those are read here, quickly.
 * False: the text needs the full reading. A bracket before a zero may be "(0)", a dash after a
 * space may part two numbers, and many digits may be two numbers.
 */
static bool is_plain_phone(struct df_str text, struct run *r)
{
    const char *p = text.ptr, *end = p + text.len;

    r->count = 0;
    r->letters = false;
    r->plus = p < end && *p == '+';
    if (text.len > DIGITS_MAX)
        return false;
    for (p += r->plus; p < end; p++) {
        if (*p >= '0' && *p <= '9')
            r->digits[r->count++] = *p;
        else if (*p == '('   ? p + 1 < end && p[1] == '0'
                 : *p == '-' ? p == text.ptr || p[-1] == ' '
                             : *p != ')' && *p != ' ')
            return false;
    }
    return r->count > 0 && r->count < (size_t)2 * NUMBER_WITH_AREA;
}

const char *df_phone_code(const char *why)
{
    static const struct {
        const char *why, *code;
    } codes[] = {
        {why_empty, "PhoneWithoutDigits"},
        {why_short, "PhoneTooShort"},
        {why_long, "PhoneTooLong"},
        {why_area_missing, "PhoneAreaCodeMissing"},
        {why_area, "PhoneAreaCodeUnknown"},
        {why_nine, "PhoneNinthDigitInvalid"},
        {why_eight, "PhoneFirstDigitInvalid"},
        {why_length, "PhoneLengthInvalid"},
        {why_service, "PhoneServiceNumber"},
        {why_same, "PhoneDigitsAllSame"},
        {why_letters, "PhoneHasLetters"},
        {why_lost, "PhoneDigitsLost"},
        {why_country, "PhoneCountryUnknown"},
        {why_nanp, "PhoneNorthAmericaInvalid"},
        {why_foreign, "PhoneForeignLengthInvalid"},
    };

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].why == why)
            return codes[i].code;
    return "PhoneMissing";
}

bool df_phone_normalise(struct df_str text, char *out, const char **ret_why)
{
    struct cursor c;
    struct run r;
    const char *first = NULL;
    bool digits = false; /* the run that gave the reason had digits */

    if (is_plain_phone(text, &r)) {
        *ret_why = run_to_number(&r, out);
        return !*ret_why;
    }
    text = df_str_trim(text);
    if (read_float(text, &r, ret_why)) {
        if (!*ret_why)
            *ret_why = run_to_number(&r, out);
        return !*ret_why;
    }
    c = (struct cursor){text.ptr, text.ptr + text.len};
    while (next_run(&c, &r)) {
        const char *why = run_to_number(&r, out);
        if (!why)
            return true;
        if (!first || (!digits && r.count > 0))
            first = why;
        digits = digits || r.count > 0;
    }
    *ret_why = first ? first : why_empty;
    return false;
}
