#include "backup/point.h"

#include "base/mem.h"
#include "store/pages.h"

#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#define STAMP_LEN  19 /* 20261115T031605123Z */
#define KIND_END   0
#define KIND_FILE  1
#define KIND_PAGE  2
#define FILE_FIXED (DF_UUID_LEN + 8 + DF_CHECKSUM_LEN)

static const char magic[8] = {'D', 'F', 'P', 'O', 'I', 'N', 'T', '1'};

/* --- hashes --- */

struct df_page_hash df_page_hash_of(const void *page, size_t len)
{
    struct df_page_hash h;

    (void)crypto_generichash(h.bytes, sizeof h.bytes, page, len, NULL, 0);
    return h;
}

static void put_number(unsigned char *p, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t get_number(const unsigned char *p, size_t bytes)
{
    uint64_t v = 0;

    for (size_t i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

void df_pages_root(const struct df_page_hash *hashes, uint32_t page_size, uint32_t page_count,
                   unsigned char ret[DF_POINT_ROOT_BYTES])
{
    crypto_generichash_state state;
    unsigned char sizes[8];

    put_number(sizes, page_size, 4);
    put_number(sizes + 4, page_count, 4);
    (void)crypto_generichash_init(&state, NULL, 0, DF_POINT_ROOT_BYTES);
    (void)crypto_generichash_update(&state, sizes, sizeof sizes);
    (void)crypto_generichash_update(&state, (const unsigned char *)hashes,
                                    (size_t)page_count * sizeof *hashes);
    (void)crypto_generichash_final(&state, ret, DF_POINT_ROOT_BYTES);
}

/* --- names --- */

static void write_stamp(int64_t ms, char ret[STAMP_LEN + 1])
{
    struct df_date_time t = df_time_split(ms);

    (void)snprintf(ret, STAMP_LEN + 1, "%04u%02u%02uT%02u%02u%02u%03uZ", (unsigned)t.year % 10000,
                   (unsigned)t.month % 100, (unsigned)t.day % 100, (unsigned)t.hour % 100,
                   (unsigned)t.minute % 100, (unsigned)t.second % 100, (unsigned)t.ms % 1000);
}

/* Reads what write_stamp writes, and nothing else. */
static bool read_stamp(const char *s, int64_t *ret_ms)
{
    char iso[DF_TIME_LEN + 1], again[STAMP_LEN + 1];

    (void)snprintf(iso, sizeof iso, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2s.%.3sZ", s, s + 4, s + 6, s + 9,
                   s + 11, s + 13, s + 15);
    if (!df_time_parse(df_str_c(iso), ret_ms))
        return false;
    write_stamp(*ret_ms, again);
    return strncmp(s, again, STAMP_LEN) == 0;
}

bool df_generation_is(const char *s)
{
    int64_t ignored;

    return strnlen(s, DF_GENERATION_LEN) == DF_GENERATION_LEN && read_stamp(s, &ignored) &&
           s[STAMP_LEN] == '-' &&
           strspn(s + STAMP_LEN + 1, "0123456789abcdef") >= DF_GENERATION_LEN - STAMP_LEN - 1;
}

void df_generation_make(const struct df_clock *clock, char ret[DF_GENERATION_LEN + 1])
{
    uint32_t random;

    df_random(clock, &random, sizeof random);
    write_stamp(df_wall_ms(clock), ret);
    (void)snprintf(ret + STAMP_LEN, DF_GENERATION_LEN - STAMP_LEN + 1, "-%08x", (unsigned)random);
}

void df_point_name_write(const struct df_point_name *n, char ret[DF_POINT_NAME_MAX])
{
    char stamp[STAMP_LEN + 1];

    write_stamp(n->time_ms, stamp);
    (void)snprintf(ret, DF_POINT_NAME_MAX, "%s/p%06u-%s", n->generation, (unsigned)n->number,
                   stamp);
}

bool df_point_name_read(const char *name, struct df_point_name *ret)
{
    const char *p = name + DF_GENERATION_LEN;
    int64_t number;

    if (strlen(name) != DF_GENERATION_LEN + 9 + STAMP_LEN || !df_generation_is(name) ||
        strncmp(p, "/p", 2) != 0 || strspn(p + 2, "0123456789") != 6 || p[8] != '-' ||
        !df_str_to_i64(df_str_n(p + 2, 6), &number) || !read_stamp(p + 9, &ret->time_ms))
        return false;
    memcpy(ret->generation, name, DF_GENERATION_LEN);
    ret->generation[DF_GENERATION_LEN] = '\0';
    ret->number = (uint32_t)number;
    return true;
}

/* --- writing --- */

enum df_code df_point_put_head(const struct df_point_sink *to, const struct df_point_head *h,
                               struct df_err *err)
{
    unsigned char b[DF_POINT_HEAD_BYTES], *p = b + 8 + DF_GENERATION_LEN;

    memcpy(b, magic, sizeof magic);
    memcpy(b + 8, h->name.generation, DF_GENERATION_LEN);
    put_number(p, h->name.number, 4);
    put_number(p + 4, (uint64_t)h->name.time_ms, 8);
    put_number(p + 12, h->page_size, 4);
    put_number(p + 16, h->page_count, 4);
    memcpy(p + 20, h->before, DF_POINT_ROOT_BYTES);
    return to->put(to->arg, b, sizeof b, err);
}

enum df_code df_point_put_file(const struct df_point_sink *to, const struct df_point_file *f,
                               struct df_err *err)
{
    unsigned char b[1 + FILE_FIXED + 4 + DF_POINT_FILE_MAX + DF_POINT_NAME_MAX], *p = b;
    size_t name_len = strlen(f->name), object_len = strlen(f->object);

    *p++ = KIND_FILE;
    memcpy(p, f->batch.text, DF_UUID_LEN);
    p += DF_UUID_LEN;
    put_number(p, name_len, 2);
    memcpy(p + 2, f->name, name_len);
    p += 2 + name_len;
    put_number(p, object_len, 2);
    memcpy(p + 2, f->object, object_len);
    p += 2 + object_len;
    put_number(p, f->size, 8);
    memcpy(p + 8, f->sha256, DF_CHECKSUM_LEN);
    p += 8 + DF_CHECKSUM_LEN;
    return to->put(to->arg, b, (size_t)(p - b), err);
}

enum df_code df_point_put_page(const struct df_point_sink *to, uint32_t number, const void *page,
                               size_t len, struct df_err *err)
{
    unsigned char b[5] = {KIND_PAGE};

    put_number(b + 1, number, 4);
    enum df_code code = to->put(to->arg, b, sizeof b, err);
    return code == DF_OK ? to->put(to->arg, page, len, err) : code;
}

enum df_code df_point_put_end(const struct df_point_sink *to, uint32_t pages,
                              const unsigned char root[DF_POINT_ROOT_BYTES], struct df_err *err)
{
    unsigned char b[1 + 4 + DF_POINT_ROOT_BYTES] = {KIND_END};

    put_number(b + 1, pages, 4);
    memcpy(b + 5, root, DF_POINT_ROOT_BYTES);
    return to->put(to->arg, b, sizeof b, err);
}

/* --- reading --- */

static enum df_code no_point(struct df_err *err, const char *what)
{
    return df_err_set(err, DF_E_INTERNAL, "a point of the backup is damaged: %s", what);
}

static enum df_code read_all(const struct df_point_source *from, void *ptr, size_t len,
                             struct df_err *err)
{
    char *p = ptr;

    while (len > 0) {
        size_t n = 0;
        enum df_code code = from->read(from->arg, p, len, &n, err);
        if (code != DF_OK)
            return code;
        if (n == 0)
            return no_point(err, "its end is missing");
        p += n;
        len -= n;
    }
    return DF_OK;
}

enum df_code df_point_read_head(const struct df_point_source *from, struct df_point_head *ret,
                                struct df_err *err)
{
    unsigned char b[DF_POINT_HEAD_BYTES];
    const unsigned char *p = b + 8 + DF_GENERATION_LEN;
    struct df_point_head h = {.page_size = 0};
    enum df_code code = read_all(from, b, sizeof b, err);

    if (code != DF_OK)
        return code;
    memcpy(h.name.generation, b + 8, DF_GENERATION_LEN);
    h.name.number = (uint32_t)get_number(p, 4);
    h.name.time_ms = (int64_t)get_number(p + 4, 8);
    h.page_size = (uint32_t)get_number(p + 12, 4);
    h.page_count = (uint32_t)get_number(p + 16, 4);
    memcpy(h.before, p + 20, DF_POINT_ROOT_BYTES);
    if (memcmp(b, magic, sizeof magic) != 0 || !df_generation_is(h.name.generation) ||
        h.name.number > DF_POINT_LAST)
        return no_point(err, "its head");
    if (h.page_size < DF_PAGE_SIZE_MIN || h.page_size > DF_PAGE_SIZE_MAX ||
        (h.page_size & (h.page_size - 1)) != 0 || h.page_count == 0 || h.page_count > DF_PAGES_MAX)
        return no_point(err, "the size of its pages");
    *ret = h;
    return DF_OK;
}

/* A text with its length before it; no slash, no dot at its start, nothing that is not shown. */
static enum df_code read_name(const struct df_point_source *from, char *out, size_t max,
                              bool is_object, struct df_err *err)
{
    unsigned char b[2];
    enum df_code code = read_all(from, b, sizeof b, err);
    size_t len = code == DF_OK ? (size_t)get_number(b, 2) : 0;

    if (code != DF_OK)
        return code;
    if (len == 0 || len > max)
        return no_point(err, "the length of a name");
    code = read_all(from, out, len, err);
    if (code != DF_OK)
        return code;
    out[len] = '\0';
    if (memchr(out, '\0', len) || out[0] == '.' || out[0] == '/' ||
        (!is_object && memchr(out, '/', len)) || strstr(out, "/."))
        return no_point(err, "a name");
    return DF_OK;
}

static enum df_code read_file(const struct df_point_source *from, struct df_point_file *f,
                              struct df_err *err)
{
    char uuid[DF_UUID_LEN];
    unsigned char b[8];
    enum df_code code = read_all(from, uuid, sizeof uuid, err);

    if (code == DF_OK && !df_uuid_parse(df_str_n(uuid, sizeof uuid), &f->batch))
        code = no_point(err, "the id of a batch");
    if (code == DF_OK)
        code = read_name(from, f->name, DF_POINT_FILE_MAX, false, err);
    if (code == DF_OK)
        code = read_name(from, f->object, DF_POINT_NAME_MAX - 1, true, err);
    if (code == DF_OK)
        code = read_all(from, b, sizeof b, err);
    if (code == DF_OK)
        code = read_all(from, f->sha256, DF_CHECKSUM_LEN, err);
    f->sha256[DF_CHECKSUM_LEN] = '\0';
    if (code == DF_OK)
        f->size = get_number(b, 8);
    return code;
}

struct reading {
    const struct df_point_source *from;
    const struct df_point_head *head;
    const struct df_point_visitor *visitor;
    uint32_t pages, files;
    char *page;
};

static enum df_code take_file(struct reading *r, struct df_err *err)
{
    struct df_point_file f = {.size = 0};

    if (++r->files > DF_POINT_FILES)
        return no_point(err, "too many files");
    enum df_code code = read_file(r->from, &f, err);
    return code == DF_OK ? r->visitor->file(r->visitor->arg, &f, err) : code;
}

static enum df_code take_page(struct reading *r, struct df_err *err)
{
    unsigned char b[4];
    enum df_code code = read_all(r->from, b, sizeof b, err);

    if (code != DF_OK)
        return code;
    uint32_t number = (uint32_t)get_number(b, 4);
    if (number == 0 || number > r->head->page_count || r->pages++ == r->head->page_count ||
        df_page_is_locks(number, r->head->page_size))
        return no_point(err, "the number of a page");
    code = read_all(r->from, r->page, r->head->page_size, err);
    return code == DF_OK
               ? r->visitor->page(r->visitor->arg, number, r->page, r->head->page_size, err)
               : code;
}

static enum df_code take_end(const struct reading *r, unsigned char root[DF_POINT_ROOT_BYTES],
                             struct df_err *err)
{
    unsigned char b[4 + DF_POINT_ROOT_BYTES], more;
    size_t n = 0;
    enum df_code code = read_all(r->from, b, sizeof b, err);

    if (code == DF_OK && get_number(b, 4) != r->pages)
        code = no_point(err, "pages are missing");
    if (code == DF_OK)
        code = r->from->read(r->from->arg, &more, 1, &n, err);
    if (code == DF_OK && n > 0)
        code = no_point(err, "there is something behind its end");
    if (code == DF_OK)
        memcpy(root, b + 4, DF_POINT_ROOT_BYTES);
    return code;
}

enum df_code df_point_read(const struct df_point_source *from, const struct df_point_head *h,
                           const struct df_point_visitor *v,
                           unsigned char ret_root[DF_POINT_ROOT_BYTES], struct df_err *err)
{
    struct reading r = {.from = from, .head = h, .visitor = v, .page = df_malloc(h->page_size)};
    unsigned char kind = KIND_FILE;
    enum df_code code = DF_OK;

    while (code == DF_OK && kind != KIND_END) {
        code = read_all(from, &kind, 1, err);
        if (code != DF_OK)
            break;
        switch (kind) {
        case KIND_FILE:
            code = take_file(&r, err);
            break;
        case KIND_PAGE:
            code = take_page(&r, err);
            break;
        case KIND_END:
            code = take_end(&r, ret_root, err);
            break;
        default:
            code = no_point(err, "a record of another kind");
        }
    }
    free(r.page);
    return code;
}
