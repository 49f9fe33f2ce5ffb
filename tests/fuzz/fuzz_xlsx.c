/*
 * Any bytes as a workbook, and as the sheet, the shared strings and the styles of one that is
 * otherwise right. Our reader of plain XML must give the same records and the same kind of answer
 * as libxml2 does, and the same whether shared strings are in memory or on disk.
 */
#include "xlsx_mutator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SHEET_OF_STRINGS                                                                           \
    XML_HEAD "<worksheet xmlns=\"" MAIN_NS "\"><sheetData><row><c t=\"inlineStr\"><is><t>a</t>"    \
             "</is></c></row><row><c t=\"s\"><v>0</v></c><c t=\"s\"><v>1</v></c></row>"            \
             "<row><c t=\"s\"><v>2</v></c></row></sheetData></worksheet>"
#define STRINGS XML_HEAD "<sst xmlns=\"" MAIN_NS "\"><si><t>zero</t></si><si><t>one</t></si></sst>"
#define STYLED                                                                                     \
    XML_HEAD "<worksheet xmlns=\"" MAIN_NS "\"><sheetData><row><c><v>1</v></c></row>"              \
             "<row><c s=\"0\"><v>45981.5</v></c><c s=\"1\"><v>1310100</v></c></row></sheetData>"   \
             "</worksheet>"

/* By the first count of three ways; the third matters where there are shared strings. */
static void compare(struct df_str file, size_t count)
{
    static const struct df_xlsx_tuning ways[] = {
        {.strings_bytes = 65536}, {.strict = true, .strings_bytes = 65536}, {.strings_bytes = 32}};
    static const struct df_records_options opt = {.limits = {.max_inflated = 16U << 20,
                                                             .max_string_bytes = 4096,
                                                             .max_record_bytes = 8192,
                                                             .max_records = 20000}};
    struct df_buf first, other;
    enum df_code first_code = DF_OK;
    df_buf_init(&first, 64U << 20);
    df_buf_init(&other, 64U << 20);
    for (size_t i = 0; i < count; i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_buf *out = i ? &other : &first;
        df_buf_reset(out);
        enum df_code code = read_lines(file, &opt, &ways[i], out, &err);
        if (i == 0)
            first_code = code;
        else if (code != first_code ||
                 (code == DF_DONE && !df_str_eq(df_buf_str(&first), df_buf_str(&other))))
            abort();
        if (code == DF_OK || code == DF_ROW || df_utf8_valid_prefix(df_buf_str(out)) != out->len)
            abort();
    }
    df_buf_release(&first);
    df_buf_release(&other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct book_parts parts = {.sheet = DF_STR(SHEET_OF_STRINGS), .strings = STRINGS};
    if (size == 0)
        return 0;
    struct df_str in = {(const char *)data + 1, size - 1};
    char *copy = malloc(in.len + 1);
    if (!copy)
        abort();
    memcpy(copy, in.ptr, in.len);
    copy[in.len] = 0;
    if (data[0] % 4 == 0) {
        compare(in, 3);
    } else {
        if (data[0] % 4 == 1)
            parts.sheet = in;
        else if (data[0] % 4 == 2)
            parts.strings = copy;
        else
            parts.sheet = DF_STR(STYLED), parts.styles = copy;
        struct df_str file = book_make(&parts);
        compare(file, data[0] % 4 == 2 ? 3 : 2);
        free((void *)(uintptr_t)file.ptr);
    }
    free(copy);
    return 0;
}
