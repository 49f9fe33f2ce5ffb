/* Prints a file's records as the imports see them, or counts them and their rate. */
#include "bench.h"
#include "tabular/normalise.h"
#include "json/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES (64U << 20)

static const struct df_command cmd = {.name = "bench records"};

struct run {
    const char *path;
    const char *sheet;
    bool normalise;
    bool count;
    int fd;
    struct df_buf out;
    int64_t records, fields;
    int64_t verdicts[DF_ITEM_SKIPPED + 1];
};

static enum df_code read_file(void *arg, uint64_t offset, char *ptr, size_t len, size_t *ret_len,
                              struct df_err *err)
{
    const struct run *r = arg;
    ssize_t n;
    do {
        n = pread(r->fd, ptr, len, (off_t)offset);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return df_err_errno(err, "cannot read %s", r->path);
    *ret_len = (size_t)n;
    return DF_OK;
}

static void add_record(struct df_buf *out, const struct df_record *record)
{
    struct df_json_out j;
    df_json_out_init(&j, out);
    df_json_open(&j, '{');
    for (size_t i = 0; i < record->count; i++) {
        const struct df_field *f = &record->fields[i];
        df_json_key_str(&j, f->name);
        switch (f->kind) {
        case DF_FIELD_NULL:
            df_json_null(&j);
            break;
        case DF_FIELD_TEXT:
            df_json_text(&j, f->text);
            break;
        case DF_FIELD_NUMBER:
        case DF_FIELD_BOOL:
        case DF_FIELD_JSON:
            df_json_raw(&j, f->text);
            break;
        }
    }
    df_json_close(&j, '}');
}

static enum df_code read_one_record(struct run *r, struct df_normaliser *n,
                                    const struct df_record *record, struct df_err *err)
{
    enum df_code code = DF_OK;
    df_buf_reset(&r->out);
    if (n) {
        enum df_item_verdict verdict = DF_ITEM_SEND;
        struct df_str reason = DF_STR_NULL;
        code = df_normalise(n, record, r->records, &r->out, &verdict, &reason, err);
        r->verdicts[verdict]++;
    } else if (!r->count) {
        add_record(&r->out, record);
    }
    r->records++;
    r->fields += (int64_t)record->count;
    if (code == DF_OK && !r->count &&
        (fwrite(r->out.ptr, 1, r->out.len, stdout) != r->out.len || putchar('\n') == EOF))
        return df_err_set(err, DF_E_IO, "cannot write to standard output");
    return code;
}

static enum df_code run_records(struct run *r, const struct df_bytes *file, struct df_err *err)
{
    struct df_records_options opt = {.sheet = df_str_c(r->sheet)};
    struct df_normalise_options normalise = {.origin_default = DF_STR("bench")};
    struct df_records *records = NULL;
    struct df_normaliser *n = NULL;
    struct df_record record;
    enum df_file_type type = DF_FILE_TYPES;
    enum df_code code = df_file_type_detect(file, &type, err);
    if (code == DF_OK)
        code = df_records_open(type, file, &opt, &records, err);
    if (code != DF_OK)
        return code;
    if (r->normalise)
        n = df_normaliser_new(&normalise);
    while ((code = df_records_next(records, &record, err)) == DF_ROW) {
        code = read_one_record(r, n, &record, err);
        if (code != DF_OK)
            break;
    }
    df_normaliser_free(n);
    df_records_free(records);
    return code == DF_DONE ? DF_OK : code;
}

/* The peak memory of the process, in KiB. getrusage would include the process that started this
 * one. */
static long peak_kb(void)
{
    char line[128];
    long kb = 0;
    FILE *status = fopen("/proc/self/status", "re");
    while (status && kb == 0 && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    if (status)
        fclose(status);
    return kb;
}

static void print_figures(const struct run *r, int64_t took_ns)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double seconds = (double)took_ns / 1e9;
    printf("{\"records\":%lld,\"fields\":%lld,\"send\":%lld,\"error\":%lld,\"skipped\":%lld,"
           "\"seconds\":%.4f,\"perSecond\":%.0f,\"cpuSeconds\":%.4f,\"peakKb\":%ld}\n",
           (long long)r->records, (long long)r->fields, (long long)r->verdicts[DF_ITEM_SEND],
           (long long)r->verdicts[DF_ITEM_ERROR], (long long)r->verdicts[DF_ITEM_SKIPPED], seconds,
           (double)r->records / seconds,
           (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
           peak_kb());
}

int df_bench_records(int argc, char **argv)
{
    struct run r = {.fd = -1};
    const struct df_option options[] = {
        {.name = "sheet", .kind = DF_OPT_VALUE, .value = &r.sheet},
        {.name = "normalise", .kind = DF_OPT_FLAG, .flag = &r.normalise},
        {.name = "count", .kind = DF_OPT_FLAG, .flag = &r.count},
    };
    struct df_err err = DF_ERR_INIT;
    struct stat st;
    int operands = df_cli_parse(&cmd, argc, argv, options, 3, NULL);
    if (operands != 1) {
        if (operands >= 0)
            df_cli_complain(&cmd, "give one file");
        return DF_EXIT_USAGE;
    }
    r.path = argv[0];
    r.fd = open(r.path, O_RDONLY | O_CLOEXEC);
    if (r.fd < 0 || fstat(r.fd, &st) != 0)
        return df_cli_result(&cmd, df_err_errno(&err, "cannot open %s", r.path), &err);
    struct df_bytes file = {.read_at = read_file, .arg = &r, .size = (uint64_t)st.st_size};
    df_buf_init(&r.out, LINE_MAX_BYTES);
    int64_t begun = df_mono_ns(df_clock_real());
    enum df_code code = run_records(&r, &file, &err);
    int64_t took_ns = df_mono_ns(df_clock_real()) - begun;
    df_buf_release(&r.out);
    close(r.fd);
    if (r.count)
        print_figures(&r, took_ns);
    return df_cli_result(&cmd, code, &err);
}
