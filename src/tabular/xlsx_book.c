#include "tabular/xlsx_book.h"

#include "base/mem.h"
#include "tabular/xlsx_xml.h"

#include <stdlib.h>

#define RELS_MAX    4096
#define SHEETS_MAX  4096
#define STYLES_MAX  65536
#define FORMATS_MAX 4096
#define NAME_BYTES  1024        /* of a name, an id, a path or a format's code */
#define PART_MAX    (64U << 20) /* bytes of a part read here; styles are the largest */

/* A relationship from one part to another. */
struct rel {
    struct df_str id;
    struct df_str type; /* what follows the last '/' */
    struct df_str target;
};

struct rels {
    struct df_arena *arena;
    struct rel *list;
    size_t count, room;
};

static enum df_code ignore_end(void *arg, struct df_err *err)
{
    (void)arg, (void)err;
    return DF_OK;
}

static enum df_code ignore_text(void *arg, struct df_str piece, struct df_err *err)
{
    (void)arg, (void)piece, (void)err;
    return DF_OK;
}

/* Makes room for one more element. The old list stays in the arena; together the old ones are
 * smaller than the new one. */
static void *grow_list(struct df_arena *arena, void *list, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return list;
    size_t more = *room ? *room * 2 : 16;
    void *bigger = df_arena_zalloc_array(arena, more, size);
    if (count)
        memcpy(bigger, list, count * size);
    *room = more;
    return bigger;
}

static enum df_code too_many(struct df_err *err, const char *what, size_t max)
{
    return df_err_set(err, DF_E_TOO_LARGE, "the workbook has more than %zu %s", max, what);
}

static enum df_code read_part(const struct df_zip *zip, const struct df_zip_entry *e,
                              struct df_xml_sink sink, struct df_err *err)
{
    struct df_zip_reader part = {0};
    if (e->size > PART_MAX)
        return df_err_set(err, DF_E_TOO_LARGE,
                          "the workbook's part " DF_STR_FMT " has %llu bytes; %u are allowed",
                          DF_STR_ARG(e->name), (unsigned long long)e->size, PART_MAX);
    enum df_code code = df_zip_reader_open(&part, zip, e, err);
    if (code == DF_OK)
        code = df_xml_strict_read(sink, &part, err);
    df_zip_reader_release(&part);
    return code;
}

/* The last segment of a type or path. */
static struct df_str last_segment(struct df_str s)
{
    const char *slash = s.len ? memrchr(s.ptr, '/', s.len) : NULL;
    return slash ? df_str_n(slash + 1, s.len - (size_t)(slash + 1 - s.ptr)) : s;
}

static enum df_code on_rel(void *arg, const struct df_xml_tag *tag, struct df_err *err)
{
    struct rels *r = arg;
    if (tag->ns != DF_XML_PKG || !df_str_eq(tag->name, DF_STR("Relationship")) ||
        df_str_ieq(df_xml_attr(tag, DF_XML_NONE, DF_STR("TargetMode")), DF_STR("External")))
        return DF_OK;
    struct df_str id = df_xml_attr(tag, DF_XML_NONE, DF_STR("Id"));
    struct df_str type = df_xml_attr(tag, DF_XML_NONE, DF_STR("Type"));
    struct df_str target = df_xml_attr(tag, DF_XML_NONE, DF_STR("Target"));
    if (!target.len || id.len > NAME_BYTES || type.len > NAME_BYTES || target.len > NAME_BYTES)
        return DF_OK;
    if (r->count == RELS_MAX)
        return too_many(err, "relationships", RELS_MAX);
    r->list = grow_list(r->arena, r->list, &r->room, r->count, sizeof *r->list);
    r->list[r->count++] = (struct rel){.id = df_arena_str(r->arena, id),
                                       .type = df_arena_str(r->arena, last_segment(type)),
                                       .target = df_arena_str(r->arena, target)};
    return DF_OK;
}

/* Reads the relationships of the part of that name, or of the package if the name is empty. */
static enum df_code read_rels(struct rels *r, const struct df_zip *zip, struct df_str part,
                              struct df_err *err)
{
    struct df_str file = last_segment(part);
    struct df_str path =
        df_arena_printf(r->arena, "%.*s_rels/%.*s.rels", (int)(part.len - file.len),
                        part.ptr ? part.ptr : "", DF_STR_ARG(file));
    const struct df_zip_entry *e = df_zip_find(zip, path);
    struct df_xml_sink sink = {on_rel, ignore_end, ignore_text, r};
    return e ? read_part(zip, e, sink, err) : DF_OK;
}

/* The entry that a target in the relationships of `part` names. ".." never leaves the archive. */
static const struct df_zip_entry *resolve_target(const struct df_zip *zip, struct df_str part,
                                                 struct df_str target)
{
    char path[2 * NAME_BYTES + 2];
    size_t len = 0, base = part.len - last_segment(part).len;
    bool absolute = target.len && (target.ptr[0] == '/' || target.ptr[0] == '\\');
    if (!absolute && base <= NAME_BYTES) {
        if (base)
            memcpy(path, part.ptr, base);
        len = base;
    }
    for (size_t i = 0, start = 0; i <= target.len && target.len <= NAME_BYTES; i++) {
        if (i < target.len && target.ptr[i] != '/' && target.ptr[i] != '\\')
            continue;
        struct df_str segment = df_str_n(target.ptr + start, i - start);
        start = i + 1;
        if (df_str_eq(segment, DF_STR(".."))) {
            len -= len > 0;
            while (len > 0 && path[len - 1] != '/')
                len--;
        } else if (segment.len && !df_str_eq(segment, DF_STR("."))) {
            memcpy(path + len, segment.ptr, segment.len);
            len += segment.len;
            if (i < target.len)
                path[len++] = '/';
        }
    }
    return len ? df_zip_find(zip, df_str_n(path, len)) : NULL;
}

static const struct rel *rel_by_type(const struct rels *r, const char *type)
{
    for (size_t i = 0; i < r->count; i++)
        if (df_str_eq(r->list[i].type, df_str_c(type)))
            return &r->list[i];
    return NULL;
}

static const struct rel *rel_by_id(const struct rels *r, struct df_str id)
{
    for (size_t i = 0; i < r->count; i++)
        if (df_str_eq(r->list[i].id, id))
            return &r->list[i];
    return NULL;
}

/* --- which document it is -------------------------------------------------------------------- */

struct types {
    struct df_str part; /* the part whose content type is wanted */
    char type[160];
    bool found; /* by the part's name, which counts more than its extension */
};

static enum df_code on_type(void *arg, const struct df_xml_tag *tag, struct df_err *err)
{
    struct types *t = arg;
    (void)err;
    struct df_str type = df_xml_attr(tag, DF_XML_NONE, DF_STR("ContentType"));
    struct df_str name = df_xml_attr(tag, DF_XML_NONE, DF_STR("PartName"));
    struct df_str extension = df_xml_attr(tag, DF_XML_NONE, DF_STR("Extension"));
    if (tag->ns != DF_XML_PKG || type.len >= sizeof t->type)
        return DF_OK;
    while (name.len && (name.ptr[0] == '/' || name.ptr[0] == '\\'))
        name = df_str_n(name.ptr + 1, name.len - 1);
    bool by_name = name.len && df_str_ieq(name, t->part);
    bool by_extension =
        extension.len && !t->found && t->part.len > extension.len &&
        t->part.ptr[t->part.len - extension.len - 1] == '.' &&
        df_str_ieq(extension, df_str_n(t->part.ptr + t->part.len - extension.len, extension.len));
    if (by_name || by_extension) {
        t->found = t->found || by_name;
        if (type.len)
            memcpy(t->type, type.ptr, type.len);
        t->type[type.len] = 0;
    }
    return DF_OK;
}

static enum df_code other_document(const struct df_zip *zip, struct df_err *err)
{
    char text[64];
    size_t len = 0;
    const struct df_zip_entry *e = df_zip_find(zip, DF_STR("mimetype"));
    struct df_zip_reader part = {0};
    struct df_err ignored = DF_ERR_INIT;
    if (e && e->size < sizeof text && df_zip_reader_open(&part, zip, e, &ignored) == DF_OK &&
        df_zip_read(&part, text, sizeof text, &len, &ignored) != DF_OK)
        len = 0;
    df_zip_reader_release(&part);
    if (df_str_starts(df_str_n(text, len), DF_STR("application/vnd.oasis.opendocument.spread")))
        return df_err_set(err, DF_E_MEDIA_TYPE,
                          "the file is an OpenDocument spreadsheet (.ods); save it as .xlsx");
    return df_err_set(err, DF_E_MEDIA_TYPE,
                      "the file is an archive, but no workbook; send the .xlsx file itself");
}

/* The main part by the package's relationships, and its content type. */
static enum df_code find_main_part(const struct df_zip *zip, struct df_arena *arena,
                                   const struct df_zip_entry **ret, struct types *types,
                                   struct df_err *err)
{
    struct rels rels = {.arena = arena};
    const struct df_zip_entry *content = df_zip_find(zip, DF_STR("[Content_Types].xml"));
    if (!content)
        return other_document(zip, err);
    enum df_code code = read_rels(&rels, zip, DF_STR(""), err);
    if (code != DF_OK)
        return code;
    const struct rel *rel = rel_by_type(&rels, "officeDocument");
    if (!rel)
        return other_document(zip, err);
    *ret = resolve_target(zip, DF_STR(""), rel->target);
    if (!*ret)
        return df_err_set(err, DF_E_VALIDATION,
                          "the workbook's main part, " DF_STR_FMT ", is not there",
                          (int)df_utf8_cut(rel->target, 100).len, rel->target.ptr);
    types->part = (*ret)->name;
    return read_part(zip, content, (struct df_xml_sink){on_type, ignore_end, ignore_text, types},
                     err);
}

enum df_code df_book_find(const struct df_zip *zip, const struct df_zip_entry **ret,
                          struct df_err *err)
{
    struct df_arena arena = {0};
    struct types types = {.type = ""};
    const struct df_zip_entry *book = NULL;
    enum df_code code = find_main_part(zip, &arena, &book, &types, err);
    df_arena_release(&arena);
    if (code != DF_OK)
        return code;
    if (strcasestr(types.type, "sheet.binary"))
        return df_err_set(err, DF_E_MEDIA_TYPE,
                          "the file is a binary workbook (.xlsb); save it as .xlsx");
    if (strcasestr(types.type, "wordprocessingml") || strcasestr(types.type, "presentationml"))
        return df_err_set(err, DF_E_MEDIA_TYPE,
                          "the file is a text document or a presentation, not a workbook");
    *ret = book;
    return DF_OK;
}

/* --- the workbook part ----------------------------------------------------------------------- */

struct loading {
    struct df_book *book;
    unsigned depth;
    size_t room;
    /* styles */
    bool in_xfs;
    size_t number_count, number_room;
    struct {
        unsigned id;
        const struct df_format *format;
    } * numbers;
};

static bool is_true(struct df_str s)
{
    return df_str_eq(s, DF_STR("1")) || df_str_ieq(s, DF_STR("true")) ||
           df_str_ieq(s, DF_STR("on"));
}

static enum df_code on_book_start(void *arg, const struct df_xml_tag *tag, struct df_err *err)
{
    struct loading *l = arg;
    struct df_book *b = l->book;
    l->depth++;
    if (l->depth == 1 && (tag->ns != DF_XML_MAIN || !df_str_eq(tag->name, DF_STR("workbook"))))
        return df_err_set(err, DF_E_VALIDATION, "the workbook's main part is something else");
    if (tag->ns != DF_XML_MAIN)
        return DF_OK;
    if (l->depth == 2 && df_str_eq(tag->name, DF_STR("workbookPr")))
        b->date1904 = is_true(df_xml_attr(tag, DF_XML_NONE, DF_STR("date1904")));
    if (l->depth != 3 || !df_str_eq(tag->name, DF_STR("sheet")))
        return DF_OK;
    if (b->sheet_count == SHEETS_MAX)
        return too_many(err, "sheets", SHEETS_MAX);
    struct df_str name = df_xml_attr(tag, DF_XML_NONE, DF_STR("name"));
    struct df_str id = df_xml_attr(tag, DF_XML_REL, DF_STR("id"));
    struct df_str state = df_xml_attr(tag, DF_XML_NONE, DF_STR("state"));
    if (name.len > NAME_BYTES || id.len > NAME_BYTES)
        return df_err_set(err, DF_E_VALIDATION, "a sheet's name is too long");
    b->sheets = grow_list(&b->arena, b->sheets, &l->room, b->sheet_count, sizeof *b->sheets);
    b->sheets[b->sheet_count++] =
        (struct df_sheet){.name = df_arena_str(&b->arena, name),
                          .rel_id = df_arena_str(&b->arena, id),
                          .hidden = state.len && !df_str_eq(state, DF_STR("visible"))};
    return DF_OK;
}

static enum df_code on_element_end(void *arg, struct df_err *err)
{
    struct loading *l = arg;
    (void)err;
    l->depth--;
    return DF_OK;
}

/* --- styles ---------------------------------------------------------------------------------- */

static unsigned parse_unsigned(struct df_str s)
{
    int64_t v = 0;
    return df_str_to_i64(s, &v) && v >= 0 && v < UINT32_MAX ? (unsigned)v : 0;
}

static enum df_code on_number_format(struct loading *l, const struct df_xml_tag *tag,
                                     struct df_err *err)
{
    struct df_str code = df_xml_attr(tag, DF_XML_NONE, DF_STR("formatCode"));
    struct df_format *format = DF_ARENA_NEW(&l->book->arena, struct df_format);
    if (l->number_count == FORMATS_MAX)
        return too_many(err, "number formats", FORMATS_MAX);
    l->numbers = grow_list(&l->book->arena, l->numbers, &l->number_room, l->number_count,
                           sizeof *l->numbers);
    l->numbers[l->number_count].id =
        parse_unsigned(df_xml_attr(tag, DF_XML_NONE, DF_STR("numFmtId")));
    *format = df_format_parse(code, &l->book->arena);
    l->numbers[l->number_count++].format = format;
    return DF_OK;
}

static int by_id(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return x < y ? -1 : x > y;
}

static const struct df_format *format_of(struct loading *l, unsigned id)
{
    for (size_t low = 0, high = l->number_count; low < high;) {
        size_t mid = low + (high - low) / 2;
        if (l->numbers[mid].id == id)
            return l->numbers[mid].format;
        if (l->numbers[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return df_format_builtin(id);
}

/* Depth 1 is styleSheet, 2 is numFmts and then cellXfs, 3 is numFmt or xf. */
static enum df_code on_style_start(void *arg, const struct df_xml_tag *tag, struct df_err *err)
{
    struct loading *l = arg;
    struct df_book *b = l->book;
    l->depth++;
    if (l->depth == 2) {
        l->in_xfs = tag->ns == DF_XML_MAIN && df_str_eq(tag->name, DF_STR("cellXfs"));
        if (l->in_xfs && l->number_count)
            qsort(l->numbers, l->number_count, sizeof *l->numbers, by_id);
    }
    if (l->depth != 3 || tag->ns != DF_XML_MAIN)
        return DF_OK;
    if (df_str_eq(tag->name, DF_STR("numFmt")))
        return on_number_format(l, tag, err);
    if (!l->in_xfs || !df_str_eq(tag->name, DF_STR("xf")))
        return DF_OK;
    if (b->format_count == STYLES_MAX)
        return too_many(err, "styles", STYLES_MAX);
    b->formats = grow_list(&b->arena, b->formats, &l->room, b->format_count, sizeof(void *));
    b->formats[b->format_count++] =
        format_of(l, parse_unsigned(df_xml_attr(tag, DF_XML_NONE, DF_STR("numFmtId"))));
    return DF_OK;
}

/* --- together -------------------------------------------------------------------------------- */

static void find_sheets(struct df_book *b, const struct df_zip *zip, const struct rels *rels,
                        struct df_str main)
{
    for (size_t i = 0; i < b->sheet_count; i++) {
        struct df_sheet *s = &b->sheets[i];
        const struct rel *rel = rel_by_id(rels, s->rel_id);
        s->is_cells = rel && df_str_eq(rel->type, DF_STR("worksheet"));
        s->part = s->is_cells ? resolve_target(zip, main, rel->target) : NULL;
        s->is_cells |= !rel;
    }
}

enum df_code df_book_init(struct df_book *b, const struct df_zip *zip,
                          const struct df_zip_entry *main, struct df_err *err)
{
    struct loading l = {.book = b};
    *b = (struct df_book){.date1904 = false};
    struct rels rels = {.arena = &b->arena};
    enum df_code code = read_part(
        zip, main, (struct df_xml_sink){on_book_start, on_element_end, ignore_text, &l}, err);
    if (code == DF_OK)
        code = read_rels(&rels, zip, main->name, err);
    if (code != DF_OK)
        return code;
    find_sheets(b, zip, &rels, main->name);
    const struct rel *rel = rel_by_type(&rels, "sharedStrings");
    b->strings = rel ? resolve_target(zip, main->name, rel->target) : NULL;
    rel = rel_by_type(&rels, "styles");
    const struct df_zip_entry *styles = rel ? resolve_target(zip, main->name, rel->target) : NULL;
    l = (struct loading){.book = b};
    return styles ? read_part(zip, styles,
                              (struct df_xml_sink){on_style_start, on_element_end, ignore_text, &l},
                              err)
                  : DF_OK;
}

void df_book_release(struct df_book *b)
{
    df_arena_release(&b->arena);
    *b = (struct df_book){.date1904 = false};
}

/* Lower case of ASCII and of Latin-1's letters in UTF-8 (C3 80 to C3 9E without C3 97). */
static char fold_byte(const struct df_str s, size_t i)
{
    unsigned char c = (unsigned char)s.ptr[i];
    if (c >= 'A' && c <= 'Z')
        return (char)(c + 32);
    if (i && (unsigned char)s.ptr[i - 1] == 0xC3 && c >= 0x80 && c <= 0x9E && c != 0x97)
        return (char)(c + 32);
    return (char)c;
}

static bool same_name(struct df_str a, struct df_str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (fold_byte(a, i) != fold_byte(b, i))
            return false;
    return true;
}

static enum df_code no_such_sheet(const struct df_book *b, struct df_str name, struct df_err *err)
{
    struct df_buf names;
    df_buf_init(&names, 4096);
    for (size_t i = 0; i < b->sheet_count && names.len < 200; i++)
        df_buf_addf(&names, "%s\"%.*s\"", i ? ", " : "",
                    (int)df_utf8_cut(b->sheets[i].name, 60).len, b->sheets[i].name.ptr);
    enum df_code code = df_err_set(
        err, DF_E_VALIDATION, "there is no sheet \"%.*s\"; the workbook has %s",
        (int)df_utf8_cut(name, 60).len, name.ptr, names.len ? df_buf_str(&names).ptr : "none");
    df_buf_release(&names);
    return code;
}

enum df_code df_book_sheet(const struct df_book *b, struct df_str name, const struct df_sheet **ret,
                           struct df_err *err)
{
    const struct df_sheet *found = NULL, *hidden = NULL;
    for (size_t i = 0; i < b->sheet_count && !found; i++) {
        const struct df_sheet *s = &b->sheets[i];
        if (name.ptr ? same_name(s->name, name) : s->is_cells && !s->hidden)
            found = s;
        if (!hidden && s->is_cells)
            hidden = s;
    }
    if (!name.ptr && !found)
        found = hidden;
    int64_t number = 0; /* from 1; only when no sheet has this name */
    if (!found && df_str_to_i64(name, &number) && number >= 1 && number <= (int64_t)b->sheet_count)
        found = &b->sheets[number - 1];
    if (!found)
        return name.ptr ? no_such_sheet(b, name, err)
                        : df_err_set(err, DF_E_VALIDATION, "the workbook has no sheet of cells");
    if (!found->is_cells)
        return df_err_set(err, DF_E_VALIDATION,
                          "\"%.*s\" is a chart or a dialogue, not a sheet of cells",
                          (int)df_utf8_cut(found->name, 60).len, found->name.ptr);
    if (!found->part)
        return df_err_set(err, DF_E_VALIDATION, "the part of the sheet \"%.*s\" is not there",
                          (int)df_utf8_cut(found->name, 60).len, found->name.ptr);
    *ret = found;
    return DF_OK;
}
