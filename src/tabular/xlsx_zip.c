#include "tabular/xlsx_zip.h"

#include "base/mem.h"

#include <stdlib.h>

#define LOCAL_SIG      0x04034b50U
#define CENTRAL_SIG    0x02014b50U
#define END_SIG        0x06054b50U
#define END64_SIG      0x06064b50U
#define LOCATOR64_SIG  0x07064b50U
#define LOCAL_LEN      30
#define CENTRAL_LEN    46
#define END_LEN        22
#define LOCATOR64_LEN  20
#define END64_LEN      56
#define COMMENT_MAX    65535
#define DIRECTORY_MAX  (4U << 20) /* of names, extra fields and comments together */
#define IN_BYTES       65536
#define RATIO_FLOOR    (1U << 20) /* smaller entries may have any ratio */
#define FLAG_ENCRYPTED 0x0041U    /* and strong encryption */

/* ZIP is little-endian throughout. */
static uint16_t u16(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint16_t)(b[0] | b[1] << 8);
}

static uint32_t u32(const char *p)
{
    return u16(p) | (uint32_t)u16(p + 2) << 16;
}

static uint64_t u64(const char *p)
{
    return u32(p) | (uint64_t)u32(p + 4) << 32;
}

static enum df_code broken_archive(struct df_err *err, const char *why)
{
    return df_err_set(err, DF_E_VALIDATION, "the workbook's archive is broken: %s", why);
}

static enum df_code broken_entry(struct df_err *err, const struct df_zip_entry *e, const char *why)
{
    return df_err_set(err, DF_E_VALIDATION, "the workbook's part " DF_STR_FMT " is broken: %s",
                      DF_STR_ARG(e->name), why);
}

/* All of [offset, offset + len), or an error. */
static enum df_code read_all(const struct df_bytes *file, uint64_t offset, char *ptr, size_t len,
                             struct df_err *err)
{
    if (offset > file->size || len > file->size - offset)
        return broken_archive(err, "it ends too early");
    while (len) {
        size_t got = 0;
        enum df_code code = file->read_at(file->arg, offset, ptr, len, &got, err);
        if (code != DF_OK)
            return code;
        if (got == 0)
            return broken_archive(err, "it ends too early");
        ptr += got;
        offset += got;
        len -= got;
    }
    return DF_OK;
}

struct directory {
    uint64_t offset;
    uint64_t size;
    uint64_t count;
    uint64_t end; /* offset of the record after the directory */
};

/* Reads the 64-bit end record, if there is one. It stands before its locator, and the locator
 * before the end record. */
static enum df_code read_end64(const struct df_bytes *file, uint64_t end_at, struct directory *d,
                               struct df_err *err)
{
    char locator[LOCATOR64_LEN] = {0}, end[END64_LEN] = {0};
    if (end_at < LOCATOR64_LEN + END64_LEN)
        return DF_OK;
    enum df_code code = read_all(file, end_at - LOCATOR64_LEN, locator, sizeof locator, err);
    if (code != DF_OK || u32(locator) != LOCATOR64_SIG)
        return code;
    /* It is where the locator says, or directly before the locator if the archive has a prefix. */
    uint64_t at = u64(locator + 8), before = end_at - LOCATOR64_LEN - END64_LEN;
    code = read_all(file, at <= before ? at : before, end, sizeof end, err);
    if (code == DF_OK && u32(end) != END64_SIG) {
        at = before;
        code = read_all(file, at, end, sizeof end, err);
    }
    if (code != DF_OK)
        return code;
    if (u32(end) != END64_SIG)
        return broken_archive(err, "the 64-bit end record is not where it should be");
    *d = (struct directory){
        .count = u64(end + 32), .size = u64(end + 40), .offset = u64(end + 48), .end = at};
    return DF_OK;
}

/* The last end record whose comment ends with the file; else the last one whose comment fits, since
 * scripts that serve a workbook often append a line end. */
static const char *find_end(const char *tail, size_t len)
{
    size_t fits = len; /* none yet */
    for (size_t at = len - END_LEN + 1; at-- > 0;) {
        size_t comment = u16(tail + at + 20);
        size_t room = len - at - END_LEN;
        if (u32(tail + at) != END_SIG || comment > room)
            continue;
        if (comment == room)
            return tail + at;
        if (fits == len)
            fits = at;
    }
    return fits < len ? tail + fits : NULL;
}

static enum df_code read_end(const struct df_bytes *file, struct directory *d, struct df_err *err)
{
    size_t len = END_LEN + COMMENT_MAX;
    if (file->size < END_LEN)
        return broken_archive(err, "it ends too early");
    if (len > file->size)
        len = (size_t)file->size;
    char *tail = df_calloc(1, len);
    enum df_code code = read_all(file, file->size - len, tail, len, err);
    const char *end = code == DF_OK ? find_end(tail, len) : NULL;
    if (code == DF_OK && !end)
        code = broken_archive(err, "it has no directory; was the upload cut off?");
    if (end) {
        uint64_t at = file->size - len + (uint64_t)(end - tail);
        *d = (struct directory){
            .count = u16(end + 10), .size = u32(end + 12), .offset = u32(end + 16), .end = at};
        if (u16(end + 4) != 0 && u16(end + 4) != 0xFFFF)
            code = broken_archive(err, "it is one volume of several");
        else
            code = read_end64(file, at, d, err);
    }
    free(tail);
    return code;
}

/* Reads the 64-bit extra field, which holds only the values that do not fit in 32 bits, in this
 * order. */
static bool read_extra64(struct df_zip_entry *e, const char *p, size_t len)
{
    uint64_t *wanted[3] = {e->size == UINT32_MAX ? &e->size : NULL,
                           e->packed == UINT32_MAX ? &e->packed : NULL,
                           e->offset == UINT32_MAX ? &e->offset : NULL};
    if (!wanted[0] && !wanted[1] && !wanted[2])
        return true;
    while (len >= 4) {
        size_t size = u16(p + 2);
        if (size > len - 4)
            return false;
        if (u16(p) == 1) {
            p += 4;
            for (int i = 0; i < 3; i++) {
                if (!wanted[i])
                    continue;
                if (size < 8)
                    return false;
                *wanted[i] = u64(p);
                p += 8;
                size -= 8;
            }
            return true;
        }
        p += 4 + size;
        len -= 4 + size;
    }
    return false;
}

static struct df_str part_name(struct df_arena *arena, struct df_str raw)
{
    char *p = df_arena_cstr(arena, raw);
    for (size_t i = 0; i < raw.len; i++)
        if (p[i] == '\\')
            p[i] = '/';
    size_t skip = strspn(p, "/");
    return df_str_n(p + skip, raw.len - skip);
}

/* Reads one record of the directory. Returns its length, or 0 if it is broken. */
static size_t read_entry(struct df_zip *z, struct df_zip_entry *e, const char *p, size_t len)
{
    if (len < CENTRAL_LEN || u32(p) != CENTRAL_SIG)
        return 0;
    size_t name_len = u16(p + 28), extra_len = u16(p + 30);
    size_t whole = CENTRAL_LEN + name_len + extra_len + u16(p + 32);
    if (whole > len || memchr(p + CENTRAL_LEN, 0, name_len))
        return 0;
    *e = (struct df_zip_entry){.flags = u16(p + 8),
                               .method = u16(p + 10),
                               .crc = u32(p + 16),
                               .packed = u32(p + 20),
                               .size = u32(p + 24),
                               .offset = u32(p + 42)};
    if (!read_extra64(e, p + CENTRAL_LEN + name_len, extra_len))
        return 0;
    e->name = part_name(&z->arena, df_str_n(p + CENTRAL_LEN, name_len));
    return whole;
}

static int by_name(const void *a, const void *b)
{
    const struct df_zip_entry *x = a, *y = b;
    return strcasecmp(x->name.ptr, y->name.ptr);
}

static int by_offset(const void *a, const void *b)
{
    const struct df_zip_entry *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Refuses two entries of one name or in the same bytes: such an archive is made to show different
 * contents to different readers. */
static enum df_code check_entries(struct df_zip *z, uint64_t directory_at, struct df_err *err)
{
    qsort(z->entries, z->count, sizeof *z->entries, by_offset);
    for (size_t i = 0; i < z->count; i++) {
        const struct df_zip_entry *e = &z->entries[i];
        uint64_t end = i + 1 < z->count ? z->entries[i + 1].offset : directory_at;
        if (e->offset > end || end - e->offset < LOCAL_LEN ||
            end - e->offset - LOCAL_LEN < e->packed)
            return broken_entry(err, e, "it overlaps with another or with the directory");
    }
    qsort(z->entries, z->count, sizeof *z->entries, by_name);
    for (size_t i = 1; i < z->count; i++)
        if (by_name(&z->entries[i - 1], &z->entries[i]) == 0)
            return broken_entry(err, &z->entries[i], "there are two of that name");
    return DF_OK;
}

static enum df_code read_directory(struct df_zip *z, const struct directory *d, struct df_err *err)
{
    if (d->count > z->limits.max_entries || d->size > DIRECTORY_MAX)
        return df_err_set(err, DF_E_TOO_LARGE,
                          "the workbook's archive has %llu entries; %zu are allowed",
                          (unsigned long long)d->count, z->limits.max_entries);
    if (d->size > d->end || d->offset > d->end - d->size)
        return broken_archive(err, "the directory is not where it should be");
    z->prefix = d->end - d->size - d->offset;
    char *raw = df_malloc((size_t)d->size + 1);
    enum df_code code = read_all(z->file, d->end - d->size, raw, (size_t)d->size, err);
    size_t at = 0;
    z->entries = DF_ARENA_ARRAY(&z->arena, struct df_zip_entry, (size_t)d->count + 1);
    while (code == DF_OK && z->count < d->count) {
        size_t len = read_entry(z, &z->entries[z->count], raw + at, (size_t)d->size - at);
        if (len == 0)
            code = broken_archive(err, "its directory cannot be read");
        at += len;
        z->count += len != 0;
    }
    if (code == DF_OK && at != d->size)
        code = broken_archive(err, "its directory has more entries than it says");
    free(raw);
    return code == DF_OK ? check_entries(z, d->offset, err) : code;
}

enum df_code df_zip_init(struct df_zip *z, const struct df_bytes *file,
                         const struct df_record_limits *limits, struct df_err *err)
{
    struct directory d = {0};
    *z = (struct df_zip){.file = file, .limits = *limits};
    enum df_code code = read_end(file, &d, err);
    return code == DF_OK ? read_directory(z, &d, err) : code;
}

void df_zip_release(struct df_zip *z)
{
    df_arena_release(&z->arena);
    *z = (struct df_zip){0};
}

const struct df_zip_entry *df_zip_find(const struct df_zip *z, struct df_str name)
{
    for (size_t low = 0, high = z->count; low < high;) {
        size_t mid = low + (high - low) / 2;
        const struct df_zip_entry *e = &z->entries[mid];
        int order = strncasecmp(name.ptr, e->name.ptr, name.len);
        if (order == 0 && e->name.len > name.len)
            order = -1;
        if (order == 0)
            return e;
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

/* Checks what the directory declares, before a byte is inflated. */
static enum df_code check_declared(const struct df_zip *z, const struct df_zip_entry *e,
                                   struct df_err *err)
{
    if (e->flags & FLAG_ENCRYPTED)
        return broken_entry(err, e, "it is encrypted; save the workbook without a password");
    if (e->method != 0 && e->method != Z_DEFLATED)
        return broken_entry(err, e, "it is packed by a method that workbooks do not use");
    if (e->method == 0 && e->size != e->packed)
        return broken_entry(err, e, "its sizes contradict each other");
    if (e->size > z->limits.max_inflated)
        return df_err_set(err, DF_E_TOO_LARGE,
                          "the workbook's part " DF_STR_FMT
                          " grows to %llu bytes; %llu are allowed",
                          DF_STR_ARG(e->name), (unsigned long long)e->size,
                          (unsigned long long)z->limits.max_inflated);
    if (e->size > RATIO_FLOOR && e->size / z->limits.max_ratio > e->packed)
        return df_err_set(err, DF_E_TOO_LARGE,
                          "the workbook's part " DF_STR_FMT
                          " grows to more than %llu times its size when unpacked",
                          DF_STR_ARG(e->name), (unsigned long long)z->limits.max_ratio);
    return DF_OK;
}

enum df_code df_zip_reader_open(struct df_zip_reader *r, const struct df_zip *z,
                                const struct df_zip_entry *entry, struct df_err *err)
{
    char head[LOCAL_LEN];
    uint64_t at = z->prefix + entry->offset;
    df_zip_reader_release(r);
    enum df_code code = check_declared(z, entry, err);
    if (code == DF_OK)
        code = read_all(z->file, at, head, sizeof head, err);
    if (code != DF_OK)
        return code;
    uint64_t skip = LOCAL_LEN + (uint64_t)u16(head + 26) + u16(head + 28);
    if (u32(head) != LOCAL_SIG || u16(head + 8) != entry->method)
        return broken_entry(err, entry, "it does not begin where the directory says");
    if (at + skip > z->file->size || z->file->size - at - skip < entry->packed)
        return broken_entry(err, entry, "it ends too early");
    *r = (struct df_zip_reader){.zip = z, .entry = entry, .next = at + skip, .left = entry->packed};
    if (entry->method == Z_DEFLATED && inflateInit2(&r->stream, -MAX_WBITS) != Z_OK)
        df_oom();
    r->begun = entry->method == Z_DEFLATED;
    r->in = df_malloc(IN_BYTES);
    r->crc = (uint32_t)crc32(0, NULL, 0);
    return DF_OK;
}

void df_zip_reader_release(struct df_zip_reader *r)
{
    if (r->begun)
        inflateEnd(&r->stream);
    free(r->in);
    *r = (struct df_zip_reader){0};
}

static enum df_code fill_input(struct df_zip_reader *r, struct df_err *err)
{
    size_t len = r->left < IN_BYTES ? (size_t)r->left : IN_BYTES;
    enum df_code code = read_all(r->zip->file, r->next, r->in, len, err);
    if (code != DF_OK)
        return code;
    r->next += len;
    r->left -= len;
    r->stream.next_in = (Bytef *)r->in;
    r->stream.avail_in = (uInt)len;
    return DF_OK;
}

/* Inflates into [ptr, ptr + len) until it is full or the entry ends. */
static enum df_code inflate_some(struct df_zip_reader *r, char *ptr, size_t len, size_t *ret_len,
                                 struct df_err *err)
{
    z_stream *s = &r->stream;
    s->next_out = (Bytef *)ptr;
    s->avail_out = (uInt)len;
    while (s->avail_out && !r->ended) {
        enum df_code code = s->avail_in == 0 && r->left ? fill_input(r, err) : DF_OK;
        if (code != DF_OK)
            return code;
        int z = inflate(s, Z_NO_FLUSH);
        if (z == Z_STREAM_END)
            r->ended = true;
        else if (z == Z_MEM_ERROR)
            df_oom();
        else if (z != Z_OK && (z != Z_BUF_ERROR || (s->avail_in == 0 && r->left == 0)))
            return broken_entry(err, r->entry, "it cannot be unpacked");
        else if (s->avail_in == 0 && r->left == 0 && s->avail_out)
            return broken_entry(err, r->entry, "it ends too early");
    }
    *ret_len = len - s->avail_out;
    return DF_OK;
}

static enum df_code copy_some(struct df_zip_reader *r, char *ptr, size_t len, size_t *ret_len,
                              struct df_err *err)
{
    if (len > r->left)
        len = (size_t)r->left;
    enum df_code code = read_all(r->zip->file, r->next, ptr, len, err);
    if (code != DF_OK)
        return code;
    r->next += len;
    r->left -= len;
    r->ended = r->left == 0;
    *ret_len = len;
    return DF_OK;
}

enum df_code df_zip_read(struct df_zip_reader *r, char *ptr, size_t len, size_t *ret_len,
                         struct df_err *err)
{
    const struct df_zip_entry *e = r->entry;
    size_t got = 0;
    enum df_code code = DF_OK;
    *ret_len = 0;
    if (len > UINT32_MAX)
        len = UINT32_MAX;
    if (!r->ended)
        code = r->begun ? inflate_some(r, ptr, len, &got, err) : copy_some(r, ptr, len, &got, err);
    if (code != DF_OK)
        return code;
    r->crc = (uint32_t)crc32(r->crc, (const Bytef *)ptr, (uInt)got);
    r->given += got;
    if (r->given > e->size)
        return broken_entry(err, e, "it is longer than the directory says");
    if (r->ended && r->given != e->size)
        return broken_entry(err, e, "it is shorter than the directory says");
    if (r->ended && (r->left || r->stream.avail_in))
        return broken_entry(err, e, "something stands behind its end");
    if (r->ended && r->crc != e->crc)
        return broken_entry(err, e, "its checksum is wrong");
    *ret_len = got;
    return DF_OK;
}
