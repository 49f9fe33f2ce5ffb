#include "imports/api/report_private.h"

#include "base/mem.h"
#include "base/temp.h"
#include "imports/api/batch_view.h"

#include <stdlib.h>
#include <unistd.h>

#define ROW_MAX ((size_t)16 << 20) /* of a row in JSON; a record has at most 4 MiB */

const char *df_report_extension(enum df_report_format format)
{
    switch (format) {
    case DF_REPORT_JSON:
        return "json";
    case DF_REPORT_CSV:
        return "csv";
    case DF_REPORT_XLSX:
        return "xlsx";
    }
    return "";
}

const char *df_report_content_type(enum df_report_format format)
{
    switch (format) {
    case DF_REPORT_JSON:
        return "application/json";
    case DF_REPORT_CSV:
        return "text/csv; charset=utf-8";
    case DF_REPORT_XLSX:
        return "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
    }
    return "";
}

/* --- files --- */

static enum df_code open_stream(const char *dir, FILE **ret, struct df_err *err)
{
    int fd = -1;
    enum df_code code = df_temp_open(dir, &fd, err);
    if (code != DF_OK)
        return code;
    *ret = fdopen(fd, "w+b");
    if (*ret)
        return DF_OK;
    code = df_report_io(err, "cannot open a temporary file");
    close(fd);
    return code;
}

/* --- JSON --- */

/* The record with the report's two members behind its own. */
static void write_report_item(struct df_buf *buf, const struct df_report_row *row)
{
    struct df_str record = df_str_trim(row->record);
    bool object = record.len >= 2 && record.ptr[0] == '{' && df_json_is_valid(record);
    struct df_str members = object ? df_str_n(record.ptr + 1, record.len - 2) : DF_STR("");
    struct df_json_out out;

    df_buf_addz(buf, "{");
    if (df_str_trim(members).len > 0) {
        df_buf_adds(buf, members);
        df_buf_addz(buf, ",");
    }
    df_buf_addz(buf, "\"" DF_REPORT_SEQUENCE "\":");
    df_json_out_init(&out, buf);
    df_json_int(&out, row->sequence);
    df_buf_addz(buf, ",\"" DF_REPORT_ERROR "\":");
    df_json_out_init(&out, buf);
    df_json_text(&out, row->error);
    df_buf_addz(buf, "}");
}

static enum df_code write_json(const struct df_report_source *source, FILE *f, struct df_err *err)
{
    struct df_report_row row;
    struct df_buf buf;
    enum df_code code;
    bool first = true;

    df_buf_init(&buf, ROW_MAX);
    while ((code = source->next(source->arg, &row, err)) == DF_ROW) {
        df_buf_reset(&buf);
        df_buf_addz(&buf, first ? "[\n" : ",\n");
        write_report_item(&buf, &row);
        first = false;
        if (df_buf_failed(&buf))
            code = df_err_set(err, DF_E_INTERNAL, "a row has more than %zu bytes", ROW_MAX);
        else if (fwrite(buf.ptr, 1, buf.len, f) != buf.len)
            code = df_report_io(err, "cannot write it");
        if (code != DF_ROW)
            break;
    }
    df_buf_release(&buf);
    if (code != DF_DONE)
        return code;
    if (fputs(first ? "[]\n" : "\n]\n", f) == EOF || fflush(f) != 0)
        return df_report_io(err, "cannot write it");
    return DF_OK;
}

static enum df_code make_json(const struct df_report_source *source, const char *temp_dir,
                              int *ret_fd, struct df_err *err)
{
    FILE *f = NULL;
    enum df_code code = open_stream(temp_dir, &f, err);
    if (code != DF_OK)
        return code;
    code = write_json(source, f, err);
    int fd = code == DF_OK ? dup(fileno(f)) : -1;
    fclose(f);
    if (code == DF_OK && fd < 0)
        code = df_report_io(err, "cannot hand it out");
    if (code == DF_OK)
        *ret_fd = fd;
    return code;
}

/* --- tables: rows wait in a file until all columns are known --- */

#define ABSENT UINT32_MAX

struct spooled {
    int64_t sequence;
    uint32_t error_len; /* ABSENT: none */
    uint32_t record_len;
};

static uint32_t spooled_len(struct df_str s)
{
    return s.ptr ? (uint32_t)s.len : ABSENT;
}

static enum df_code spool_rows(const struct df_report_source *source, struct df_report_table *t,
                               FILE *f, struct df_err *err)
{
    struct df_report_row row;
    enum df_code code;

    while ((code = source->next(source->arg, &row, err)) == DF_ROW) {
        struct spooled head = {row.sequence, spooled_len(row.error), spooled_len(row.record)};
        df_report_table_learn(t, row.record);
        fwrite(&head, sizeof head, 1, f);
        if (row.error.ptr)
            fwrite(row.error.ptr, 1, row.error.len, f);
        if (row.record.ptr)
            fwrite(row.record.ptr, 1, row.record.len, f);
        if (ferror(f))
            return df_report_io(err, "cannot write it");
    }
    if (code != DF_DONE)
        return code;
    return fflush(f) == 0 && fseeko(f, 0, SEEK_SET) == 0 ? DF_OK
                                                         : df_report_io(err, "cannot write it");
}

static bool read_text(FILE *f, uint32_t len, struct df_buf *b, struct df_str *ret)
{
    *ret = len == 0 ? DF_STR("") : DF_STR_NULL;
    if (len == 0 || len == ABSENT)
        return true;
    df_buf_reset(b);
    char *to = df_buf_grow(b, len);
    if (!to || fread(to, 1, len, f) != len)
        return false;
    df_buf_grown(b, len);
    *ret = df_buf_str(b);
    return true;
}

static enum df_code write_rows(FILE *f, struct df_report_table *t,
                               const struct df_report_writer *how, void *w, struct df_err *err)
{
    struct df_buf error, record;
    struct df_report_row row;
    struct spooled head;

    df_buf_init(&error, ROW_MAX);
    df_buf_init(&record, ROW_MAX);
    df_report_table_head(t);
    enum df_code code = how->row(w, t, true, err);
    while (code == DF_OK && fread(&head, sizeof head, 1, f) == 1) {
        row.sequence = head.sequence;
        if (!read_text(f, head.error_len, &error, &row.error) ||
            !read_text(f, head.record_len, &record, &row.record)) {
            code = df_report_io(err, "cannot read it again");
            break;
        }
        df_report_table_fill(t, &row);
        code = how->row(w, t, false, err);
    }
    if (code == DF_OK && ferror(f))
        code = df_report_io(err, "cannot read it again");
    df_buf_release(&error);
    df_buf_release(&record);
    return code;
}

static enum df_code make_table(const struct df_report_source *source,
                               const struct df_report_writer *how, const char *temp_dir, FILE *f,
                               int *ret_fd, struct df_err *err)
{
    struct df_report_table *t = df_malloc(sizeof *t);
    void *w = df_calloc(1, how->size);
    int fd = -1;

    df_report_table_init(t, source->columns);
    enum df_code code = spool_rows(source, t, f, err);
    if (code == DF_OK)
        code = df_temp_open(temp_dir, &fd, err);
    if (code == DF_OK) {
        code = how->open(w, temp_dir, fd, err);
        if (code == DF_OK)
            code = write_rows(f, t, how, w, err);
        struct df_err later = DF_ERR_INIT;
        enum df_code closed = how->close(w, code == DF_OK, &later);
        if (code == DF_OK && closed != DF_OK) {
            code = closed;
            *err = later;
        }
    }
    df_report_table_release(t);
    free(t);
    free(w);
    if (code == DF_OK)
        *ret_fd = fd;
    else if (fd >= 0)
        close(fd);
    return code;
}

enum df_code df_report_make(enum df_report_format format, const struct df_report_source *source,
                            const char *temp_dir, int *ret_fd, uint64_t *ret_size,
                            struct df_err *err)
{
    FILE *f = NULL;
    int fd = -1;
    enum df_code code;

    if (format == DF_REPORT_JSON) {
        code = make_json(source, temp_dir, &fd, err);
    } else {
        code = open_stream(temp_dir, &f, err);
        if (code == DF_OK)
            code = make_table(source, format == DF_REPORT_CSV ? &df_report_csv : &df_report_xlsx,
                              temp_dir, f, &fd, err);
        if (f)
            fclose(f);
    }
    if (code != DF_OK)
        return code;
    off_t size = lseek(fd, 0, SEEK_END);
    if (size < 0) {
        code = df_report_io(err, "cannot read it");
        close(fd);
        return code;
    }
    *ret_fd = fd;
    *ret_size = (uint64_t)size;
    return DF_OK;
}
