/*
 * Mutations of workbooks that get past the archive. Random bytes rarely do: they break a checksum
 * or a deflated stream, and what reads sheets never sees them. So an archive is taken apart, one of
 * its parts is changed as XML, or its entries are, and it is put together again with right
 * checksums; now and then its headers lie, and now and then random bytes have their turn after all.
 *
 * An XML text is changed by one edit: a piece of it gives way to another text. What the pieces are
 * is known from its tags; a text that is not well formed has tags too.
 */
#ifndef XLSX_MUTATOR_H
#define XLSX_MUTATOR_H

#include "../unit/tabular/xlsx_fixture.h"
#include "base/arena.h"
#include "tabular/xlsx_zip.h"

#define TAGS_MAX 2048
#define PART_MAX (256U << 10)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2,
                                 size_t size2, uint8_t *out, size_t max_size, unsigned int seed);

struct mutation {
    uint64_t state;
    struct df_arena arena;
};

static inline uint32_t draw(struct mutation *m, size_t below)
{
    m->state ^= m->state << 13;
    m->state ^= m->state >> 7;
    m->state ^= m->state << 17;
    return below ? (uint32_t)((m->state >> 16) % below) : 0;
}

/* --- XML -------------------------------------------------------------------------------------- */

struct tag {
    size_t start, end; /* of "<…>" */
    size_t name, name_end;
    size_t close; /* the tag that closes it: its own place if none does */
    bool closing, empty;
};

struct edit {
    size_t from, to;
    struct df_str text;
};

/* clang-format off */
static const char *const names[] = {
    "row", "c", "v", "f", "is", "t", "r", "rPr", "rPh", "phoneticPr", "si", "sst", "sheetData",
    "worksheet", "sheetViews", "cols", "col", "mergeCell", "cellXfs", "cellStyleXfs", "xf",
    "numFmts", "numFmt", "sheets", "sheet", "workbookPr", "workbook", "Relationship", "Override",
    "Default", "x:row", "x:c", "mc:AlternateContent", "mc:Choice", "mc:Fallback", "extLst", "ext",
};

static const char *const values[] = {
    "A1", "B2", "C1", "AA1", "XFD1", "XFE1", "XFD1048576", "A1048577", "A0", "a1", "$A$1", "AAAA1",
    "A99999999999", "1", "0", "-1", "2", "3", "7", "1048576", "1048577", "65536", "4294967295",
    "4294967296", "18446744073709551616", "1.0", " 1", "1 ", "+1", "", "s", "b", "e", "n", "d",
    "str", "inlineStr", "x", "true", "false", "preserve", "default", "hidden", "veryHidden", "rId1",
    "rId2", "rId3", "rId99", "14", "22", "45", "46", "49", "164", "165", "General", "0.00",
    "00000-000", "@", "yyyy-mm-dd", "[h]:mm:ss", "mm:ss.000", "dd/mm/yyyy\\ hh:mm",
    "[Red]0;[Blue]-0;&quot;x&quot;", "#,##0.00_);\\(#,##0\\)", "[$-416]d \"de\" mmmm", "0.00E+00",
    "# ?/?", "worksheets/sheet1.xml", "/xl/worksheets/sheet1.xml", "../xl/./sheet1.xml",
    "sharedStrings.xml", "styles.xml", "xl\\workbook.xml", "External", "Dados", "&#10;", "&amp;",
    "&#x1F600;", "&bad;", "&#0;", "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    "http://purl.oclc.org/ooxml/spreadsheetml/main",
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet",
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings",
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles",
};

static const char *const texts[] = {
    "0", "1", "2", "99", "-1", "45981", "45981.5", "60", "59.999999999", "0.9999999999", "2958465",
    "2958466", "1e308", "1E-400", "5.511999998888E12", "12345678901234567890", "0.1", "1.10", "-0",
    "NaN", "INF", "TRUE", "FALSE", "#N/A", "#DIV/0!", "2026-11-15T03:16:05Z", "2026-02-30", " ", "",
    "\n", "a", "=1+1", "_x000D_", "_xD83D__xDE00_", "_x005F_x0041_", "&lt;&gt;", "&#65;",
    "&#xD800;", "<![CDATA[x]]>", "<![CDATA[]]]]>", "\xC3\xA7", "\xEF\xBB\xBF", "\xFF",
    "\xED\xA0\x80", "telefone",
};

static const char *const attributes[] = {
    " r=\"A1\"", " r=\"2\"", " r=\"XFD1048576\"", " s=\"1\"", " s=\"0\"", " t=\"s\"", " t=\"b\"",
    " t=\"str\"", " t=\"inlineStr\"", " t=\"d\"", " t=\"e\"", " xml:space=\"preserve\"",
    " spans=\"1:3\"", " hidden=\"1\"", " state=\"hidden\"", " numFmtId=\"14\"", " numFmtId=\"164\"",
    " formatCode=\"yyyy\"", " applyNumberFormat=\"1\"", " date1904=\"1\"", " count=\"99\"",
    " uniqueCount=\"4294967295\"", " xmlns:x=\"" MAIN_NS "\"", " xmlns=\"\"",
    " TargetMode=\"External\"", " r:id=\"rId2\"", " name=\"Dados\"",
};

static const char *const snippets[] = {
    "<!---->", "<!-- <row> -->", "<?pi x?>", "<!DOCTYPE a [<!ENTITY b \"c\">]>", "<row/>",
    "<row r=\"3\"><c r=\"A3\"><v>1</v></c><c r=\"C3\" t=\"s\"><v>1</v></c></row>",
    "<row r=\"900\"><c r=\"B900\" t=\"inlineStr\"><is><r><t>a</t></r><r><t xml:space=\"preserve\"> b</t></r></is></c></row>",
    "<c r=\"B2\" t=\"b\"><v>1</v></c>", "<c t=\"str\"><f>A1&amp;\"x\"</f><v>x</v></c>",
    "<c t=\"e\"><v>#REF!</v></c>", "<c s=\"1\"><v>45981.5</v></c>",
    "<c r=\"D1\" t=\"d\"><v>2026-11-15</v></c>", "<si><t>one</t></si>",
    "<si><r><rPr><b/></rPr><t>a</t></r><r><t>b</t></r><rPh sb=\"0\" eb=\"1\"><t>z</t></rPh></si>",
    "<si/>", "<numFmt numFmtId=\"164\" formatCode=\"dd/mm/yyyy\"/>", "<xf numFmtId=\"164\"/>",
    "<xf numFmtId=\"22\" applyNumberFormat=\"0\"/>", "<workbookPr date1904=\"1\"/>",
    "<sheet name=\"Two\" sheetId=\"2\" r:id=\"rId2\"/>", "<x xmlns=\"other\"><row/></x>", "&amp;",
    "]]>",
};
/* clang-format on */

static inline struct df_str one_of(struct mutation *m, const char *const *list, size_t count)
{
    return df_str_c(list[draw(m, count)]);
}

#define ONE_OF(m, list) one_of(m, list, COUNT(list))

/* Behind the '>' that ends the tag at `at`; texts in quotes may hold one. 0: none does. */
static inline size_t tag_end(struct df_str s, size_t at)
{
    char quote = 0;
    for (size_t i = at + 1; i < s.len; i++) {
        char c = s.ptr[i];
        if (quote)
            quote = c == quote ? 0 : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else if (c == '>')
            return i + 1;
    }
    return 0;
}

static inline void match_tags(struct tag *tags, size_t count)
{
    size_t open[256], depth = 0;
    for (size_t i = 0; i < count; i++) {
        tags[i].close = i;
        if (tags[i].closing && depth > 0)
            tags[open[--depth]].close = i;
        else if (!tags[i].closing && !tags[i].empty && depth < COUNT(open))
            open[depth++] = i;
    }
}

static inline size_t find_tags(struct df_str s, struct tag *tags)
{
    size_t count = 0;
    for (size_t i = 0; i < s.len && count < TAGS_MAX; i++) {
        if (s.ptr[i] != '<' || i + 1 >= s.len || s.ptr[i + 1] == '!' || s.ptr[i + 1] == '?')
            continue;
        size_t end = tag_end(s, i);
        if (!end)
            break;
        struct tag *t = &tags[count++];
        *t = (struct tag){.start = i, .end = end, .closing = s.ptr[i + 1] == '/'};
        t->empty = s.ptr[end - 2] == '/';
        t->name = i + 1 + t->closing;
        t->name_end = t->name;
        while (t->name_end < end && !strchr(" \t\r\n/>", s.ptr[t->name_end]))
            t->name_end++;
        i = end - 1;
    }
    match_tags(tags, count);
    return count;
}

static inline struct df_str piece(struct df_str s, size_t from, size_t to)
{
    return df_str_n(s.ptr + from, to > from ? to - from : 0);
}

static inline struct df_str element(struct df_str s, const struct tag *tags, const struct tag *t)
{
    return piece(s, t->start, tags[t->close].end);
}

/* The value of one of the tag's attributes, chosen by chance; from == to: it has none. */
static inline struct edit value_of(struct mutation *m, struct df_str s, const struct tag *t)
{
    struct edit found = {t->name_end, t->name_end, {"", 0}};
    size_t seen = 0, start = 0;
    char quote = 0;
    for (size_t i = t->name_end; i < t->end; i++) {
        char c = s.ptr[i];
        if (!quote && (c == '"' || c == '\'')) {
            quote = c;
            start = i + 1;
        } else if (quote && c == quote) {
            quote = 0;
            if (draw(m, ++seen) == 0)
                found = (struct edit){start, i, {"", 0}};
        }
    }
    return found;
}

static inline struct edit change_name(struct mutation *m, struct df_str s, const struct tag *tags,
                                      const struct tag *t)
{
    const struct tag *end = &tags[t->close];
    struct df_str name = ONE_OF(m, names);
    if (end == t || draw(m, 8) == 0)
        return (struct edit){t->name, t->name_end, name};
    struct df_str inner = piece(s, t->name_end, end->name);
    return (struct edit){t->name, end->name_end,
                         df_arena_printf(&m->arena, DF_STR_FMT DF_STR_FMT DF_STR_FMT,
                                         DF_STR_ARG(name), DF_STR_ARG(inner), DF_STR_ARG(name))};
}

/* What to change in a text with tags. */
static inline struct edit choose_edit(struct mutation *m, struct df_str s, const struct tag *tags,
                                      size_t count)
{
    const struct tag *t = &tags[draw(m, count)], *other = &tags[draw(m, count)];
    size_t text_end = t < tags + count - 1 ? t[1].start : s.len;
    switch (draw(m, 10)) {
    case 0:
        return (struct edit){other->start, other->start, element(s, tags, t)};
    case 1:
        return (struct edit){t->start, tags[t->close].end, {"", 0}};
    case 2:
        return (struct edit){t->start, tags[t->close].end, element(s, tags, other)};
    case 3:
    case 4: {
        struct edit e = value_of(m, s, t);
        e.text = e.from < e.to ? ONE_OF(m, values) : ONE_OF(m, attributes);
        return e;
    }
    case 5:
        return (struct edit){t->name_end, t->name_end, ONE_OF(m, attributes)};
    case 6:
        return change_name(m, s, tags, t);
    case 7:
    case 8:
        return (struct edit){t->end, text_end, ONE_OF(m, texts)};
    default:
        return (struct edit){t->start, t->start, ONE_OF(m, snippets)};
    }
}

static inline struct df_str apply(struct mutation *m, struct df_str s, struct edit e)
{
    size_t len = s.len - (e.to - e.from) + e.text.len;
    char *out = df_arena_alloc(&m->arena, len + 1);
    memcpy(out, s.ptr, e.from);
    if (e.text.len)
        memcpy(out + e.from, e.text.ptr, e.text.len);
    if (s.len > e.to)
        memcpy(out + e.from + e.text.len, s.ptr + e.to, s.len - e.to);
    return df_str_n(out, len);
}

static inline struct df_str mutate_bytes(struct mutation *m, struct df_str s)
{
    size_t room = s.len + 256;
    uint8_t *out = df_arena_alloc(&m->arena, room);
    if (s.len)
        memcpy(out, s.ptr, s.len);
    return df_str_n((const char *)out, LLVMFuzzerMutate(out, s.len, room));
}

static inline struct df_str mutate_xml(struct mutation *m, struct df_str s)
{
    static struct tag tags[TAGS_MAX];
    for (uint32_t edits = 1 + draw(m, 3); edits > 0 && s.len <= PART_MAX; edits--) {
        size_t count = find_tags(s, tags);
        if (count == 0 || draw(m, 6) == 0)
            s = mutate_bytes(m, s);
        else
            s = apply(m, s, choose_edit(m, s, tags, count));
    }
    return s;
}

/* --- the archive ------------------------------------------------------------------------------ */

static inline struct df_str inflated(struct mutation *m, const struct df_zip *zip,
                                     const struct df_zip_entry *e)
{
    struct df_zip_reader reader = {0};
    struct df_err err = DF_ERR_INIT;
    char *out = df_arena_alloc(&m->arena, e->size + 1);
    size_t len = 0, got = 1;
    enum df_code code = df_zip_reader_open(&reader, zip, e, &err);
    while (code == DF_OK && got > 0 && len <= e->size) {
        code = df_zip_read(&reader, out + len, e->size + 1 - len, &got, &err);
        len += code == DF_OK ? got : 0;
    }
    df_zip_reader_release(&reader);
    return df_str_n(out, len); /* as far as it could be read */
}

/* False: nothing of it can be read. */
static inline bool take_apart(struct mutation *m, struct df_str file, struct zip_maker *z)
{
    static const struct df_record_limits limits = {.max_inflated = 1U << 20,
                                                   .max_ratio = 500,
                                                   .max_entries = ZIP_PARTS,
                                                   .max_records = 1,
                                                   .max_record_bytes = 1,
                                                   .max_fields = 1,
                                                   .max_string_bytes = 1,
                                                   .max_shared_bytes = 1};
    struct df_err err = DF_ERR_INIT;
    struct df_bytes bytes = bytes_of(&file);
    struct df_zip zip;
    bool ok = df_zip_init(&zip, &bytes, &limits, &err) == DF_OK;
    for (size_t i = 0; ok && i < zip.count; i++) {
        const struct df_zip_entry *e = &zip.entries[i];
        if (e->size > PART_MAX)
            continue;
        struct zip_part *p = zip_add(z, df_arena_cstr(&m->arena, e->name), inflated(m, &zip, e));
        p->deflated = e->method == 8;
        p->descriptor = e->flags & 8;
    }
    df_zip_release(&zip);
    return ok && z->count > 0;
}

/* Themes and properties are nobody's business: others are chosen ten times as often. */
static inline struct zip_part *choose_part(struct mutation *m, struct zip_maker *z)
{
    struct zip_part *p = &z->parts[0];
    for (int tries = 0; tries < 3; tries++) {
        p = &z->parts[draw(m, z->count)];
        if (!strstr(p->name, "docProps") && !strstr(p->name, "theme"))
            break;
    }
    return p;
}

static inline void change_entries(struct mutation *m, struct zip_maker *z)
{
    static const char *const paths[] = {"xl/workbook.xml",
                                        "XL/Workbook.xml",
                                        "xl\\workbook.xml",
                                        "/xl/workbook.xml",
                                        "xl/worksheets/sheet1.xml",
                                        "xl/worksheets/sheet2.xml",
                                        "xl/sharedStrings.xml",
                                        "xl/SharedStrings.xml",
                                        "xl/styles.xml",
                                        "xl/_rels/workbook.xml.rels",
                                        "_rels/.rels",
                                        "[Content_Types].xml",
                                        "",
                                        "../x",
                                        "mimetype"};
    struct zip_part *p = &z->parts[draw(m, z->count)], *other = &z->parts[draw(m, z->count)];
    struct zip_part swapped = *p;
    switch (draw(m, 8)) {
    case 0:
        *p = z->parts[--z->count];
        break;
    case 1:
        p->name = paths[draw(m, COUNT(paths))];
        break;
    case 2:
        *p = *other;
        *other = swapped;
        break;
    case 3:
        p->deflated = !p->deflated;
        break;
    case 4:
        p->descriptor = !p->descriptor;
        break;
    case 5:
        z->zip64 = true;
        break;
    case 6:
        if (z->count < ZIP_PARTS)
            *zip_add(z, "", (struct df_str){"", 0}) = *other;
        break;
    default:
        *(draw(m, 2) ? &z->prefix : &z->suffix) = "PK\3\4 MZ\n";
        break;
    }
}

static inline void add_lies(struct mutation *m, struct zip_maker *z)
{
    static const uint32_t numbers[] = {1,      2,          8,          9,          12,
                                       0xFFFF, 0x7FFFFFFF, 0x80000000, UINT32_MAX, 65536};
    struct zip_part *p = &z->parts[draw(m, z->count)];
    uint32_t lie =
        draw(m, 2) ? numbers[draw(m, COUNT(numbers))] : (uint32_t)p->content.len + draw(m, 64) - 32;
    switch (draw(m, 7)) {
    case 0:
        p->crc = lie;
        break;
    case 1:
        p->size = lie;
        break;
    case 2:
        p->packed = lie;
        break;
    case 3:
        p->offset = lie;
        break;
    case 4:
        p->method = (uint16_t)lie;
        break;
    case 5:
        p->flags = (uint16_t)(1U << draw(m, 16));
        break;
    default:
        z->entries_lie = lie;
        break;
    }
}

/* The archive in data's place; 0: it has no room there. */
static inline size_t put_together(struct zip_maker *z, uint8_t *data, size_t max_size)
{
    struct df_str made = zip_make(z);
    size_t len = made.len <= max_size ? made.len : 0;
    memcpy(data, made.ptr, len);
    free((void *)(uintptr_t)made.ptr);
    return len;
}

static inline size_t mutate_archive(struct mutation *m, uint8_t *data, size_t size, size_t max_size)
{
    struct zip_maker z = {.count = 0};
    if (!take_apart(m, df_str_n((const char *)data, size), &z))
        return 0;
    if (draw(m, 6) == 0) {
        change_entries(m, &z);
    } else {
        struct zip_part *p = choose_part(m, &z);
        p->content = mutate_xml(m, p->content);
        p->deflated = p->deflated || p->content.len > 1024;
    }
    if (draw(m, 12) == 0 && z.count > 0)
        add_lies(m, &z);
    return put_together(&z, data, max_size);
}

/* --- what libFuzzer calls --------------------------------------------------------------------- */

/* The first byte says what the others are: see fuzz_xlsx.c. */
static inline bool is_archive(const uint8_t *data, size_t size)
{
    return size > 0 && data[0] % 4 == 0;
}

static inline struct mutation begin_mutation(unsigned int seed)
{
    return (struct mutation){.state = 0x9E3779B97F4A7C15U ^ ((uint64_t)seed << 20 | seed)};
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    struct mutation m = begin_mutation(seed);
    size_t len = 0;
    if (size > 1 && draw(&m, 10) > 0) {
        if (is_archive(data, size)) {
            len = mutate_archive(&m, data + 1, size - 1, max_size - 1);
        } else {
            struct df_str s = mutate_xml(&m, df_str_n((const char *)data + 1, size - 1));
            len = s.len < max_size ? s.len : 0;
            memcpy(data + 1, s.ptr, len);
        }
    }
    df_arena_release(&m.arena);
    return len ? len + 1 : LLVMFuzzerMutate(data, size, max_size);
}

/* A part of one in the place of the other's of that name, or an element of one in the other. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2,
                                 size_t size2, uint8_t *out, size_t max_size, unsigned int seed)
{
    struct mutation m = begin_mutation(seed);
    struct zip_maker a = {.count = 0}, b = {.count = 0};
    size_t len = 0;
    if (is_archive(data1, size1) && is_archive(data2, size2) && max_size > 1 &&
        take_apart(&m, df_str_n((const char *)data1 + 1, size1 - 1), &a) &&
        take_apart(&m, df_str_n((const char *)data2 + 1, size2 - 1), &b)) {
        const struct zip_part *from = choose_part(&m, &b);
        size_t i = 0;
        while (i < a.count && strcmp(a.parts[i].name, from->name) != 0)
            i++;
        if (i < a.count)
            a.parts[i] = *from;
        else if (a.count < ZIP_PARTS)
            *zip_add(&a, "", (struct df_str){"", 0}) = *from;
        out[0] = 0;
        len = put_together(&a, out + 1, max_size - 1);
    } else if (size1 > 1 && size2 > 1 && !is_archive(data1, size1) && !is_archive(data2, size2)) {
        struct df_str s = {(const char *)data1 + 1, size1 - 1},
                      t = {(const char *)data2 + 1, size2 - 1};
        static struct tag tags[TAGS_MAX], others[TAGS_MAX];
        size_t n = find_tags(s, tags), k = find_tags(t, others);
        if (n > 0 && k > 0) {
            size_t at = tags[draw(&m, n)].start;
            struct edit e = {at, at, element(t, others, &others[draw(&m, k)])};
            s = apply(&m, s, e);
            len = s.len < max_size ? s.len : 0;
            out[0] = data1[0];
            memcpy(out + 1, s.ptr, len);
        }
    }
    df_arena_release(&m.arena);
    return len ? len + 1 : 0;
}

#endif
