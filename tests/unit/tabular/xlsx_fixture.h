/* Workbooks made of their parts' texts, and what is read out of them as lines of text. */
#ifndef XLSX_FIXTURE_H
#define XLSX_FIXTURE_H

#include "base/buf.h"
#include "tabular/xlsx.h"

#include <stdlib.h>
#include <zlib.h>

#define MAIN_NS   "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
#define REL_NS    "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
#define PKG_NS    "http://schemas.openxmlformats.org/package/2006/"
#define XML_HEAD  "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n"
#define ZIP_PARTS 64

struct zip_part {
    const char *name;
    struct df_str content;
    bool deflated;
    bool descriptor; /* sizes and checksum behind the data, none before */
    /* Lies of the directory: 0 is none. */
    uint32_t crc, size, packed, offset;
    uint16_t method, flags;
};

struct zip_maker {
    struct zip_part parts[ZIP_PARTS];
    size_t count;
    const char *prefix, *suffix;
    bool zip64;
    uint32_t entries_lie;
};

static inline void put(struct df_buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        df_buf_addc(b, (char)(i < 8 ? v >> (8 * i) & 0xFF : 0));
}

static inline struct zip_part *zip_add(struct zip_maker *z, const char *name, struct df_str content)
{
    if (z->count == ZIP_PARTS)
        abort();
    z->parts[z->count] = (struct zip_part){.name = name, .content = content};
    return &z->parts[z->count++];
}

static inline struct df_str zip_pack(const struct zip_part *p)
{
    if (!p->deflated)
        return p->content;
    z_stream s = {0};
    uLong room = p->content.len + p->content.len / 100 + 1024;
    char *out = malloc(room);
    if (!out || deflateInit2(&s, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    s.next_in = (Bytef *)(uintptr_t)p->content.ptr;
    s.avail_in = (uInt)p->content.len;
    s.next_out = (Bytef *)out;
    s.avail_out = (uInt)room;
    if (deflate(&s, Z_FINISH) != Z_STREAM_END)
        abort();
    struct df_str packed = {out, s.total_out};
    deflateEnd(&s);
    return packed;
}

static inline void put_name(struct df_buf *b, const struct zip_part *p, size_t extra)
{
    put(b, strlen(p->name), 2);
    put(b, extra, 2);
}

static inline void put_directory(struct zip_maker *z, struct df_buf *b, struct df_buf *dir)
{
    size_t prefix = z->prefix ? strlen(z->prefix) : 0;
    uint64_t at = b->len - prefix;
    df_buf_adds(b, df_buf_str(dir));
    if (z->zip64) {
        uint64_t end64 = b->len - prefix;
        put(b, 0x06064b50, 4);
        put(b, 44, 8);
        put(b, 45 | 45 << 16, 4);
        put(b, 0, 8);
        put(b, z->count, 8);
        put(b, z->count, 8);
        put(b, dir->len, 8);
        put(b, at, 8);
        put(b, 0x07064b50, 4);
        put(b, 0, 4);
        put(b, end64, 8);
        put(b, 1, 4);
    }
    size_t count = z->entries_lie ? z->entries_lie : z->count;
    put(b, 0x06054b50, 4);
    put(b, 0, 4);
    put(b, z->zip64 ? 0xFFFF : count, 2);
    put(b, z->zip64 ? 0xFFFF : count, 2);
    put(b, z->zip64 ? UINT32_MAX : dir->len, 4);
    put(b, z->zip64 ? UINT32_MAX : at, 4);
    put(b, 0, 2);
}

/* The archive, malloc'ed. */
static inline struct df_str zip_make(struct zip_maker *z)
{
    struct df_buf b, dir;
    df_buf_init(&b, 1U << 30);
    df_buf_init(&dir, 1U << 30);
    if (z->prefix)
        df_buf_addz(&b, z->prefix);
    for (size_t i = 0; i < z->count; i++) {
        const struct zip_part *p = &z->parts[i];
        struct df_str packed = zip_pack(p);
        size_t prefix = z->prefix ? strlen(z->prefix) : 0;
        uint32_t crc = (uint32_t)crc32(0, (const Bytef *)p->content.ptr, (uInt)p->content.len);
        uint64_t offset = b.len - prefix, method = p->deflated ? 8 : 0;
        uint64_t flags = (p->descriptor ? 8 : 0) | p->flags;
        put(&b, 0x04034b50, 4);
        put(&b, 20, 2);
        put(&b, flags, 2);
        put(&b, method, 2);
        put(&b, 0, 4);
        put(&b, p->descriptor ? 0 : crc, 4);
        put(&b, p->descriptor ? 0 : packed.len, 4);
        put(&b, p->descriptor ? 0 : p->content.len, 4);
        put_name(&b, p, 0);
        df_buf_addz(&b, p->name);
        df_buf_adds(&b, packed);
        if (p->descriptor) {
            put(&b, 0x08074b50, 4);
            put(&b, crc, 4);
            put(&b, packed.len, 4);
            put(&b, p->content.len, 4);
        }
        put(&dir, 0x02014b50, 4);
        put(&dir, 20 | 20 << 16, 4);
        put(&dir, flags, 2);
        put(&dir, p->method ? p->method : method, 2);
        put(&dir, 0, 4);
        put(&dir, p->crc ? p->crc : crc, 4);
        put(&dir, z->zip64 ? UINT32_MAX : p->packed ? p->packed : packed.len, 4);
        put(&dir, z->zip64 ? UINT32_MAX : p->size ? p->size : p->content.len, 4);
        put_name(&dir, p, z->zip64 ? 28 : 0);
        put(&dir, 0, 10);
        put(&dir, z->zip64 ? UINT32_MAX : p->offset ? p->offset : offset, 4);
        df_buf_addz(&dir, p->name);
        if (z->zip64) {
            put(&dir, 1 | 24 << 16, 4);
            put(&dir, p->content.len, 8);
            put(&dir, packed.len, 8);
            put(&dir, offset, 8);
        }
        if (p->deflated)
            free((void *)(uintptr_t)packed.ptr);
    }
    put_directory(z, &b, &dir);
    if (z->suffix)
        df_buf_addz(&b, z->suffix);
    df_buf_release(&dir);
    size_t len;
    char *ptr = df_buf_take(&b, &len);
    return df_str_n(ptr, len);
}

/* A workbook around what matters of it; NULL: an ordinary part, or none of strings and styles. */
struct book_parts {
    struct df_str sheet; /* the whole part */
    const char *strings, *styles, *workbook, *rels;
    bool deflated;
};

#define BOOK_RELS(sheet, strings, styles)                                                          \
    "<Relationships xmlns=\"" PKG_NS "relationships\">"                                            \
    "<Relationship Id=\"rId1\" Type=\"" REL_NS "/worksheet\" Target=\"" sheet "\"/>"               \
    "<Relationship Id=\"rId2\" Type=\"" REL_NS "/sharedStrings\" Target=\"" strings "\"/>"         \
    "<Relationship Id=\"rId3\" Type=\"" REL_NS "/styles\" Target=\"" styles "\"/>"                 \
    "<Relationship Id=\"rId4\" Type=\"" REL_NS "/chartsheet\" Target=\"chartsheets/c1.xml\"/>"     \
    "<Relationship Id=\"rId5\" Type=\"" REL_NS "/worksheet\" Target=\"worksheets/none.xml\"/>"     \
    "</Relationships>"

#define BOOK_TYPES                                                                                 \
    "<Types xmlns=\"" PKG_NS "content-types\">"                                                    \
    "<Default Extension=\"xml\" ContentType=\"application/xml\"/>"                                 \
    "<Override PartName=\"/xl/workbook.xml\" ContentType=\"application/"                           \
    "vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml\"/></Types>"

#define ROOT_RELS(target)                                                                          \
    "<Relationships xmlns=\"" PKG_NS "relationships\"><Relationship Id=\"r\" Type=\"" REL_NS       \
    "/officeDocument\" Target=\"" target "\"/></Relationships>"

#define WORKBOOK(properties, sheets)                                                               \
    "<workbook xmlns=\"" MAIN_NS "\" xmlns:r=\"" REL_NS "\">" properties "<sheets>" sheets         \
    "</sheets></workbook>"

#define ONE_SHEET "<sheet name=\"Dados\" sheetId=\"1\" r:id=\"rId1\"/>"

static inline void book_zip(const struct book_parts *p, struct zip_maker *z)
{
    static const char rels[] =
        BOOK_RELS("worksheets/sheet1.xml", "sharedStrings.xml", "styles.xml");
    zip_add(z, "[Content_Types].xml", DF_STR(BOOK_TYPES));
    zip_add(z, "_rels/.rels", DF_STR(ROOT_RELS("xl/workbook.xml")));
    zip_add(z, "xl/workbook.xml", df_str_c(p->workbook ? p->workbook : WORKBOOK("", ONE_SHEET)));
    zip_add(z, "xl/_rels/workbook.xml.rels", df_str_c(p->rels ? p->rels : rels));
    zip_add(z, "xl/worksheets/sheet1.xml", p->sheet)->deflated = p->deflated;
    if (p->strings)
        zip_add(z, "xl/sharedStrings.xml", df_str_c(p->strings))->deflated = p->deflated;
    if (p->styles)
        zip_add(z, "xl/styles.xml", df_str_c(p->styles));
}

static inline struct df_str book_make(const struct book_parts *p)
{
    struct zip_maker z = {.count = 0};
    book_zip(p, &z);
    return zip_make(&z);
}

/* Reads in pieces of odd sizes, so that nobody relies on getting all. */
static inline enum df_code read_text(void *arg, uint64_t offset, char *ptr, size_t len,
                                     size_t *ret_len, struct df_err *err)
{
    const struct df_str *s = arg;
    (void)err;
    size_t left = offset < s->len ? s->len - (size_t)offset : 0;
    len = len < left ? len : left;
    len = len > 4093 ? 4093 : len;
    if (len)
        memcpy(ptr, s->ptr + offset, len);
    *ret_len = len;
    return DF_OK;
}

static inline struct df_bytes bytes_of(struct df_str *s)
{
    return (struct df_bytes){.read_at = read_text, .arg = s, .size = s->len};
}

static inline void add_line(struct df_buf *out, const struct df_record *r)
{
    static const char kinds[] = {'0', '"', '#', '?', '{'};
    for (size_t i = 0; i < r->count; i++) {
        const struct df_field *f = &r->fields[i];
        df_buf_addf(out, "%s" DF_STR_FMT "=%c" DF_STR_FMT, i ? "|" : "", DF_STR_ARG(f->name),
                    kinds[f->kind], DF_STR_ARG(f->text));
    }
    df_buf_addc(out, '\n');
}

/* One line a record, fields as name="text, name=#number or name=?bool; then what ended it. */
static inline enum df_code read_lines(struct df_str file, const struct df_records_options *opt,
                                      const struct df_xlsx_tuning *tuning, struct df_buf *out,
                                      struct df_err *err)
{
    struct df_bytes bytes = bytes_of(&file);
    struct df_records *r = NULL;
    struct df_record record;
    enum df_code code = df_xlsx_records_open_tuned(&bytes, opt, tuning, &r, err);
    while (code == DF_OK && (code = df_records_next(r, &record, err)) == DF_ROW) {
        add_line(out, &record);
        code = DF_OK;
    }
    df_records_free(r);
    return code;
}

#endif
