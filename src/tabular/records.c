#include "tabular/records.h"

#include "base/mem.h"
#include "tabular/headers_map.h"

#include "tabular/xlsx.h"

#include <stdlib.h>

#define LOOK_BYTES 4096
#define OWN_MAX    64 /* bytes of a name that may be one of a report's own */

static enum df_code read_up_to(const struct df_bytes *file, uint64_t offset, char *ptr, size_t len,
                               size_t *ret_len, struct df_err *err)
{
    enum df_code code = DF_OK;
    size_t have = 0, got = 1;
    while (code == DF_OK && have < len && got) {
        code = file->read_at(file->arg, offset + have, ptr + have, len - have, &got, err);
        have += code == DF_OK ? got : 0;
    }
    *ret_len = have;
    return code;
}

/* Refuses Microsoft's OLE container, which holds the formats before .xlsx and any .xlsx with a
 * password. */
static enum df_code refuse_ole(const struct df_bytes *file, const char *head, size_t head_len,
                               struct df_err *err)
{
    static const char mark[] = "E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e";
    char sector[LOOK_BYTES];
    size_t len = 0;
    if (head_len >= 512) {
        const unsigned char *h = (const unsigned char *)head;
        unsigned shift = h[0x1E] == 12 ? 12 : 9;
        uint64_t first = h[0x30] | h[0x31] << 8 | (uint64_t)h[0x32] << 16 | (uint64_t)h[0x33] << 24;
        enum df_code code =
            read_up_to(file, (first + 1) << shift, sector, sizeof sector, &len, err);
        if (code != DF_OK)
            return code;
    }
    if (memmem(sector, len, mark, sizeof mark - 1))
        return df_err_set(err, DF_E_MEDIA_TYPE, "the workbook has a password; save it without one");
    return df_err_set(err, DF_E_MEDIA_TYPE,
                      "the file is of an old Office format (.xls); save it as .xlsx");
}

static bool is_binary(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1A) ||
            c == 0x7F)
            return true;
    }
    return false;
}

static enum df_code refuse_text(struct df_str text, struct df_err *err)
{
    if (text.len == 0)
        return df_err_set(err, DF_E_MEDIA_TYPE, "the file is empty");
    if (text.ptr[0] == '<')
        return df_err_set(err, DF_E_MEDIA_TYPE,
                          "the file is HTML or XML; send JSON, an Excel workbook or CSV");
    if (df_str_starts(text, DF_STR("%PDF-")) || df_str_starts(text, DF_STR("{\\rtf")))
        return df_err_set(err, DF_E_MEDIA_TYPE,
                          "the file is a document; send JSON, an Excel workbook or CSV");
    return DF_OK;
}

/* UTF-16, as in Excel's "Unicode text": CSV is read, and the JSON parser refuses it by name. */
static bool detect_utf16(struct df_str all, enum df_file_type *ret)
{
    bool little = df_str_starts(all, DF_STR("\xFF\xFE"));

    if (all.len < 4 || (!little && !df_str_starts(all, DF_STR("\xFE\xFF"))))
        return false;
    char first = all.ptr[little ? 2 : 3];
    *ret = first == '[' || first == '{' ? DF_FILE_JSON : DF_FILE_CSV;
    return true;
}

enum df_code df_file_type_detect(const struct df_bytes *file, enum df_file_type *ret,
                                 struct df_err *err)
{
    char head[LOOK_BYTES];
    size_t len = 0;
    enum df_code code = read_up_to(file, 0, head, sizeof head, &len, err);
    if (code != DF_OK)
        return code;
    struct df_str all = df_str_n(head, len), text = all;
    if (detect_utf16(all, ret))
        return DF_OK;
    if (df_str_starts(all, DF_STR("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1")))
        return refuse_ole(file, head, len, err);
    if (df_str_starts(all, DF_STR("PK\3\4")) || df_str_starts(all, DF_STR("PK\5\6"))) {
        code = df_xlsx_probe(file, err);
        if (code == DF_OK)
            *ret = DF_FILE_EXCEL;
        return code;
    }
    if (df_str_starts(text, DF_STR("\xEF\xBB\xBF")))
        text = df_str_n(text.ptr + 3, text.len - 3);
    text = df_str_trim(text);
    code = refuse_text(text, err);
    if (code != DF_OK)
        return code;
    if (is_binary(all)) {
        if (!df_xlsx_is_workbook(file))
            return df_err_set(err, DF_E_MEDIA_TYPE,
                              "the file is neither JSON nor an Excel workbook (.xlsx) nor CSV");
        *ret = DF_FILE_EXCEL;
    } else {
        *ret = text.ptr[0] == '[' || text.ptr[0] == '{' ? DF_FILE_JSON : DF_FILE_CSV;
    }
    return DF_OK;
}

static enum df_code open_parser(enum df_file_type type, const struct df_bytes *file,
                                const struct df_records_options *opt, struct df_records **ret,
                                struct df_err *err)
{
    switch (type) {
    case DF_FILE_JSON:
        return df_json_records_open(file, opt, ret, err);
    case DF_FILE_EXCEL:
        return df_xlsx_records_open(file, opt, ret, err);
    case DF_FILE_CSV:
        return df_csv_records_open(file, opt, ret, err);
    case DF_FILE_TYPES:
        break;
    }
    return df_err_set(err, DF_E_USAGE, "no such type of file");
}

enum df_code df_records_open(enum df_file_type type, const struct df_bytes *file,
                             const struct df_records_options *opt, struct df_records **ret,
                             struct df_err *err)
{
    enum df_code code = open_parser(type, file, opt, ret, err);

    if (code == DF_OK)
        (*ret)->drop_own = opt->drop_own;
    return code;
}

/* --- the columns of error reports --- */

bool df_records_is_own(struct df_str name)
{
    char folded[OWN_MAX];

    if (name.len < sizeof("dataflowerror") - 1 || name.len > OWN_MAX || (name.ptr[0] | 0x20) != 'd')
        return false;
    struct df_str text = df_str_n(folded, df_header_fold(name, folded));
    return df_str_eq(text, DF_STR("dataflowsequence")) || df_str_eq(text, DF_STR("dataflowerror"));
}

/* Leaves the report's own fields out of the record. */
static void drop_own_fields(struct df_records *r, struct df_record *record)
{
    size_t own = 0, kept = 0;

    for (size_t i = 0; i < record->count; i++)
        own += df_records_is_own(record->fields[i].name);
    if (own == 0)
        return;
    r->dropped = true;
    if (record->count > r->kept_cap) {
        r->kept_cap = 2 * record->count;
        r->kept = df_realloc(r->kept, r->kept_cap * sizeof(*r->kept));
    }
    for (size_t i = 0; i < record->count; i++) {
        if (!df_records_is_own(record->fields[i].name))
            r->kept[kept++] = record->fields[i];
    }
    *record = (struct df_record){.fields = r->kept, .count = kept, .row = record->row};
}

enum df_code df_records_next(struct df_records *r, struct df_record *ret, struct df_err *err)
{
    enum df_code code = r->ops->next(r, ret, err);

    if (code == DF_ROW && r->drop_own)
        drop_own_fields(r, ret);
    return code;
}

bool df_records_sheet(const struct df_records *r, size_t index, struct df_str *ret)
{
    return r->ops->sheet && r->ops->sheet(r, index, ret);
}

void df_records_free(struct df_records *r)
{
    if (!r)
        return;
    free(r->kept);
    r->ops->free(r);
}
