/*
 * One pass of the strict scanner over the text, which writes each token to the output as it is or
 * masked. Names are compared by hashes of their folded form (tabular/headers_map.h): a field of the
 * settings that is one of the canonical words stands for all names that uploads may use for it.
 */
#include "privacy/mask.h"

#include "base/escape.h"
#include "base/mem.h"
#include "base/secret.h"
#include "keys/keys.h"
#include "tabular/headers_map.h"
#include "tabular/normalise.h"
#include "json/scan.h"

#include <openssl/evp.h>
#include <stdlib.h>

#define NAME_MAX_BYTES 128  /* a longer name is not looked at */
#define NAMES_SIZE     1024 /* of the table; a power of two, more than twice the names */
#define NAMES_MAX      480
#define PATHS_MAX      64
#define PARTS_MAX      8
#define NESTED_MAX     2 /* JSON in a text in JSON */
#define NESTED_BYTES   ((size_t)16 << 20)
#define NUMBER_DIGITS  8  /* a value with so many digits is shown by its last two */
#define BARE_DIGITS    11 /* a JSON number with fewer is no phone and no document */
#define HASH_SHOWN     16 /* bytes */
#define HASHED         "hmac:"
#define STARS          "***"

struct path {
    size_t count;
    uint64_t parts[PARTS_MAX]; /* from the last to the first */
};

struct df_masker {
    enum df_mask_mode mode;
    struct df_keys *keys;
    /* HMAC-SHA256 of whole documents, after its key was taken in: each hash begins with a copy.
     * libcrypto is five times as fast here as the keys' own hashes. NULL without keys. */
    EVP_MD_CTX *inner, *outer;
    uint64_t names[NAMES_SIZE]; /* open addressing; 0: free */
    size_t name_count;
    struct path paths[PATHS_MAX];
    size_t path_count;
};

/* --- names ------------------------------------------------------------------------------------ */

/* Never 0. "Phone 2" is a phone, too: digits at the end do not count. */
static uint64_t name_hash(struct df_str name)
{
    char folded[NAME_MAX_BYTES];
    uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a */

    if (name.len == 0 || name.len > sizeof(folded))
        return 1;
    size_t len = df_header_fold(name, folded);
    while (len > 1 && folded[len - 1] >= '0' && folded[len - 1] <= '9')
        len--;
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)folded[i]) * UINT64_C(1099511628211);
    return h | 1;
}

static bool has_name(const struct df_masker *m, uint64_t h)
{
    for (size_t i = h >> 32;; i++) {
        uint64_t found = m->names[i % NAMES_SIZE];
        if (found == h || found == 0)
            return found == h;
    }
}

static void add_name(struct df_masker *m, struct df_str name)
{
    uint64_t h = name_hash(name);
    size_t i = h >> 32;

    if (m->name_count == NAMES_MAX || has_name(m, h))
        return;
    while (m->names[i % NAMES_SIZE] != 0)
        i++;
    m->names[i % NAMES_SIZE] = h;
    m->name_count++;
}

/* Names that files of records do not have a column for. */
static const struct df_known_header more_names[] = {
    {"phonenumbers", DF_HEADER_PHONE},  {"fax", DF_HEADER_PHONE},
    {"contato", DF_HEADER_PHONE},       {"emails", DF_HEADER_EMAIL},
    {"rg", DF_HEADER_DOCUMENT},         {"documents", DF_HEADER_DOCUMENT},
    {"documentid", DF_HEADER_DOCUMENT}, {"numerodocumento", DF_HEADER_DOCUMENT},
    {"firstname", DF_HEADER_NAME},      {"lastname", DF_HEADER_NAME},
    {"surname", DF_HEADER_NAME},        {"sobrenome", DF_HEADER_NAME},
    {"primeironome", DF_HEADER_NAME},   {"nomesocial", DF_HEADER_NAME},
    {"nomemae", DF_HEADER_NAME},        {"nomedamae", DF_HEADER_NAME},
    {"mothername", DF_HEADER_NAME},     {"addresses", DF_HEADER_ADDRESS},
    {"enderecos", DF_HEADER_ADDRESS},   {"street", DF_HEADER_ADDRESS},
    {"rua", DF_HEADER_ADDRESS},         {"bairro", DF_HEADER_ADDRESS},
    {"complemento", DF_HEADER_ADDRESS}, {"neighborhood", DF_HEADER_ADDRESS},
};

/* An address has its postal code, too. */
static bool is_kind(enum df_header of_name, enum df_header wanted)
{
    return of_name == wanted || (wanted == DF_HEADER_ADDRESS && of_name == DF_HEADER_ZIP_CODE);
}

static void add_kind(struct df_masker *m, enum df_header kind)
{
    for (size_t i = 0; i < df_known_header_count; i++)
        if (is_kind(df_known_headers[i].header, kind))
            add_name(m, df_str_c(df_known_headers[i].name));
    for (size_t i = 0; i < sizeof(more_names) / sizeof(more_names[0]); i++)
        if (is_kind(more_names[i].header, kind))
            add_name(m, df_str_c(more_names[i].name));
}

static enum df_code add_path(struct df_masker *m, struct df_str field, struct df_err *err)
{
    struct df_str rest = field, part;
    uint64_t parts[PARTS_MAX];
    size_t n = 0;

    while (rest.ptr) {
        rest = df_str_cut(rest, '.', &part);
        if (part.len == 0 || n == PARTS_MAX || m->path_count == PATHS_MAX)
            return df_err_set(err, DF_E_CONFIG,
                              "\"" DF_STR_FMT "\" is no path of at most %d names, or the list has "
                              "more than %d paths",
                              DF_STR_ARG(field), PARTS_MAX, PATHS_MAX);
        parts[n++] = name_hash(part);
    }
    struct path *p = &m->paths[m->path_count++];
    p->count = n;
    for (size_t i = 0; i < n; i++)
        p->parts[i] = parts[n - 1 - i];
    return DF_OK;
}

static enum df_code add_field(struct df_masker *m, struct df_str field, struct df_err *err)
{
    bool exact;

    if (field.len == 0)
        return DF_OK;
    if (field.len > NAME_MAX_BYTES)
        return df_err_set(err, DF_E_CONFIG, "a name has more than %d bytes", NAME_MAX_BYTES);
    if (memchr(field.ptr, '.', field.len))
        return add_path(m, field, err);
    enum df_header kind = df_header_find(field, &exact);
    if (kind != DF_HEADER_OTHER)
        add_kind(m, kind);
    add_name(m, field);
    return m->name_count < NAMES_MAX
               ? DF_OK
               : df_err_set(err, DF_E_CONFIG, "more than %d names", NAMES_MAX);
}

/* SHA-256 fails only when memory runs out or the library is broken. */
static void must(int result)
{
    if (result != 1)
        abort();
}

static EVP_MD_CTX *begin_hmac(const unsigned char key[DF_HASH_BYTES], unsigned char pad)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char block[64];

    if (!ctx)
        df_oom();
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] = (unsigned char)((i < DF_HASH_BYTES ? key[i] : 0) ^ pad);
    must(EVP_DigestInit_ex(ctx, EVP_sha256(), NULL));
    must(EVP_DigestUpdate(ctx, block, sizeof(block)));
    df_wipe(block, sizeof(block));
    return ctx;
}

static void take_keys(struct df_masker *m, struct df_keys *keys)
{
    unsigned char key[DF_HASH_BYTES];

    m->keys = keys;
    if (!keys)
        return;
    df_keys_hash(keys, DF_STR("item"), DF_STR("the key of documents' hashes"), key);
    m->inner = begin_hmac(key, 0x36);
    m->outer = begin_hmac(key, 0x5C);
    df_wipe(key, sizeof(key));
}

enum df_code df_masker_new(const struct df_sensitive_settings *s, struct df_keys *keys,
                           struct df_masker **ret, struct df_err *err)
{
    struct df_masker *m = df_calloc(1, sizeof *m);
    struct df_str rest = df_str_c(s->fields), field;
    enum df_code code = DF_OK;

    m->mode = (enum df_mask_mode)s->mode;
    take_keys(m, keys);
    while (rest.ptr && code == DF_OK) {
        rest = df_str_cut(rest, ',', &field);
        code = add_field(m, df_str_trim(field), err);
    }
    if (code == DF_OK)
        *ret = m;
    else
        df_masker_free(m);
    return code;
}

void df_masker_free(struct df_masker *m)
{
    if (!m)
        return;
    EVP_MD_CTX_free(m->inner);
    EVP_MD_CTX_free(m->outer);
    free(m);
}

bool df_masker_masks(const struct df_masker *m)
{
    return m->mode != DF_MASK_KEEP;
}

/* --- values ----------------------------------------------------------------------------------- */

static void put_hex(struct df_buf *out, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        df_buf_addc(out, "0123456789abcdef"[bytes[i] >> 4]);
        df_buf_addc(out, "0123456789abcdef"[bytes[i] & 15]);
    }
}

/* Numbers are hashed in the form under which a person is looked up. */
static void put_hash(const struct df_masker *m, struct df_str text, struct df_buf *out)
{
    unsigned char hash[DF_HASH_BYTES];
    char document[DF_DOCUMENT_MAX], address[DF_EMAIL_MAX], phone[17];
    const char *why;

    if (df_document_parse(text, document) != DF_DOCUMENT_NONE)
        df_keys_hash(m->keys, DF_STR("document"), df_str_c(document), hash);
    else if (df_email_parse(text, address))
        df_keys_hash(m->keys, DF_STR("email"), df_str_c(address), hash);
    else if (df_phone_normalise(text, phone, &why))
        df_keys_hash(m->keys, DF_STR("phone"), df_str_c(phone), hash);
    else
        df_keys_hash(m->keys, DF_STR("text"), text, hash);
    df_buf_addz(out, HASHED);
    put_hex(out, hash, HASH_SHOWN);
}

static bool is_letter(char c)
{
    return ((unsigned)(unsigned char)c | 0x20) - 'a' < 26;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A number keeps its marks and its last two characters, an address its first letter and its end;
 * of anything else nothing is left, not even the length. */
static void put_stars(struct df_str text, struct df_buf *out)
{
    char document[DF_DOCUMENT_MAX], address[DF_EMAIL_MAX];
    size_t digits = 0, others = 0;

    if (df_email_parse(text, address)) {
        df_mask_text(text, out);
        return;
    }
    for (size_t i = 0; i < text.len; i++) {
        digits += is_digit(text.ptr[i]);
        others += !is_digit(text.ptr[i]) && (!text.ptr[i] || !strchr("+-./() ", text.ptr[i]));
    }
    if ((digits < NUMBER_DIGITS || others > 0) &&
        df_document_parse(text, document) == DF_DOCUMENT_NONE) {
        df_buf_addz(out, STARS);
        return;
    }
    for (size_t i = 0, seen = 0; i < text.len; i++) {
        bool digit = is_digit(text.ptr[i]);
        df_buf_addc(out,
                    (digit && seen++ < digits - 2) || is_letter(text.ptr[i]) ? '*' : text.ptr[i]);
    }
}

/* A value of a sensitive field: a JSON string, or null where nothing may be left. */
static void put_sensitive(const struct df_masker *m, struct df_str text, struct df_buf *out)
{
    if (m->mode == DF_MASK_DROP) {
        df_buf_addz(out, "null");
        return;
    }
    df_buf_addc(out, '"');
    if (text.len > 0 && m->mode == DF_MASK_HASH)
        put_hash(m, text, out);
    else if (text.len > 0)
        put_stars(text, out);
    df_buf_addc(out, '"');
}

static bool is_recognised(struct df_str text)
{
    char document[DF_DOCUMENT_MAX], address[DF_EMAIL_MAX], phone[17];
    const char *why;

    if (df_document_parse(text, document) != DF_DOCUMENT_NONE || df_email_parse(text, address))
        return true;
    return text.len > 1 && text.len <= 20 && text.ptr[0] == '+' &&
           df_phone_normalise(text, phone, &why);
}

/* --- the walk --------------------------------------------------------------------------------- */

struct walk {
    const struct df_masker *m;
    struct df_buf *out;
    unsigned nested;
    struct df_json_scan scan;
    /* By depth: the name of the open member, whether everything here is sensitive, and whether the
     * next value needs a comma. */
    uint64_t names[DF_JSON_DEPTH + 2];
    bool hidden[DF_JSON_DEPTH + 2];
    bool comma[DF_JSON_DEPTH + 2];
    bool named;   /* a name was written, and its value follows */
    bool secret;  /* that value is sensitive */
    bool changed; /* something was masked */
    char *plain;  /* for unescaped texts */
    size_t plain_cap;
};

static void mask_nested(const struct df_masker *m, struct df_str json, struct df_buf *out,
                        unsigned nested);

static struct df_str unescape_token(struct walk *w)
{
    struct df_str text = w->scan.text;

    if (!w->scan.escaped)
        return text;
    if (text.len > w->plain_cap) {
        w->plain_cap = text.len * 2;
        w->plain = df_realloc(w->plain, w->plain_cap);
    }
    return df_json_unescape(text, w->plain);
}

static void begin_value(struct walk *w)
{
    unsigned d = w->scan.depth;

    if (!w->named && w->comma[d])
        df_buf_addc(w->out, ',');
    if (!w->named)
        w->secret = w->hidden[d];
    w->comma[d] = true;
    w->named = false;
}

static bool path_matches(const struct walk *w, const struct path *p)
{
    size_t i = 0;

    /* Arrays have no names of their own: their level has 0. */
    for (unsigned d = w->scan.depth; d > 0 && i < p->count; d--) {
        if (w->names[d] == 0)
            continue;
        if (w->names[d] != p->parts[i])
            return false;
        i++;
    }
    return i == p->count;
}

static bool is_sensitive_name(struct walk *w)
{
    unsigned d = w->scan.depth;

    w->names[d] = name_hash(unescape_token(w));
    if (w->hidden[d] || has_name(w->m, w->names[d]))
        return true;
    for (size_t i = 0; i < w->m->path_count; i++)
        if (path_matches(w, &w->m->paths[i]))
            return true;
    return false;
}

/* Whether a look at the text is worthwhile: every number has digits, every address an @. */
static bool may_be_personal(struct df_str text)
{
    bool found = false;

    for (size_t i = 0; i < text.len; i++)
        found |= (unsigned)(unsigned char)text.ptr[i] - '0' < 10 || text.ptr[i] == '@';
    return found;
}

/* Appends free text, with the numbers and addresses in it masked. */
static void put_text(struct walk *w, struct df_str text)
{
    if (may_be_personal(text))
        w->changed |= df_mask_text(text, w->out);
    else
        df_buf_adds(w->out, text);
}

/* A text whose escapes were taken out: what is found in it may have been written with them. False:
 * there was nothing to mask, and nothing is appended. */
static bool put_unescaped(struct walk *w, struct df_str text)
{
    struct df_buf masked;

    df_buf_init(&masked, NESTED_BYTES);
    bool found = df_mask_text(text, &masked) || df_buf_failed(&masked);
    if (found)
        df_buf_add_escaped(w->out, df_buf_str(&masked));
    df_buf_release(&masked);
    w->changed |= found;
    return found;
}

/* Writes the name, or skips the whole member. */
static enum df_json_token take_name(struct walk *w)
{
    struct df_json_scan *s = &w->scan;
    struct df_str name = s->text;
    bool escaped = s->escaped;
    unsigned d = s->depth;

    w->secret = is_sensitive_name(w);
    if (w->secret && w->m->mode == DF_MASK_DROP) {
        w->changed = true;
        enum df_json_token t = df_json_scan_next(s);
        if (t == DF_TOK_OBJECT || t == DF_TOK_ARRAY)
            t = df_json_scan_skip(s, d);
        return t;
    }
    if (w->comma[d])
        df_buf_addc(w->out, ',');
    df_buf_addc(w->out, '"');
    if (!escaped)
        put_text(w, name);
    else if (!put_unescaped(w, unescape_token(w)))
        df_buf_adds(w->out, name);
    df_buf_addz(w->out, "\":");
    w->named = true;
    return DF_TOK_KEY;
}

static bool begins_as_json(struct df_str text)
{
    struct df_str begin = df_str_trim(text);
    return begin.len > 1 && (*begin.ptr == '{' || *begin.ptr == '[');
}

static void take_string(struct walk *w)
{
    begin_value(w);
    if (!w->secret && !w->scan.escaped && !may_be_personal(w->scan.text) &&
        !begins_as_json(w->scan.text)) {
        df_buf_add(w->out, w->scan.start, (size_t)(w->scan.p - w->scan.start));
        return;
    }
    bool escaped = w->scan.escaped;
    struct df_str text = unescape_token(w);

    if (w->secret || is_recognised(text)) {
        w->changed = w->changed || text.len > 0;
        put_sensitive(w->m, text, w->out);
        return;
    }
    bool json = w->nested < NESTED_MAX && begins_as_json(text);
    df_buf_addc(w->out, '"');
    if (json || escaped) {
        struct df_buf masked;
        df_buf_init(&masked, NESTED_BYTES);
        if (json)
            mask_nested(w->m, text, &masked, w->nested + 1);
        else
            df_mask_text(text, &masked);
        w->changed = w->changed || !df_str_eq(text, df_buf_str(&masked));
        df_buf_add_escaped(w->out, df_buf_str(&masked));
        df_buf_release(&masked);
    } else {
        put_text(w, text);
    }
    df_buf_addc(w->out, '"');
}

static void take_number(struct walk *w)
{
    struct df_str text = w->scan.text;

    begin_value(w);
    if (w->secret || (text.len >= BARE_DIGITS && df_text_is_personal(text))) {
        w->changed = true;
        put_sensitive(w->m, text, w->out);
    } else {
        df_buf_adds(w->out, text);
    }
}

static void open_container(struct walk *w, char bracket)
{
    unsigned d = w->scan.depth; /* the container's own */
    bool hidden = w->named ? w->secret : w->hidden[d - 1];

    if (!w->named && w->comma[d - 1])
        df_buf_addc(w->out, ',');
    w->comma[d - 1] = true;
    w->named = false;
    w->hidden[d] = hidden;
    w->comma[d] = false;
    w->names[d] = 0;
    df_buf_addc(w->out, bracket);
}

/* One token, and the one that ended a member which was left out. False: the document is over, cut
 * off or not valid. */
static bool take_token(struct walk *w, enum df_json_token *t)
{
    switch (*t) {
    case DF_TOK_KEY:
        *t = take_name(w);
        return *t > DF_TOK_END;
    case DF_TOK_STRING:
    case DF_TOK_STRING_PART:
        take_string(w);
        return true;
    case DF_TOK_NUMBER:
        take_number(w);
        return true;
    case DF_TOK_TRUE:
    case DF_TOK_FALSE:
    case DF_TOK_NULL:
        begin_value(w);
        df_buf_addz(w->out, *t == DF_TOK_TRUE ? "true" : *t == DF_TOK_FALSE ? "false" : "null");
        return true;
    case DF_TOK_OBJECT:
        open_container(w, '{');
        return true;
    case DF_TOK_ARRAY:
        open_container(w, '[');
        return true;
    case DF_TOK_OBJECT_END:
    case DF_TOK_ARRAY_END:
        df_buf_addc(w->out, *t == DF_TOK_OBJECT_END ? '}' : ']');
        return true;
    case DF_TOK_ERROR:
    case DF_TOK_MORE:
    case DF_TOK_END:
        return false;
    }
    return false;
}

/* `whole`: the document ends where the text ends. */
static void mask_document(const struct df_masker *m, struct df_str json, bool whole,
                          struct df_buf *out, unsigned nested)
{
    size_t before = out->len;
    struct walk w; /* large: a level is set when it is opened */
    enum df_json_token t;

    w.m = m;
    w.out = out;
    w.nested = nested;
    w.names[0] = 0;
    w.hidden[0] = w.comma[0] = false;
    w.named = w.secret = w.changed = false;
    w.plain = NULL;
    w.plain_cap = 0;
    df_json_scan_init(&w.scan, 0, DF_JSON_DEPTH);
    df_json_scan_window(&w.scan, json, 0, whole);
    do {
        t = df_json_scan_next(&w.scan);
    } while (take_token(&w, &t));
    bool cut = t == DF_TOK_MORE && w.scan.depth > 0;
    bool read = cut || t == DF_TOK_END || t == DF_TOK_MORE;
    df_json_scan_release(&w.scan);
    free(w.plain);
    if (df_buf_failed(out) || cut || (read && w.changed))
        return;
    out->len = before;
    if (read)
        df_buf_adds(out, json); /* with its white space */
    else
        df_mask_text(json, out);
}

static void mask_nested(const struct df_masker *m, struct df_str json, struct df_buf *out,
                        unsigned nested)
{
    mask_document(m, json, true, out, nested);
}

void df_mask_json(const struct df_masker *m, struct df_str json, struct df_buf *out)
{
    if (m->mode == DF_MASK_KEEP)
        df_buf_adds(out, json);
    else if (json.len > 0)
        mask_nested(m, json, out, 0);
}

struct df_str df_mask_answer(const struct df_masker *m, struct df_str text, size_t max_units,
                             struct df_arena *a)
{
    struct df_buf masked;

    if (m->mode == DF_MASK_KEEP || !begins_as_json(text))
        return df_mask_note(text, max_units, a);
    df_buf_init(&masked, NESTED_BYTES);
    mask_document(m, text, false, &masked, 0);
    struct df_str shown = df_mask_note(df_buf_str(&masked), max_units, a);
    df_buf_release(&masked);
    return shown;
}

void df_mask_hash(const struct df_masker *m, struct df_str text, char out[DF_MASK_HASH_LEN + 1])
{
    unsigned char hash[DF_HASH_BYTES];
    EVP_MD_CTX *work = EVP_MD_CTX_new();

    if (!work)
        df_oom();
    must(EVP_MD_CTX_copy_ex(work, m->inner));
    must(EVP_DigestUpdate(work, text.ptr ? text.ptr : "", text.len));
    must(EVP_DigestFinal_ex(work, hash, NULL));
    must(EVP_MD_CTX_copy_ex(work, m->outer));
    must(EVP_DigestUpdate(work, hash, sizeof(hash)));
    must(EVP_DigestFinal_ex(work, hash, NULL));
    EVP_MD_CTX_free(work);
    for (size_t i = 0; i < DF_HASH_BYTES; i++) {
        out[2 * i] = "0123456789abcdef"[hash[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[hash[i] & 15];
    }
    out[DF_MASK_HASH_LEN] = '\0';
}
