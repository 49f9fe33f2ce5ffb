/*
 * dataflow import: uploads a file and watches its import.
 *
 * Results go to standard output, progress to standard error: on a terminal one line that is
 * redrawn, else a line for every tenth of the work.
 */
#include "app/cli.h"
#include "app/import_http.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "net/security.h"
#include "json/doc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_SERVER   "http://127.0.0.1:8080"
#define EXIT_INTERRUPTED 130
#define ANSWER_MAX       ((size_t)16 << 20)
#define DRAW_MS          100
#define QUIET_LINE_MS    10000 /* without a terminal: between lines while the total is not known */
#define BAR_CELLS        24
#define BAR_NARROW       10 /* on a terminal of less than 100 columns */
#define WORK_WIDTH       12
#define OUTPUT_MAX       ((size_t)64 << 20)

struct batch {
    char id[64];
    char status[32];
    char file_name[300];
    char last_error[600];
    char scheduled_for[40];
    int64_t total; /* -1: not known yet */
    int64_t processed;
    int64_t errors;
    int64_t skipped;
    int64_t imported;
    int64_t started_ms; /* -1: not yet */
    int64_t completed_ms;
};

struct session {
    const char *server;
    const char *client_id;
    bool watch;
    bool json;
    bool terminal;
    struct df_import_http *http;
    struct df_buf raw; /* the last answer about the batch */
    struct batch batch;

    /* Progress. */
    int64_t begun_ms;
    int64_t drawn_ms;
    int64_t told;     /* without a terminal: tenths printed so far */
    int64_t first_ms; /* when records were first seen to be settled */
    int64_t first_processed;
    bool drawn;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
    (void)sig;
    interrupted = 1;
}

/* --- words and figures --- */

/* Makes text safe for a terminal: no control characters, U+0080 to U+009F included. */
static void copy_clean(char *out, size_t size, struct df_str s)
{
    size_t n = 0;
    if (s.len >= size)
        s.len = df_utf8_valid_prefix(df_str_n(s.ptr, size - 1));
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        bool c1 = c == 0xC2 && i + 1 < s.len && (unsigned char)s.ptr[i + 1] < 0xA0;
        out[n++] = c < 0x20 || c == 0x7F || c1 ? ' ' : (char)c;
        i += c1;
    }
    out[n] = '\0';
}

static bool is_portuguese(void)
{
    return df_cli_lang() == DF_LANG_PT;
}

/* 1,234,567; in Portuguese 1.234.567 */
static const char *grouped_text(int64_t n, char out[32])
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)(n < 0 ? 0 : n));
    size_t at = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[at++] = is_portuguese() ? '.' : ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

/* The decimal point as people write it. */
static const char *with_point(char text[32])
{
    char *point = is_portuguese() ? strchr(text, '.') : NULL;
    if (point)
        *point = ',';
    return text;
}

static const char *bytes_text(double n, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t i = 0;
    for (; n >= 1024 && i < 4; i++)
        n /= 1024;
    snprintf(out, 32, i == 0 ? "%.0f %s" : "%.1f %s", n, units[i]);
    return with_point(out);
}

static const char *duration_text(int64_t ms, char out[32])
{
    int64_t s = ms / 1000;
    if (s < 60)
        snprintf(out, 32, "%lld.%lld s", (long long)s, (long long)(ms % 1000 / 100));
    else if (s < 3600)
        snprintf(out, 32, "%lld min %lld s", (long long)(s / 60), (long long)(s % 60));
    else
        snprintf(out, 32, "%lld h %lld min", (long long)(s / 3600), (long long)(s % 3600 / 60));
    return with_point(out);
}

/* --- progress --- */

static size_t terminal_width(void)
{
    struct winsize w;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20 ? w.ws_col : 80;
}

/* Redraws the line, cut to the terminal. */
static void draw_line(struct session *s, struct df_str line)
{
    line = df_utf8_cut(line, terminal_width() - 1);
    fprintf(stderr, "\r" DF_STR_FMT "\033[K", DF_STR_ARG(line));
    fflush(stderr);
    s->drawn = true;
}

static void end_line(struct session *s)
{
    if (s->drawn)
        fputc('\n', stderr);
    s->drawn = false;
}

static void add_bar(struct df_buf *b, double part)
{
    int cells = terminal_width() < 100 ? BAR_NARROW : BAR_CELLS;
    int full = (int)(part * cells);
    df_buf_addc(b, '[');
    for (int i = 0; i < cells; i++)
        df_buf_addc(b, i < full ? '#' : '.');
    df_buf_addf(b, "] %3d %%", (int)(part * 100));
}

static void add_eta(struct df_buf *b, double left, double rate)
{
    char text[32];
    if (rate > 0)
        df_cli_say(b, ", %s left", duration_text((int64_t)(left / rate * 1000), text));
}

/* Whether it is time to show progress; part: how much is done, 0 to 1. */
static bool is_time_to_show(struct session *s, double part, bool last)
{
    int64_t now_ms = df_mono_ms(df_clock_real());
    if (s->json && !s->terminal)
        return false;
    if (s->terminal && !last && now_ms - s->drawn_ms < DRAW_MS)
        return false;
    if (!s->terminal && part >= 0) {
        int64_t tenth = (int64_t)(part * 10);
        if (tenth <= s->told)
            return false;
        s->told = tenth;
    } else if (!s->terminal && now_ms - s->drawn_ms < QUIET_LINE_MS) {
        return false;
    }
    s->drawn_ms = now_ms;
    return true;
}

static void show_line(struct session *s, struct df_buf *line)
{
    if (s->terminal)
        draw_line(s, df_buf_str(line));
    else
        fprintf(stderr, "%s\n", line->ptr);
    df_buf_release(line);
}

static void show_sent(void *arg, uint64_t bytes, uint64_t total)
{
    struct session *s = arg;
    double part = (double)bytes / (double)total;
    double seconds = (double)(df_mono_ms(df_clock_real()) - s->begun_ms) / 1000;
    double rate = seconds > 0.2 ? (double)bytes / seconds : 0;
    char a[32], b[32], c[32];
    struct df_buf line;

    if (!is_time_to_show(s, part, bytes == total))
        return;
    df_buf_init(&line, 1024);
    df_cli_cell(&line, "upload", WORK_WIDTH);
    if (s->terminal)
        add_bar(&line, part);
    else
        df_buf_addf(&line, "%3d %%", (int)(part * 100));
    df_buf_addf(&line, "  %s ", bytes_text((double)bytes, a));
    df_cli_cell(&line, "of", 0);
    df_buf_addf(&line, " %s", bytes_text((double)total, b));
    if (rate > 0)
        df_buf_addf(&line, ", %s/s", bytes_text(rate, c));
    if (bytes < total)
        add_eta(&line, (double)(total - bytes), rate);
    show_line(s, &line);
}

static void add_records(struct df_buf *line, struct session *s, bool bar)
{
    const struct batch *b = &s->batch;
    double part = b->total > 0 ? (double)b->processed / (double)b->total : 0;
    char x[32], y[32];

    if (b->total > 0 && bar)
        add_bar(line, part);
    else if (b->total > 0)
        df_buf_addf(line, "%3d %%", (int)(part * 100));
    df_buf_addf(line, "%s%s", b->total > 0 ? "  " : "", grouped_text(b->processed, x));
    if (b->total > 0) {
        df_buf_addc(line, ' ');
        df_cli_cell(line, "of", 0);
        df_buf_addf(line, " %s", grouped_text(b->total, y));
    }
    df_cli_say(line, " records, %s errors", grouped_text(b->errors, x));
    double seconds = (double)(df_mono_ms(df_clock_real()) - s->first_ms) / 1000;
    double rate = s->first_ms > 0 && seconds > 0.5
                      ? (double)(b->processed - s->first_processed) / seconds
                      : 0;
    if (rate >= 1)
        df_buf_addf(line, ", %s/s", grouped_text((int64_t)rate, x));
    if (b->total > b->processed)
        add_eta(line, (double)(b->total - b->processed), rate);
}

static void show_progress(struct session *s, bool last)
{
    const struct batch *b = &s->batch;
    bool works = strcmp(b->status, "Processing") == 0 || last;
    double part = b->total > 0 && works ? (double)b->processed / (double)b->total : -1;
    struct df_buf line;

    if (!is_time_to_show(s, part, last))
        return;
    df_buf_init(&line, 1024);
    if (works) {
        df_cli_cell(&line, "processing", WORK_WIDTH);
        add_records(&line, s, s->terminal);
    } else if (b->scheduled_for[0]) {
        df_cli_say(&line, "%s: waits until %s", b->status, b->scheduled_for);
    } else {
        df_cli_say(&line, "%s: waits for its turn", b->status);
    }
    show_line(s, &line);
}

/* --- the server's answers --- */

static int64_t int_of(const struct df_json *doc, const char *name, int64_t none)
{
    const struct df_json *v = df_json_get(doc, name);
    int64_t n;
    return v && v->type == DF_JSON_NUMBER && df_json_to_i64(v, &n) ? n : none;
}

static void text_of(const struct df_json *doc, const char *name, char *out, size_t size)
{
    const struct df_json *v = df_json_get(doc, name);
    copy_clean(out, size, v && v->type == DF_JSON_STRING ? v->text : DF_STR(""));
}

static int64_t time_of(const struct df_json *doc, const char *name)
{
    const struct df_json *v = df_json_get(doc, name);
    int64_t ms;
    return v && v->type == DF_JSON_STRING && df_time_parse(v->text, &ms) ? ms : -1;
}

/* Reads a batch, or the answer to an upload, which has fewer members. */
static enum df_code read_batch(struct session *s, struct df_str text, struct df_err *err)
{
    struct df_arena arena = {0};
    struct batch *b = &s->batch;
    const struct df_json *doc = NULL;
    struct df_err why = DF_ERR_INIT;

    enum df_code code = df_json_parse(&arena, text, &doc, &why);
    if (code == DF_OK) {
        text_of(doc, "batchId", b->id, sizeof b->id);
        text_of(doc, "status", b->status, sizeof b->status);
        text_of(doc, "fileName", b->file_name, sizeof b->file_name);
        text_of(doc, "lastError", b->last_error, sizeof b->last_error);
        text_of(doc, "scheduledFor", b->scheduled_for, sizeof b->scheduled_for);
        b->total = int_of(doc, "totalRecords", -1);
        b->processed = int_of(doc, "processedRecords", 0);
        b->errors = int_of(doc, "errorCount", 0);
        b->skipped = int_of(doc, "skippedCount", 0);
        b->imported = int_of(doc, "importedCount", 0);
        b->started_ms = time_of(doc, "startedAt");
        b->completed_ms = time_of(doc, "completedAt");
    }
    if (code != DF_OK || !b->id[0] || !b->status[0])
        code = df_err_set(err, DF_E_NET, "what the server answered is no import");
    df_arena_release(&arena);
    return code;
}

static void on_seen(void *arg, struct df_str text, bool over)
{
    struct session *s = arg;
    struct df_err ignored = DF_ERR_INIT;
    if (read_batch(s, text, &ignored) != DF_OK)
        return;
    df_buf_reset(&s->raw);
    df_buf_adds(&s->raw, text);
    if (s->first_ms == 0 && strcmp(s->batch.status, "Processing") == 0) {
        s->first_ms = df_mono_ms(df_clock_real());
        s->first_processed = s->batch.processed;
    }
    show_progress(s, over);
}

static void on_lost(void *arg, const char *why)
{
    struct session *s = arg;
    end_line(s);
    df_cli_complain(&df_cmd_import, "%s; trying again", why);
}

static void on_tick(void *arg)
{
    struct session *s = arg;
    if (s->terminal && s->batch.status[0])
        show_progress(s, false);
}

/* --- the end --- */

static void add_how_to_look(const struct session *s, struct df_buf *out)
{
    bool other = strcmp(s->server, DEFAULT_SERVER) != 0;

    df_cli_cell(out, "look again with:", 0);
    df_buf_addf(out, " dataflow import --batch %s --watch%s%s\n", s->batch.id,
                other ? " --server " : "", other ? s->server : "");
}

static bool is_over(const struct batch *b)
{
    static const char *const over[] = {"Completed", "CompletedWithErrors", "Failed", "Cancelled"};
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++)
        if (strcmp(b->status, over[i]) == 0)
            return true;
    return false;
}

static void add_report_address(const struct session *s, struct df_buf *out)
{
    df_cli_cell(out, "error report:", 0);
    df_buf_addf(out,
                " curl -OJ -H 'X-Client-Id: %s' -H \"X-Client-Secret: "
                "$DATAFLOW_CLIENT_SECRET\" %s/imports/%s/errors.xlsx\n",
                s->client_id, s->server, s->batch.id);
}

static void add_label(struct df_buf *out, const char *english)
{
    df_cli_cell(out, english, is_portuguese() ? 12 : 10);
}

static void add_field(struct df_buf *out, const char *label, const char *value)
{
    add_label(out, label);
    df_buf_addf(out, "%s\n", value);
}

static void add_summary(const struct session *s, struct df_buf *out)
{
    const struct batch *b = &s->batch;
    char x[32];

    df_buf_addf(out, "%s: %s\n", b->file_name, b->status);
    add_field(out, "batch", b->id);
    add_field(out, "records", b->total < 0 ? df_cli_text("not known") : grouped_text(b->total, x));
    add_field(out, "imported", grouped_text(b->imported, x));
    add_field(out, "errors", grouped_text(b->errors, x));
    add_field(out, "skipped", grouped_text(b->skipped, x));
    if (b->started_ms >= 0 && b->completed_ms >= b->started_ms)
        add_field(out, "took", duration_text(b->completed_ms - b->started_ms, x));
    if (b->last_error[0])
        add_field(out, "reason", b->last_error);
    if (b->scheduled_for[0] && !is_over(b)) {
        add_label(out, "waits");
        df_cli_say(out, "until %s\n", b->scheduled_for);
    }
    if (b->errors > 0)
        add_report_address(s, out);
}

static int print_conclusion(struct session *s)
{
    const struct batch *b = &s->batch;
    struct df_buf out;

    df_buf_init(&out, OUTPUT_MAX);
    if (s->json)
        df_buf_addf(&out, DF_STR_FMT "\n", DF_STR_ARG(df_buf_str(&s->raw)));
    else if (s->watch || b->file_name[0])
        add_summary(s, &out);
    else if (b->scheduled_for[0])
        df_cli_say(&out, "batch %s: %s, not before %s\n", b->id, b->status, b->scheduled_for);
    else
        df_cli_say(&out, "batch %s: %s\n", b->id, b->status);
    if (!s->watch && !s->json && !is_over(b))
        add_how_to_look(s, &out);
    if (df_cli_print(&out) != DF_EXIT_OK)
        return DF_EXIT_FAILED;
    return !s->watch || strcmp(s->batch.status, "Completed") == 0 ? DF_EXIT_OK : DF_EXIT_FAILED;
}

/* --- a look at a file --- */

/* A member's text, and blanks up to the width, of which there is at least one. */
static void add_text(struct df_buf *out, const struct df_json *doc, const char *name, int width)
{
    char text[300];

    text_of(doc, name, text, sizeof text);
    df_buf_addz(out, text[0] ? text : "-");
    int blanks = width - (int)df_utf8_count(df_str_c(text[0] ? text : "-"));
    if (width > 0)
        df_buf_addf(out, "%*s", blanks > 0 ? blanks : 1, "");
}

/* How people write what the API calls "Csv". */
static const char *format_text(const struct df_json *doc, char out[32])
{
    text_of(doc, "format", out, 32);
    if (strcmp(out, "Csv") == 0)
        return "CSV";
    return strcmp(out, "Json") == 0 ? "JSON" : out;
}

/* What gives a column its meaning. */
static void add_by(struct df_buf *out, const struct df_json *column)
{
    char by[32];

    text_of(column, "by", by, sizeof by);
    if (strcmp(by, "name") == 0)
        df_cli_cell(out, "its name", 0);
    else if (strcmp(by, "mapping") == 0)
        df_cli_cell(out, "mapping", 0);
    else if (strcmp(by, "client") == 0)
        df_cli_cell(out, "the client's mapping", 0);
    else
        df_buf_addz(out, by[0] ? by : "-");
}

static void add_columns(const struct df_json *doc, struct df_buf *out)
{
    struct df_json_each each = df_json_each(df_json_get(doc, "columns"));

    df_buf_addc(out, '\n');
    df_cli_heads(out, (const struct df_cli_head[]){{"column", 31}, {"means", 16}, {"by", 0}, {0}});
    for (const struct df_json *c; (c = df_json_next(&each));) {
        struct df_json column = *c;
        add_text(out, &column, "name", 32);
        add_text(out, &column, "canonical", 17);
        add_by(out, &column);
        df_buf_addc(out, '\n');
    }
}

static void add_problems(const struct df_json *doc, struct df_buf *out)
{
    struct df_json_each each = df_json_each(df_json_get(doc, "problems"));
    bool any = false;
    char count[32];

    for (const struct df_json *p; (p = df_json_next(&each)); any = true) {
        struct df_json problem = *p;
        if (!any) {
            df_buf_addc(out, '\n');
            df_cli_heads(
                out, (const struct df_cli_head[]){
                         {"problem", 31}, {"records", 10}, {"first row", 14}, {"reason", 0}, {0}});
        }
        add_text(out, &problem, "reason", 32);
        df_buf_addf(out, "%-11s%-15lld", grouped_text(int_of(&problem, "count", 0), count),
                    (long long)int_of(&problem, "firstRow", 0));
        add_text(out, &problem, "message", 0);
        df_buf_addc(out, '\n');
    }
}

static int print_preview(struct session *s, struct df_err *err)
{
    struct df_arena arena = {0};
    const struct df_json *doc = NULL;
    enum df_code code = df_json_parse(&arena, df_buf_str(&s->raw), &doc, err);
    const struct df_json *same = code == DF_OK ? df_json_get(doc, "duplicateOf") : NULL;
    char records[32], format[32], batch[64];
    struct df_buf out;

    df_buf_init(&out, OUTPUT_MAX);
    if (code == DF_OK && s->json) {
        df_buf_addf(&out, DF_STR_FMT "\n", DF_STR_ARG(df_buf_str(&s->raw)));
    } else if (code == DF_OK) {
        int64_t n = int_of(doc, "records", 0);
        df_cli_say(&out, n == 1 ? "%s: %s record looked at\n" : "%s: %s records looked at\n",
                   format_text(doc, format), grouped_text(n, records));
        if (same && same->type == DF_JSON_OBJECT) {
            text_of(same, "batchId", batch, sizeof batch);
            df_cli_say(&out, "the same file was sent before: batch %s\n", batch);
        }
        add_columns(doc, &out);
        add_problems(doc, &out);
    }
    df_arena_release(&arena);
    int status = df_cli_print(&out);
    return code == DF_OK ? status : df_cli_result(&df_cmd_import, code, err);
}

/* --- the command --- */

static enum df_code check_file(const char *path, struct df_err *err)
{
    struct stat st;
    if (stat(path, &st) != 0 || access(path, R_OK) != 0)
        return df_err_set(err, DF_E_USAGE, "%s: %s", path, strerrordesc_np(errno));
    if (!S_ISREG(st.st_mode))
        return df_err_set(err, DF_E_USAGE, "%s: not a file", path);
    if (st.st_size == 0)
        return df_err_set(err, DF_E_USAGE, "%s: the file is empty", path);
    return DF_OK;
}

static enum df_code watch_batch(struct session *s, struct df_err *err)
{
    const struct df_import_watcher watcher = {
        .seen = on_seen, .lost = on_lost, .tick = on_tick, .arg = s};
    char id[sizeof s->batch.id];

    s->told = -1;
    s->drawn_ms = 0;
    memcpy(id, s->batch.id, sizeof id);
    enum df_code code = df_import_watch(s->http, id, &watcher, err);
    end_line(s);
    return code;
}

static enum df_code upload_file(struct session *s, struct df_import_file *file, struct df_err *err)
{
    file->sent = show_sent;
    file->arg = s;
    s->begun_ms = df_mono_ms(df_clock_real());
    s->told = 0;
    enum df_code code = df_import_upload(s->http, file, &s->raw, err);
    end_line(s);
    return code == DF_OK ? read_batch(s, df_buf_str(&s->raw), err) : code;
}

static int perform_import(struct session *s, struct df_import_file *file, const char *batch_id)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code;

    /* Before minutes of sending: a refusal of the credentials would come only after them. */
    code = file->path ? df_import_check_login(s->http, &err) : DF_OK;
    if (code == DF_OK && file->preview) {
        code = df_import_upload(s->http, file, &s->raw, &err);
        if (code == DF_OK)
            return print_preview(s, &err);
    } else if (code == DF_OK && file->path) {
        code = upload_file(s, file, &err);
    } else if (code == DF_OK) {
        code = df_import_look(s->http, batch_id, &s->raw, &err);
        if (code == DF_OK)
            code = read_batch(s, df_buf_str(&s->raw), &err);
    }
    bool stored = code == DF_OK;
    if (stored && s->watch) {
        if (!s->json && file->path)
            fprintf(stderr, "%s %s\n", df_cli_text("batch"), s->batch.id);
        code = watch_batch(s, &err);
    }
    if (code == DF_OK)
        return print_conclusion(s);
    struct df_buf out;
    df_buf_init(&out, OUTPUT_MAX);
    if (code != DF_E_CANCELLED)
        df_cli_complain(&df_cmd_import, "%s", err.detail);
    else if (stored)
        df_cli_say(&out, "the import goes on; ");
    else
        df_cli_say(&out, "the upload was broken off: nothing was stored\n");
    if (stored)
        add_how_to_look(s, &out);
    fputs(df_buf_str(&out).len > 0 ? out.ptr : "", stderr);
    df_buf_release(&out);
    return code == DF_E_CANCELLED ? EXIT_INTERRUPTED : DF_EXIT_FAILED;
}

static void catch_signals(void)
{
    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

static int start_import(struct session *s, struct df_import_file *file, const char *batch_id,
                        const char *secret)
{
    struct df_err err = DF_ERR_INIT;
    const struct df_import_server server = {.url = s->server,
                                            .client_id = s->client_id,
                                            .client_secret = secret,
                                            .language =
                                                df_lang_tag(s->json ? DF_LANG_EN : df_cli_lang()),
                                            .interrupted = &interrupted};
    enum df_code code = file->path ? check_file(file->path, &err) : DF_OK;
    if (code == DF_OK && file->mapping)
        code = check_file(file->mapping, &err);
    if (code == DF_OK)
        code = df_import_http_new(&server, &s->http, &err);
    if (code != DF_OK)
        return df_cli_result(&df_cmd_import, code, &err);
    catch_signals();
    df_buf_init(&s->raw, ANSWER_MAX);
    int status = perform_import(s, file, batch_id);
    df_buf_release(&s->raw);
    df_import_http_free(s->http);
    return status;
}

static int run_import(int argc, char **argv)
{
    const char *secret = secure_getenv("DATAFLOW_CLIENT_SECRET");
    const char *batch_id = NULL;
    struct df_security_settings trust = {0};
    struct df_err err = DF_ERR_INIT;
    struct df_import_file file = {0};
    struct session s = {.server = DEFAULT_SERVER,
                        .client_id = secure_getenv("DATAFLOW_CLIENT_ID"),
                        .terminal = isatty(STDERR_FILENO) == 1};
    const struct df_option options[] = {
        {.name = "server", .kind = DF_OPT_VALUE, .value = &s.server},
        {.name = "client-id", .kind = DF_OPT_VALUE, .value = &s.client_id},
        {.name = "client-secret", .kind = DF_OPT_VALUE, .value = &secret},
        {.name = "ca-file", .kind = DF_OPT_VALUE, .value = &trust.ca_file},
        {.name = "origin", .kind = DF_OPT_VALUE, .value = &file.origin},
        {.name = "sheet", .kind = DF_OPT_VALUE, .value = &file.sheet},
        {.name = "mapping", .kind = DF_OPT_VALUE, .value = &file.mapping},
        {.name = "preview", .kind = DF_OPT_FLAG, .flag = &file.preview},
        {.name = "batch", .kind = DF_OPT_VALUE, .value = &batch_id},
        {.name = "watch", .kind = DF_OPT_FLAG, .flag = &s.watch},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &s.json},
    };
    int operands =
        df_cli_parse(&df_cmd_import, argc, argv, options, sizeof options / sizeof options[0], NULL);
    if (operands < 0)
        return DF_EXIT_USAGE;
    struct df_uuid id;
    if (operands + (batch_id != NULL) != 1 ||
        (batch_id && (file.origin || file.sheet || file.mapping || file.preview)) ||
        (file.preview && s.watch) || (batch_id && !df_uuid_parse(df_str_c(batch_id), &id))) {
        df_cli_complain(&df_cmd_import, "usage: dataflow import %s", df_cmd_import.usage);
        return DF_EXIT_USAGE;
    }
    if (!s.client_id || !secret) {
        df_cli_complain(&df_cmd_import, "needs a client's credentials: DATAFLOW_CLIENT_ID and "
                                        "DATAFLOW_CLIENT_SECRET, or --client-id and "
                                        "--client-secret");
        return DF_EXIT_USAGE;
    }
    if (df_security_use(&trust, &err) != DF_OK) {
        df_cli_complain(&df_cmd_import, "--ca-file: %s", err.detail);
        return DF_EXIT_USAGE;
    }
    file.path = operands == 1 ? argv[0] : NULL;
    return start_import(&s, &file, batch_id ? id.text : NULL, secret);
}

const struct df_command df_cmd_import = {
    .name = "import",
    .usage = "FILE [--origin O] [--sheet S] [--mapping FILE] [--preview | --watch] [--json]\n"
             "                | --batch ID [--watch] [--json]\n"
             "                [--server URL] [--client-id ID] [--client-secret SECRET]\n"
             "                [--ca-file FILE]",
    .summary = "upload a file of leads and watch what becomes of it",
    .help =
        "Talks to a running server, " DEFAULT_SERVER " by default, as a client with the scope\n"
        "`imports`, whose credentials are best given by DATAFLOW_CLIENT_ID and\n"
        "DATAFLOW_CLIENT_SECRET: other users of a machine can read command lines.\n"
        "--mapping names a JSON file that says what columns mean: {\"Contato\": \"PhoneNumber\"}.\n"
        "With --preview the server looks at the file and stores nothing.\n"
        "With --watch: until the batch is over; exit status 0 if it is Completed, 1 if it ended\n"
        "otherwise, 130 when interrupted (the import itself goes on). Without: 0 when the file\n"
        "was taken.",
    .run = run_import,
};
