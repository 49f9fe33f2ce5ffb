#include "privacy/subjects.h"

#include "base/personal.h"
#include "keys/keys.h"
#include "tabular/headers_map.h"
#include "tabular/normalise.h"
#include "json/scan.h"

#include <stdlib.h>

#define NAME_MAX_BYTES  64   /* of a member's name that says something */
#define VALUE_MAX       320  /* a longer value is no number and no address */
#define TEXT_MAX        2048 /* a longer value holds no list of them */
#define PHONE_MAX       17
#define DOCUMENT_DIGITS 8 /* a shorter number is not taken for one that lost its zeros */
#define NESTED_MAX      2 /* JSON in strings of JSON */

#define NO_KIND         ((enum df_subject_kind)0)

const char *df_subject_kind_name(enum df_subject_kind kind)
{
    static const char *const names[] = {"", "phone", "document", "email"};
    return names[kind];
}

void df_subject_hex(const struct df_subject *s, char out[DF_SUBJECT_HEX])
{
    for (size_t i = 0; i < DF_SUBJECT_BYTES; i++) {
        out[2 * i] = "0123456789abcdef"[s->hash[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[s->hash[i] & 15];
    }
    out[DF_SUBJECT_HEX - 1] = '\0';
}

int64_t df_subject_number(const struct df_subject *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < 8; i++)
        n = n << 8 | s->hash[i];
    return (int64_t)n;
}

/* --- canonical forms -------------------------------------------------------------------------- */

static struct df_subject subject_of(const struct df_keys *k, enum df_subject_kind kind,
                                    const char *canonical)
{
    struct df_subject s = {.kind = kind};
    unsigned char hash[DF_HASH_BYTES];

    df_keys_hash(k, df_str_c(df_subject_kind_name(kind)), df_str_c(canonical), hash);
    memcpy(s.hash, hash, sizeof s.hash);
    return s;
}

static bool phone_of(struct df_str text, char out[VALUE_MAX])
{
    const char *why;
    return df_phone_normalise(text, out, &why);
}

static bool is_digits(struct df_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
    return text.len > 0;
}

/* A CPF or CNPJ that was a number somewhere has lost the zeros at its beginning. */
static bool padded_document_of(struct df_str text, char out[VALUE_MAX])
{
    char padded[15] = "00000000000000";

    if (!is_digits(text) || text.len < DOCUMENT_DIGITS || text.len > 14)
        return false;
    memcpy(padded + 14 - text.len, text.ptr, text.len);
    return (text.len <= 11 && df_document_parse(df_str_n(padded + 3, 11), out)) ||
           df_document_parse(df_str_n(padded, 14), out);
}

static bool document_of(struct df_str text, char out[VALUE_MAX])
{
    return df_document_parse(text, out) != DF_DOCUMENT_NONE || padded_document_of(text, out);
}

_Static_assert(DF_EMAIL_MAX <= VALUE_MAX && DF_DOCUMENT_MAX <= VALUE_MAX && PHONE_MAX <= VALUE_MAX,
               "every canonical form fits");

/* The canonical form of a text that is said to be of this kind. */
static bool canonical_of(enum df_subject_kind kind, struct df_str text, char out[VALUE_MAX])
{
    if (text.len >= VALUE_MAX)
        return false;
    switch (kind) {
    case DF_SUBJECT_PHONE:
        return phone_of(text, out);
    case DF_SUBJECT_DOCUMENT:
        return document_of(text, out);
    case DF_SUBJECT_EMAIL:
        return df_email_parse(text, out);
    }
    return false;
}

/* A phone in a document may have words around it; of a person who is asked for it is all there is,
 * or a sentence would mean the first number in it. */
static bool has_words(struct df_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '@' || c == ',' || c == ';' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'))
            return true;
    }
    return false;
}

enum df_code df_subject_parse(const struct df_keys *k, enum df_subject_kind kind,
                              struct df_str text, struct df_subject *ret, struct df_err *err)
{
    static const char *const why[] = {
        "", "is no phone number: give it with area code, or in the form +5511987654321",
        "is no CPF or CNPJ: length or check digits are wrong", "is no e-mail address"};
    char canonical[VALUE_MAX];

    text = df_str_trim(text);
    if ((kind == DF_SUBJECT_PHONE && has_words(text)) || !canonical_of(kind, text, canonical))
        return df_err_set(err, DF_E_VALIDATION, "%s", why[kind]);
    *ret = subject_of(k, kind, canonical);
    return DF_OK;
}

/* A bare number of eleven digits is never taken for a phone because its check digits are no CPF's:
 * they may be mistyped. */
/* No phone is written with a slash, or with the points and the dash of a CPF. */
static bool is_written_as_document(struct df_str text)
{
    return text.len > 0 &&
           (memchr(text.ptr, '/', text.len) ||
            (text.len == 14 && text.ptr[3] == '.' && text.ptr[7] == '.' && text.ptr[11] == '-'));
}

enum df_code df_subject_parse_any(const struct df_keys *k, struct df_str text,
                                  struct df_subject *ret, struct df_err *err)
{
    struct df_subject found;
    size_t kinds = 0;

    text = df_str_trim(text);
    int first = is_written_as_document(text) ? DF_SUBJECT_DOCUMENT : DF_SUBJECT_PHONE;
    for (int kind = first; kind <= DF_SUBJECT_EMAIL; kind++) {
        struct df_err why = DF_ERR_INIT;
        if (df_subject_parse(k, (enum df_subject_kind)kind, text, &found, &why) == DF_OK &&
            kinds++ == 0)
            *ret = found;
    }
    if (kinds > 1 || (text.len == 11 && is_digits(text)))
        return df_err_set(err, DF_E_SUBJECT_AMBIGUOUS,
                          "The number may be a CPF or a phone: say which, by document or phone.");
    if (kinds == 0)
        return df_err_set(err, DF_E_VALIDATION, "is no phone, CPF, CNPJ or e-mail address");
    return DF_OK;
}

/* --- names ------------------------------------------------------------------------------------ */

/* A part of a name that tells what its value is; `whole`: only the whole name does. */
struct word {
    struct df_str text;
    enum df_subject_kind kind;
    bool whole;
};

#define PART(kind, text)                                                                           \
    {                                                                                              \
        DF_STR_INIT(text), DF_SUBJECT_##kind, false                                                \
    }
#define WHOLE(kind, text)                                                                          \
    {                                                                                              \
        DF_STR_INIT(text), DF_SUBJECT_##kind, true                                                 \
    }

/* Where a name has several, the first word of the table decides. */
/* clang-format off */
static const struct word words[] = {
    PART(PHONE, "phone"), PART(PHONE, "fone"), PART(PHONE, "celular"), PART(PHONE, "whatsapp"),
    PART(PHONE, "mobile"), PART(PHONE, "msisdn"), PART(PHONE, "fax"),
    WHOLE(PHONE, "tel"), WHOLE(PHONE, "tel1"), WHOLE(PHONE, "tel2"), WHOLE(PHONE, "cel"), WHOLE(PHONE, "zap"),
    PART(DOCUMENT, "cpf"), PART(DOCUMENT, "cnpj"), PART(DOCUMENT, "document"), PART(DOCUMENT, "taxid"),
    PART(DOCUMENT, "taxno"), PART(DOCUMENT, "taxnumber"), PART(DOCUMENT, "fiscalnumber"),
    WHOLE(DOCUMENT, "doc"), WHOLE(DOCUMENT, "nif"),
};
/* clang-format on */
#define WORDS (sizeof words / sizeof words[0])

#undef PART
#undef WHOLE

static bool is_word_at(const struct word *w, struct df_str name, size_t at)
{
    size_t len = w->text.len;

    return name.ptr[at] == w->text.ptr[0] && at + len <= name.len &&
           (!w->whole || (at == 0 && len == name.len)) &&
           memcmp(name.ptr + at, w->text.ptr, len) == 0;
}

/* Whether a word may begin with this letter. Most letters of most names do not. */
static bool may_begin_word(char c)
{
    switch (c) {
    case 'p':
    case 'f':
    case 'c':
    case 'w':
    case 'm':
    case 't':
    case 'z':
    case 'd':
    case 'n':
        return true;
    default:
        return false;
    }
}

/* What a member's name says of its value. Addresses of e-mail need no name. */
static enum df_subject_kind kind_of_name(struct df_str name)
{
    char folded[NAME_MAX_BYTES];
    size_t best = WORDS;

    if (name.len == 0 || name.len > NAME_MAX_BYTES)
        return NO_KIND;
    struct df_str f = df_str_n(folded, df_header_fold(name, folded));
    for (size_t at = 0; at < f.len; at++) {
        if (!may_begin_word(f.ptr[at]))
            continue;
        for (size_t i = 0; i < best; i++) {
            if (is_word_at(&words[i], f, at))
                best = i;
        }
    }
    return best < WORDS ? words[best].kind : NO_KIND;
}

/* --- values ----------------------------------------------------------------------------------- */

static void add_subject(struct df_subjects *s, enum df_subject_kind kind, const char *canonical)
{
    if (s->count == s->max)
        return;
    struct df_subject found = subject_of(s->keys, kind, canonical);
    for (size_t i = 0; i < s->count; i++)
        if (s->at[i].kind == kind && memcmp(s->at[i].hash, found.hash, sizeof found.hash) == 0)
            return;
    s->at[s->count++] = found;
}

static bool may_be_document(struct df_str text)
{
    size_t digits = 0;

    if (text.len < 11 || text.len > 24)
        return false;
    for (size_t i = 0; i < text.len; i++)
        digits += text.ptr[i] >= '0' && text.ptr[i] <= '9';
    return digits >= 2;
}

/* A name that says phone or document comes first: a phone may be a CPF's number by chance. */
static void add_one(struct df_subjects *s, enum df_subject_kind kind, struct df_str text)
{
    char canonical[VALUE_MAX];

    text = df_str_trim(text);
    if (text.len == 0 || text.len >= VALUE_MAX)
        return;
    if (memchr(text.ptr, '@', text.len)) {
        if (df_email_parse(text, canonical))
            add_subject(s, DF_SUBJECT_EMAIL, canonical);
        return;
    }
    if (kind != NO_KIND && canonical_of(kind, text, canonical)) {
        add_subject(s, kind, canonical);
    } else if (text.ptr[0] == '+') {
        if (phone_of(text, canonical))
            add_subject(s, DF_SUBJECT_PHONE, canonical);
    } else if (may_be_document(text) && df_document_parse(text, canonical)) {
        add_subject(s, DF_SUBJECT_DOCUMENT, canonical);
    }
}

/* Several in one value are parted by ; or , as spreadsheets have them. */
static void add_text(struct df_subjects *s, enum df_subject_kind kind, struct df_str text)
{
    if (text.len > TEXT_MAX)
        return;
    while (text.len > 0 && s->count < s->max) {
        size_t len = 0;
        while (len < text.len && text.ptr[len] != ';' && text.ptr[len] != ',')
            len++;
        add_one(s, kind, df_str_n(text.ptr, len));
        len += len < text.len;
        text = df_str_n(text.ptr + len, text.len - len);
    }
}

void df_subjects_add_value(struct df_subjects *s, struct df_str name, struct df_str value)
{
    add_text(s, kind_of_name(name), value);
}

static struct df_str decode_form(struct df_str s, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < s.len; i++) {
        int high = i + 2 < s.len ? df_hex_digit(s.ptr[i + 1]) : -1;
        int low = i + 2 < s.len ? df_hex_digit(s.ptr[i + 2]) : -1;
        if (s.ptr[i] == '%' && high >= 0 && low >= 0) {
            out[n++] = (char)(high << 4 | low);
            i += 2;
        } else {
            out[n++] = s.ptr[i] == '+' ? ' ' : s.ptr[i];
        }
    }
    return df_str_n(out, n);
}

/* A bare + stands for a space, but before digits it is a phone's that was not encoded. */
static void add_part(struct df_subjects *s, struct df_str name, struct df_str value)
{
    char names[NAME_MAX_BYTES], values[VALUE_MAX];

    if (value.len == 0 || value.len >= VALUE_MAX)
        return;
    struct df_str plain = decode_form(value, values);
    if (value.ptr[0] == '+')
        values[0] = '+';
    df_subjects_add_value(s, name.len <= NAME_MAX_BYTES ? decode_form(name, names) : DF_STR_NULL,
                          plain);
}

void df_subjects_add_form(struct df_subjects *s, struct df_str form)
{
    while (form.len > 0 && s->count < s->max) {
        struct df_str pair, name;
        form = df_str_cut(form, '&', &pair);
        struct df_str value = df_str_cut(pair, '=', &name);
        add_part(s, name, value);
    }
}

/* --- documents -------------------------------------------------------------------------------- */

/* The way through a document: what the names of the open levels say of the values below them. */
struct walk {
    struct df_subjects *s;
    unsigned nested;
    enum df_subject_kind next; /* of the member whose name was read */
    unsigned char kinds[DF_JSON_DEPTH + 2];
};

static void walk_document(struct df_subjects *s, struct df_str json, unsigned nested);

static bool looks_like_json(struct df_str text)
{
    text = df_str_trim(text);
    return text.len > 1 && (text.ptr[0] == '{' || text.ptr[0] == '[');
}

static void walk_nested(struct walk *w, struct df_str text, bool escaped)
{
    if (w->nested >= NESTED_MAX)
        return;
    if (!escaped) {
        walk_document(w->s, text, w->nested + 1);
        return;
    }
    char *plain = malloc(text.len + 1);
    if (!plain)
        return;
    walk_document(w->s, df_json_unescape(text, plain), w->nested + 1);
    free(plain);
}

static void walk_string(struct walk *w, struct df_str text, bool escaped)
{
    char plain[TEXT_MAX];

    if (looks_like_json(text)) {
        walk_nested(w, text, escaped);
        return;
    }
    if (text.len > sizeof plain)
        return;
    add_text(w->s, w->next, escaped ? df_json_unescape(text, plain) : text);
}

static void walk_name(struct walk *w, const struct df_json_scan *scan)
{
    char plain[NAME_MAX_BYTES * 6];
    struct df_str name = scan->text;

    if (name.len > sizeof plain)
        name = DF_STR_NULL;
    else if (scan->escaped)
        name = df_json_unescape(name, plain);
    enum df_subject_kind own = kind_of_name(name);
    w->next = own != NO_KIND ? own : (enum df_subject_kind)w->kinds[scan->depth];
}

static void walk_token(struct walk *w, const struct df_json_scan *scan, enum df_json_token t)
{
    switch (t) {
    case DF_TOK_KEY:
        walk_name(w, scan);
        return;
    case DF_TOK_OBJECT:
    case DF_TOK_ARRAY:
        w->kinds[scan->depth] = (unsigned char)w->next;
        return;
    case DF_TOK_STRING:
        walk_string(w, scan->text, scan->escaped);
        break;
    case DF_TOK_NUMBER:
        if (w->next != NO_KIND)
            add_text(w->s, w->next, scan->text);
        break;
    case DF_TOK_ERROR:
    case DF_TOK_MORE:
    case DF_TOK_END:
    case DF_TOK_OBJECT_END:
    case DF_TOK_ARRAY_END:
    case DF_TOK_STRING_PART:
    case DF_TOK_TRUE:
    case DF_TOK_FALSE:
    case DF_TOK_NULL:
        break;
    }
    /* The next value of an array, or behind the end of a level, has the level's kind. */
    w->next = (enum df_subject_kind)w->kinds[scan->depth];
}

static void walk_document(struct df_subjects *s, struct df_str json, unsigned nested)
{
    struct walk w = {.s = s, .nested = nested};
    struct df_json_scan scan;
    enum df_json_token t;

    df_json_scan_init(&scan, DF_JSON_BOM, DF_JSON_DEPTH);
    df_json_scan_window(&scan, json, 0, true);
    while (s->count < s->max && (t = df_json_scan_next(&scan)) > DF_TOK_END)
        walk_token(&w, &scan, t);
    df_json_scan_release(&scan);
}

void df_subjects_add_call(struct df_subjects *s, struct df_str path, struct df_str body)
{
    struct df_str segments, query = df_str_cut(path, '?', &segments);

    while (segments.len > 0) {
        struct df_str one;
        segments = df_str_cut(segments, '/', &one);
        add_part(s, DF_STR_NULL, one);
    }
    df_subjects_add_form(s, query);
    body = df_str_trim(body);
    if (looks_like_json(body))
        df_subjects_add_json(s, body);
    else
        df_subjects_add_form(s, body);
}

void df_subjects_add_batch(struct df_subjects *s, struct df_str metadata,
                           struct df_str requested_by, struct df_str file_name)
{
    const char *dot = file_name.len > 0 ? memrchr(file_name.ptr, '.', file_name.len) : NULL;

    df_subjects_add_json(s, metadata);
    df_subjects_add_value(s, DF_STR("requestedBy"), requested_by);
    df_subjects_add_value(s, DF_STR_NULL, file_name);
    if (dot)
        df_subjects_add_value(s, DF_STR_NULL,
                              df_str_n(file_name.ptr, (size_t)(dot - file_name.ptr)));
}

void df_subjects_add_json(struct df_subjects *s, struct df_str json)
{
    if (json.len > 0)
        walk_document(s, json, 0);
}

size_t df_subjects_of(const struct df_keys *k, struct df_str json, struct df_subject *ret,
                      size_t max)
{
    struct df_subjects s = {.keys = k, .at = ret, .max = max};

    df_subjects_add_json(&s, json);
    return s.count;
}

void df_subjects_begin(struct df_subjects *s, const struct df_keys *k, struct df_arena *a)
{
    *s = (struct df_subjects){.keys = k,
                              .at = DF_ARENA_ARRAY(a, struct df_subject, DF_SUBJECTS_MAX),
                              .max = DF_SUBJECTS_MAX};
}

/* Most documents name few people: what is kept is as long as what was found. */
struct df_subjects df_subjects_in(const struct df_keys *k, struct df_str json, struct df_arena *a)
{
    struct df_subject found[DF_SUBJECTS_MAX];
    size_t n = df_subjects_of(k, json, found, DF_SUBJECTS_MAX);
    struct df_subjects s = {.keys = k, .max = n, .count = n};

    if (n > 0) {
        s.at = DF_ARENA_ARRAY(a, struct df_subject, n);
        memcpy(s.at, found, n * sizeof found[0]);
    }
    return s;
}
