/*
 * dataflow doctor: the table of checks, their threads, and what is printed.
 *
 * All checks run side by side, up to THREADS_MAX at a time. Each has DF_DOCTOR_LIMIT_MS, all
 * together WHOLE_MS. A thread that hangs (a peer that does not answer, a dead disk) cannot be
 * ended, so the program then exits without waiting for it.
 */
#include "app/cli.h"
#include "app/demo.h"
#include "app/doctor.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "json/write.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX  64
#define WHOLE_MS     10000
#define RESTORED_MS  3600000 /* every file and the whole audit log are looked at */
#define FINDINGS_MAX 16
#define WHAT_MAX     95
#define DETAIL_MAX   1023
#define OUTPUT_MAX   (8 << 20)

struct row {
    const char *subject;
    size_t (*count)(const struct df_settings *s); /* NULL: one */
    void (*run)(struct df_check *c);
    int64_t limit_ms;   /* 0: DF_DOCTOR_LIMIT_MS */
    bool after_restore; /* only when that is asked for */
};

static void check_configuration(struct df_check *c);

static const struct row checks[] = {
    {.subject = "configuration", .run = check_configuration},
    {.subject = "database", .run = df_check_database},
    {.subject = "disk", .run = df_check_data_dir},
    {.subject = "certificates", .count = df_count_certificates, .run = df_check_certificate},
    {.subject = "keys", .run = df_check_keys},
    {.subject = "master key", .run = df_check_master},
    {.subject = "bucket", .count = df_count_storages, .run = df_check_storage},
    {.subject = "redis", .count = df_count_redis, .run = df_check_redis},
    {.subject = "relays", .count = df_count_relays, .run = df_check_relay_source},
    {.subject = "brokers", .count = df_count_relays, .run = df_check_relay_broker},
    {.subject = "queue", .count = df_count_queues, .run = df_check_queue},
    {.subject = "destinations", .count = df_count_destinations, .run = df_check_destination},
    {.subject = "log target", .count = df_count_ship, .run = df_check_ship},
    {.subject = "backup", .run = df_check_backup},
    {.subject = "restored",
     .run = df_check_restored,
     .limit_ms = RESTORED_MS,
     .after_restore = true},
};

struct finding {
    enum df_health health;
    char what[WHAT_MAX + 1];
    char detail[DETAIL_MAX + 1];
    char advice[DETAIL_MAX + 1];
};

enum state { WAITS, RUNS, OVER, LEFT_BEHIND };

struct df_check {
    const struct row *row;
    size_t index;
    struct doctor *doctor;
    struct df_thread thread;
    int64_t began_ms;
    enum state state;
    struct finding *findings;
    size_t count;
};

struct doctor {
    const struct df_settings *settings;
    struct df_buf warnings; /* of the settings, a line each */
    bool after_restore, only_restore;
    struct df_mutex lock; /* guards state, findings and count of every check */
    pthread_cond_t changed;
    struct df_check *checks;
    size_t check_count;
    size_t totals[DF_HEALTH_PROBLEM + 1];
};

static const char *const health_names[] = {"ok", "warning", "problem"};

const struct df_settings *df_check_settings(const struct df_check *c)
{
    return c->doctor->settings;
}

size_t df_check_index(const struct df_check *c)
{
    return c->index;
}

bool df_check_is_after_restore(const struct df_check *c)
{
    return c->doctor->after_restore;
}

/* --- findings --- */

/* Texts may come from peers: no control characters, which a terminal would obey. */
static void clean_text(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            *text = ' ';
    while (text[-1] == ' ')
        *--text = '\0';
}

static void add_finding(struct df_check *c, const struct finding *f)
{
    if (c->state == LEFT_BEHIND || c->count == FINDINGS_MAX)
        return;
    c->findings = df_realloc(c->findings, (c->count + 1) * sizeof *c->findings);
    c->findings[c->count++] = *f;
    c->doctor->totals[f->health]++;
}

void df_check_say(struct df_check *c, enum df_health health, const char *what, const char *advice,
                  const char *fmt, ...)
{
    struct finding f = {.health = health};
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(f.detail, sizeof f.detail, fmt, ap);
    va_end(ap);
    (void)snprintf(f.what, sizeof f.what, "%s", what);
    (void)snprintf(f.advice, sizeof f.advice, "%s", advice ? advice : "");
    if (*f.detail)
        clean_text(f.detail);
    df_lock(&c->doctor->lock);
    add_finding(c, &f);
    df_unlock(&c->doctor->lock);
}

/* What the server would warn of at its start. */
static void check_configuration(struct df_check *c)
{
    struct df_str line, rest = df_buf_str(&c->doctor->warnings);
    while (rest.len > 0) {
        rest = df_str_cut(rest, '\n', &line);
        if (line.len > 0 && !df_str_starts(line, DF_STR("[admin] key:"))) /* has its own check */
            df_check_say(c, DF_HEALTH_WARNING, "configuration", "change it as the message says",
                         DF_STR_FMT, DF_STR_ARG(line));
    }
}

/* --- threads --- */

static void run_check(void *arg)
{
    struct df_check *c = arg;
    c->row->run(c);
    df_lock(&c->doctor->lock);
    if (c->state == RUNS)
        c->state = OVER;
    (void)pthread_cond_broadcast(&c->doctor->changed);
    df_unlock(&c->doctor->lock);
}

static void leave_behind(struct df_check *c, const char *why)
{
    struct finding f = {.health = DF_HEALTH_PROBLEM,
                        .advice = "see what it hangs on, and try again"};
    (void)snprintf(f.what, sizeof f.what, "%s", c->row->subject);
    (void)snprintf(f.detail, sizeof f.detail, "%s", why);
    add_finding(c, &f);
    c->state = LEFT_BEHIND;
}

/* Starts what may start and leaves behind what took too long; false: there is nothing left. */
static bool turn_checks(struct doctor *d, int64_t now_ms, int64_t until_ms)
{
    size_t running = 0, waiting = 0;
    for (size_t i = 0; i < d->check_count; i++) {
        struct df_check *c = &d->checks[i];
        int64_t limit_ms = c->row->limit_ms ? c->row->limit_ms : DF_DOCTOR_LIMIT_MS;
        if (c->state == RUNS && now_ms - c->began_ms >= limit_ms)
            leave_behind(c, c->row->limit_ms ? "took more than an hour"
                                             : "no answer within 5 seconds");
        running += c->state == RUNS;
    }
    for (size_t i = 0; i < d->check_count; i++) {
        struct df_check *c = &d->checks[i];
        if (c->state != WAITS)
            continue;
        if (now_ms >= until_ms) {
            leave_behind(c, "was not tried: too much else hangs");
        } else if (running < THREADS_MAX) {
            c->state = RUNS;
            c->began_ms = now_ms;
            df_thread_start(&c->thread, "doctor", run_check, c);
            running++;
        } else {
            waiting++;
        }
    }
    return running + waiting > 0;
}

/* True: all threads have ended. */
static bool run_checks(struct doctor *d)
{
    const struct df_clock *clock = df_clock_real();
    int64_t until_ms = df_mono_ms(clock) + WHOLE_MS - DF_DOCTOR_LIMIT_MS;
    bool all_ended = true;
    df_lock(&d->lock);
    while (turn_checks(d, df_mono_ms(clock), until_ms))
        (void)df_cond_wait_ms(&d->changed, &d->lock, 100);
    df_unlock(&d->lock);
    /* States do not change any more: a check that is left behind stays so. */
    for (size_t i = 0; i < d->check_count; i++) {
        struct df_check *c = &d->checks[i];
        if (c->state == OVER)
            df_thread_join(&c->thread);
        else if (c->thread.running)
            (void)pthread_detach(c->thread.id);
        all_ended = all_ended && c->state == OVER;
    }
    return all_ended;
}

static bool is_asked_for(const struct doctor *d, const struct row *r)
{
    return d->only_restore ? r->after_restore : d->after_restore || !r->after_restore;
}

static void plan_checks(struct doctor *d)
{
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        size_t count = checks[i].count ? checks[i].count(d->settings) : 1;
        if (!is_asked_for(d, &checks[i]))
            continue;
        d->checks = df_realloc(d->checks, (d->check_count + count + 1) * sizeof *d->checks);
        for (size_t n = 0; n < count; n++)
            d->checks[d->check_count++] =
                (struct df_check){.row = &checks[i], .index = n, .doctor = d};
    }
}

/* --- output --- */

static void print_json(const struct doctor *d, struct df_buf *out)
{
    struct df_json_out j;
    size_t worst = d->totals[DF_HEALTH_PROBLEM]   ? DF_HEALTH_PROBLEM
                   : d->totals[DF_HEALTH_WARNING] ? DF_HEALTH_WARNING
                                                  : DF_HEALTH_OK;
    df_json_out_init(&j, out);
    df_json_open(&j, '{');
    df_json_kv_text(&j, "status", df_str_c(health_names[worst]));
    df_json_kv_int(&j, "problems", (int64_t)d->totals[DF_HEALTH_PROBLEM]);
    df_json_kv_int(&j, "warnings", (int64_t)d->totals[DF_HEALTH_WARNING]);
    df_json_key(&j, "checks");
    df_json_open(&j, '[');
    for (size_t i = 0; i < d->check_count; i++)
        for (size_t n = 0; n < d->checks[i].count; n++) {
            const struct finding *f = &d->checks[i].findings[n];
            df_json_open(&j, '{');
            df_json_kv_text(&j, "subject", df_str_c(d->checks[i].row->subject));
            df_json_kv_text(&j, "name", df_str_c(f->what));
            df_json_kv_text(&j, "status", df_str_c(health_names[f->health]));
            df_json_kv_text(&j, "detail", df_str_c(f->detail));
            df_json_kv_text(&j, "advice", *f->advice ? df_str_c(f->advice) : DF_STR_NULL);
            df_json_close(&j, '}');
        }
    df_json_close(&j, ']');
    df_json_close(&j, '}');
    df_buf_addc(out, '\n');
}

static void print_text(const struct doctor *d, struct df_buf *out)
{
    for (size_t i = 0; i < d->check_count; i++)
        for (size_t n = 0; n < d->checks[i].count; n++) {
            const struct finding *f = &d->checks[i].findings[n];
            df_cli_cell(out, health_names[f->health], 8);
            df_buf_addc(out, ' ');
            df_cli_cell(out, f->what, 28);
            df_buf_addc(out, ' ');
            df_cli_say_behind(out, f->detail);
            if (!*f->advice)
                continue;
            df_buf_addf(out, "%-38s→ ", "");
            df_cli_say(out, "%s\n", f->advice);
        }
    df_buf_addc(out, '\n');
    df_cli_say(out, "%zu problem%s, %zu warning%s\n", d->totals[DF_HEALTH_PROBLEM],
               d->totals[DF_HEALTH_PROBLEM] == 1 ? "" : "s", d->totals[DF_HEALTH_WARNING],
               d->totals[DF_HEALTH_WARNING] == 1 ? "" : "s");
}

static int print_findings(struct doctor *d, bool json)
{
    struct df_buf out;
    df_buf_init(&out, OUTPUT_MAX);
    df_lock(&d->lock); /* those left behind may still come */
    if (json)
        print_json(d, &out);
    else
        print_text(d, &out);
    bool well = d->totals[DF_HEALTH_PROBLEM] == 0;
    df_unlock(&d->lock);
    int printed = df_cli_print(&out);
    return printed == DF_EXIT_OK && !well ? DF_EXIT_FAILED : printed;
}

/* --- the command --- */

static int examine(struct doctor *d, bool json)
{
    df_mutex_init(&d->lock);
    (void)pthread_cond_init(&d->changed, NULL);
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    plan_checks(d);
    bool all_ended = run_checks(d);
    int status = print_findings(d, json);
    if (!all_ended)
        _exit(status); /* a thread still uses what would be freed */
    for (size_t i = 0; i < d->check_count; i++)
        free(d->checks[i].findings);
    free(d->checks);
    return status;
}

int df_doctor_after_restore(const struct df_settings *s, bool json)
{
    struct doctor *d =
        df_calloc(1, sizeof *d); /* not on the stack of threads that are left behind */

    d->settings = s;
    d->only_restore = true;
    int status = examine(d, json);
    free(d);
    return status;
}

static int run_doctor(int argc, char **argv)
{
    bool json = false, after_restore = false;
    const struct df_option options[] = {
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &json},
        {.name = "after-restore", .kind = DF_OPT_FLAG, .flag = &after_restore}};
    struct df_cli_config config = {0};
    struct df_settings settings;
    int operands = df_cli_parse(&df_cmd_doctor, argc, argv, options, 2, &config);
    if (operands > 0)
        df_cli_complain(&df_cmd_doctor, "unexpected argument \"%s\"", argv[0]);
    if (operands != 0)
        return DF_EXIT_USAGE;
    struct doctor *d = df_calloc(1, sizeof *d);
    df_buf_init(&d->warnings, DF_CLI_WARNINGS_MAX);
    int status = DF_EXIT_USAGE;
    if (df_cli_settings_warned(&config, &settings, &d->warnings)) {
        df_log_init(DF_LOG_ERROR, DF_LOG_AUTO, df_clock_real());
        df_demo_adopt(&settings); /* of a demo that runs beside it */
        d->settings = &settings;
        d->after_restore = after_restore;
        status = examine(d, json);
        df_settings_release(&settings);
    }
    df_buf_release(&d->warnings);
    free(d);
    return status;
}

const struct df_command df_cmd_doctor = {
    .name = "doctor",
    .usage = "[--after-restore] [--config FILE] [--set section.key=value]... [--json]",
    .summary = "try everything that the configuration names, and say what is wrong",
    .help = "Database and its rights, disk, clock, certificates, keys, bucket, Redis, relays and "
            "their\n"
            "brokers, and every destination, to which it connects without sending anything. Each\n"
            "finding is ok, a warning or a problem, with what to do. Changes nothing, but for a\n"
            "small file in server.data_dir and in the bucket, which it removes.\n"
            "Ends within about ten seconds, whatever hangs. Exit status 1: there is a problem.\n"
            "--after-restore also looks at every file that is waited for, every key that is\n"
            "needed and the whole audit log, and takes the time that it needs.",
    .run = run_doctor,
};
