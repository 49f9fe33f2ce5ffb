#include "imports/api/batch_view.h"

#include "imports/api/batches.sql.h"
#include "imports/batch.h"
#include "imports/imports.h"
#include "json/doc.h"
#include "json/scan.h"

#include <assert.h>

#define IDLE_MS   10000 /* without progress, the rate says nothing of the time that is left */
#define RATE_MS   60000
#define LINE_MOST 1000 /* batches that are looked at for a place in line */

static const char *file_type_name(int64_t type)
{
    static const char *const names[] = {"Json", "Excel", "Csv"};
    return type >= 0 && type < 3 ? names[type] : "Unknown";
}

bool df_json_is_valid(struct df_str s)
{
    struct df_json_scan scan;
    enum df_json_token t;

    df_json_scan_init(&scan, 0, DF_JSON_DEPTH_MAX);
    df_json_scan_window(&scan, s, 0, true);
    do
        t = df_json_scan_next(&scan);
    while (t > DF_TOK_END);
    df_json_scan_release(&scan);
    return t == DF_TOK_END;
}

void df_json_stored(struct df_json_out *out, struct df_str json)
{
    if (json.ptr && df_json_is_valid(json))
        df_json_raw(out, json);
    else
        df_json_null(out);
}

/* {"PhoneNumber: there is none": 12, …}: the names are told to people. */
static void write_summary(struct df_json_out *out, struct df_str json)
{
    struct df_arena a = {0};
    const struct df_json *doc = NULL;
    struct df_err err = DF_ERR_INIT;
    struct df_json_each each;
    int64_t count;

    if (out->lang == DF_LANG_EN || !json.ptr || df_json_parse(&a, json, &doc, &err) != DF_OK ||
        doc->type != DF_JSON_OBJECT) {
        df_json_stored(out, json);
        df_arena_release(&a);
        return;
    }
    df_json_open(out, '{');
    each = df_json_each(doc);
    for (const struct df_json *m; (m = df_json_next(&each));) {
        df_json_key_told(out, m->key);
        if (df_json_to_i64(m, &count))
            df_json_int(out, count);
        else
            df_json_null(out);
    }
    df_json_close(out, '}');
    df_arena_release(&a);
}

/* --- what a batch waits for --- */

struct wait {
    const char *what; /* NULL: nothing, it is worked on or over */
    int64_t since_ms;
};

static bool is_owned(struct df_result *r)
{
    return df_col_int(r, batch_Status) == DF_BATCH_PROCESSING && !df_col_null(r, batch_LockedAt) &&
           !df_col_null(r, batch_ProcessingHost);
}

static struct wait wait_of(struct df_result *r)
{
    int64_t updated_ms = df_col_time(r, batch_UpdatedAt);

    switch (df_col_int(r, batch_Status)) {
    case DF_BATCH_PENDING:
        if (!df_col_null(r, batch_WaitingSince))
            return (struct wait){"OmniFlow", df_col_time(r, batch_WaitingSince)};
        return (struct wait){"Worker", updated_ms};
    case DF_BATCH_SCHEDULED:
        return (struct wait){"Schedule", updated_ms};
    case DF_BATCH_PROCESSING:
        if (is_owned(r))
            break;
        if (!df_col_null(r, batch_GaveWayAt))
            return (struct wait){"Turn", df_col_time(r, batch_GaveWayAt)};
        return (struct wait){"Worker", updated_ms};
    default:
        break;
    }
    return (struct wait){.since_ms = -1};
}

static void write_wait(struct df_json_out *out, struct wait w)
{
    df_json_kv_text(out, "waitingFor", df_str_c(w.what));
    df_json_kv_time(out, "waitingSince", w.since_ms);
}

/* --- the same in more words: "waiting" --- */

struct df_batch_scene df_batch_scene_now(const struct df_imports *i, int64_t now_ms)
{
    const struct df_imports_options *o = df_imports_options_of(i);
    struct df_batch_scene s = {
        .now_ms = now_ms, .probe_ms = o->settings.probe_ms, .away_next_ms = -1};
    struct df_breaker_snapshot b;

    if (!o->outbound || !o->outbound->breakers ||
        !df_breakers_look(o->outbound->breakers, DF_STR("omniflow"), &b) ||
        b.state == DF_BREAKER_CLOSED)
        return s;
    s.is_away = true;
    s.away_since_ms = b.since_ms;
    s.away_next_ms = b.state == DF_BREAKER_OPEN ? now_ms + b.retry_ms : -1;
    return s;
}

struct line {
    const struct df_uuid *id;
    struct df_batch_scene *scene;
    struct df_uuid last; /* read so far */
    int64_t waiting;     /* before it, and not in work */
    bool found;
};

static void read_line(void *arg, struct df_result *r)
{
    struct line *l = arg;
    bool owned = df_col_int(r, batch_line_Status) == DF_BATCH_PROCESSING &&
                 !df_col_null(r, batch_line_LockedAt) && !df_col_null(r, batch_line_ProcessingHost);
    struct df_uuid id;

    if (l->found || !df_uuid_parse(df_col_text(r, batch_line_Id), &id))
        return;
    l->waiting += !owned;
    if (strcmp(id.text, l->id->text) == 0) {
        l->found = true;
        l->scene->place = l->waiting;
        l->scene->behind = l->last;
    }
    l->last = id;
}

static void read_waiting_client(void *arg, struct df_result *r)
{
    (void)df_uuid_parse(df_col_text(r, batch_waits_ClientId), arg);
}

/* In concurrent mode, only batches of the same client are before it. */
enum df_code df_batch_scene_line(struct df_db *db, const struct df_imports *i,
                                 const struct df_uuid *id, struct df_batch_scene *scene,
                                 struct df_err *err)
{
    const struct df_imports_settings *set = &df_imports_options_of(i)->settings;
    struct line l = {.id = id, .scene = scene};
    struct df_uuid client;
    bool waits = false;
    enum df_code code = df_db_one(db, DF_Q(batch_waits, .id = df_uuid(df_uuid_str(id))),
                                  read_waiting_client, &client, &waits, err);

    if (code != DF_OK || !waits)
        return code;
    return df_db_each(db,
                      DF_Q(batch_line, .own = df_int(set->mode == DF_IMPORTS_CONCURRENT),
                           .client = df_uuid(df_uuid_str(&client)),
                           .fair = df_int(set->fair_ms > 0), .limit = df_int(LINE_MOST)),
                      read_line, &l, err);
}

/* What is written of a wait. */
struct telling {
    const char *code; /* NULL: it waits for nothing */
    const char *detail;
    int64_t since_ms;
    int64_t next_ms; /* -1: not known */
    bool in_line;
};

static struct telling telling_of(struct df_result *r, const struct df_batch_scene *s, struct wait w)
{
    bool owned = is_owned(r);

    if (!w.what && owned && s->is_away)
        return (struct telling){"OmniFlowAway", "OmniFlow does not answer", s->away_since_ms,
                                s->away_next_ms, false};
    if (!w.what)
        return (struct telling){0};
    if (strcmp(w.what, "OmniFlow") == 0)
        return (struct telling){"OmniFlowAway", "OmniFlow takes nothing at present", w.since_ms,
                                w.since_ms + s->probe_ms, false};
    if (strcmp(w.what, "Schedule") == 0)
        return (struct telling){"Schedule", "the policy lets it begin later", w.since_ms,
                                df_col_time(r, batch_ScheduledFor), false};
    if (strcmp(w.what, "Acks") == 0)
        return (struct telling){"Ack", "OmniFlow has not confirmed what it has taken", w.since_ms,
                                -1, false};
    if (df_col_int(r, batch_Status) == DF_BATCH_PENDING || strcmp(w.what, "Turn") == 0)
        return (struct telling){"InLine", "other batches come first", w.since_ms, -1, true};
    return (struct telling){"Lock", "its worker is gone, and the next one goes on with it",
                            w.since_ms, -1, false};
}

static void write_telling(struct df_json_out *out, struct telling t, const struct df_batch_scene *s)
{
    bool placed = t.in_line && s->place > 0;

    df_json_key(out, "waiting");
    if (!t.code) {
        df_json_null(out);
        return;
    }
    df_json_open(out, '{');
    df_json_kv_text(out, "code", df_str_c(t.code));
    df_json_kv_told(out, "detail",
                    df_str_c(placed && !s->behind.text[0] ? "the next worker takes it" : t.detail));
    df_json_kv_time(out, "since", t.since_ms);
    df_json_kv_time(out, "next", t.next_ms);
    df_json_kv_int_if(out, "place", placed, s->place);
    df_json_kv_text(out, "behind",
                    placed && s->behind.text[0] ? df_uuid_str(&s->behind) : DF_STR_NULL);
    df_json_close(out, '}');
}

/* --- how fast, and what can be done --- */

/* -1: not known. */
static int64_t rate_of(struct df_result *r, const struct df_batch_scene *s)
{
    if (!is_owned(r) || df_col_null(r, batch_RowsPerSecond) ||
        s->now_ms - df_col_time(r, batch_UpdatedAt) > RATE_MS)
        return -1;
    return df_col_int(r, batch_RowsPerSecond);
}

/* Of the first attempt only: how many items a later one has is not stored. */
static int64_t remaining_of(struct df_result *r, const struct df_batch_scene *s, int64_t rate)
{
    int64_t left = df_col_int(r, batch_TotalRecords) - df_col_int(r, batch_ProcessedRecords);

    if (rate <= 0 || df_col_null(r, batch_TotalRecords) || df_col_int(r, batch_Attempt) > 1 ||
        s->is_away || s->now_ms - df_col_time(r, batch_UpdatedAt) > IDLE_MS)
        return -1;
    return left <= 0 ? 0 : (left + rate - 1) / rate;
}

static bool is_expired(struct df_result *r, int64_t now_ms)
{
    int64_t until_ms = df_col_time(r, batch_KeptUntil);
    return until_ms >= 0 && until_ms <= now_ms;
}

/* mended: with new values, which helps records too that were not fit to be sent. */
static bool can_retry(struct df_result *r, int64_t now_ms, bool mended)
{
    int64_t status = df_col_int(r, batch_Status);
    bool over = status == DF_BATCH_COMPLETED_WITH_ERRORS || status == DF_BATCH_FAILED;
    bool counted = !df_col_null(r, batch_RetryableCount);
    int64_t items =
        counted && !mended ? df_col_int(r, batch_RetryableCount) : df_col_int(r, batch_ErrorCount);
    bool gone = is_expired(r, now_ms) || (counted && df_col_int(r, batch_RetryableCount) < 0);

    return over && items > 0 && !gone;
}

static bool can_cancel(struct df_result *r)
{
    int64_t status = df_col_int(r, batch_Status);

    return (status == DF_BATCH_PENDING || status == DF_BATCH_SCHEDULED) &&
           df_col_null(r, batch_LockedAt) && df_col_int(r, batch_Attempt) == 1 &&
           df_col_int(r, batch_ProcessedRecords) == 0 && df_col_int(r, batch_Accepted) == 0;
}

static void write_scene(struct df_result *r, const struct df_batch_scene *s, struct wait w,
                        struct df_json_out *out)
{
    int64_t rate = rate_of(r, s);
    int64_t remaining = remaining_of(r, s, rate);

    write_wait(out, w);
    write_telling(out, telling_of(r, s, w), s);
    df_json_kv_int_if(out, "rowsPerSecond", rate >= 0, rate);
    df_json_kv_int_if(out, "remainingSeconds", remaining >= 0, remaining);
    df_json_kv_bool(out, "canRetry", can_retry(r, s->now_ms, false));
    df_json_kv_bool(out, "canMend", can_retry(r, s->now_ms, true));
    df_json_kv_bool(out, "canCancel", can_cancel(r));
}

/* --- the object --- */

static void write_members(struct df_result *r, struct df_json_out *out)
{
    int64_t processed = df_col_int(r, batch_ProcessedRecords);
    int64_t errors = df_col_int(r, batch_ErrorCount);
    int64_t skipped = df_col_int(r, batch_SkippedCount);

    df_json_kv_text(out, "batchId", df_col_text(r, batch_Id));
    df_json_kv_text(out, "status", df_str_c(df_batch_status_name(df_col_int(r, batch_Status))));
    df_json_kv_text(out, "fileName", df_col_text(r, batch_FileName));
    df_json_kv_time(out, "createdAt", df_col_time(r, batch_CreatedAt));
    df_json_kv_time(out, "startedAt", df_col_time(r, batch_StartedAt));
    df_json_kv_time(out, "completedAt", df_col_time(r, batch_CompletedAt));
    df_json_kv_int_if(out, "totalRecords", !df_col_null(r, batch_TotalRecords),
                      df_col_int(r, batch_TotalRecords));
    df_json_kv_int(out, "processedRecords", processed);
    df_json_kv_told(out, "lastError", df_col_text(r, batch_LastError));
    df_json_kv_bool(out, "webhookNotified", df_col_bool(r, batch_WebhookNotified));
    df_json_kv_text(out, "fileType", df_str_c(file_type_name(df_col_int(r, batch_FileType))));
    df_json_kv_int(out, "fileSizeBytes", df_col_int(r, batch_FileSizeBytes));
    df_json_kv_text(out, "checksum", df_col_text(r, batch_Checksum));
    df_json_kv_text(out, "policyDecision", df_col_text(r, batch_PolicyDecision));
    df_json_kv_time(out, "scheduledFor", df_col_time(r, batch_ScheduledFor));
    df_json_kv_text(out, "originDefault", df_col_text(r, batch_OriginDefault));
    df_json_kv_text(out, "requestedBy", df_col_text(r, batch_RequestedBy));
    df_json_key(out, "metadata");
    df_json_stored(out, df_col_text(r, batch_MetadataJson));
    df_json_kv_int(out, "errorCount", errors);
    df_json_kv_int(out, "skippedCount", skipped);
    df_json_kv_int(out, "importedCount", processed - errors - skipped);
    df_json_key(out, "errorSummary");
    write_summary(out, df_col_text(r, batch_ErrorSummary));
    df_json_kv_int(out, "attempt", df_col_int(r, batch_Attempt));
    df_json_kv_text(out, "correlationId", df_col_text(r, batch_CorrelationId));
    df_json_kv_time(out, "gaveWayAt", df_col_time(r, batch_GaveWayAt));
    df_json_kv_text(out, "metadataCorrelationId", df_col_text(r, batch_MetadataCorrelationId));
    df_json_kv_text(out, "refusedRule", df_col_text(r, batch_RefusedRule));
    df_json_kv_int_if(out, "refusalCount", !df_col_null(r, batch_RefusalCount),
                      df_col_int(r, batch_RefusalCount));
}

void df_batch_write(struct df_result *r, const struct df_batch_scene *scene,
                    struct df_json_out *out)
{
    df_json_open(out, '{');
    write_members(r, out);
    write_scene(r, scene, wait_of(r), out);
    df_json_close(out, '}');
}

static_assert((int)batch_operator_get_AckSince == (int)batch_operator_page_AckSince &&
                  (int)batch_operator_get_ClientIdentifier ==
                      (int)batch_operator_page_ClientIdentifier,
              "both rows are written by one function");

void df_batch_write_operator(struct df_result *r, const struct df_batch_scene *scene,
                             struct df_json_out *out)
{
    struct wait w = wait_of(r);
    bool owned = is_owned(r);

    if (!w.what && !df_col_null(r, batch_operator_get_AckSince))
        w = (struct wait){"Acks", df_col_time(r, batch_operator_get_AckSince)};
    df_json_open(out, '{');
    df_json_kv_text(out, "clientId", df_col_text(r, batch_operator_get_ClientIdentifier));
    write_members(r, out);
    write_scene(r, scene, w, out);
    df_json_kv_text(out, "lockedBy", owned ? df_col_text(r, batch_ProcessingHost) : DF_STR_NULL);
    df_json_kv_time(out, "lockedAt", owned ? df_col_time(r, batch_LockedAt) : -1);
    df_json_close(out, '}');
}

struct batch_reading {
    struct df_json_out *out;
    const struct df_batch_scene *scene;
    int64_t status;
};

static void read_batch(void *arg, struct df_result *r)
{
    struct batch_reading *b = arg;

    b->status = df_col_int(r, batch_Status);
    df_batch_write(r, b->scene, b->out);
}

enum df_code df_batch_read(struct df_db *db, const struct df_uuid *id, const struct df_uuid *client,
                           const struct df_batch_scene *scene, struct df_json_out *out,
                           int64_t *ret_status, struct df_err *err)
{
    struct batch_reading b = {.out = out, .scene = scene};
    bool found = false;
    enum df_code code = df_db_one(
        db, DF_Q(batch_get, .id = df_uuid(df_uuid_str(id)), .client = df_uuid(df_uuid_str(client))),
        read_batch, &b, &found, err);

    if (code == DF_OK && !found)
        code = df_batch_not_found(id, err);
    if (code == DF_OK)
        *ret_status = b.status;
    return code;
}

/* --- operators --- */

bool df_batch_is_operator(const struct df_req *req)
{
    return !df_auth_client(req);
}

static void read_owner(void *arg, struct df_result *r)
{
    (void)df_uuid_parse(df_col_text(r, batch_owner_ClientId), arg);
}

enum df_code df_batch_scope(struct df_db *db, const struct df_req *req, const struct df_uuid *id,
                            struct df_uuid *client, struct df_err *err)
{
    bool found = false;

    if (!df_batch_is_operator(req))
        return DF_OK;
    enum df_code code = df_db_one(db, DF_Q(batch_owner, .id = df_uuid(df_uuid_str(id))), read_owner,
                                  client, &found, err);
    return code == DF_OK && !found ? df_batch_not_found(id, err) : code;
}

enum df_code df_batch_not_found(const struct df_uuid *id, struct df_err *err)
{
    return df_err_set(err, DF_E_NOT_FOUND, "There is no import %s.", id->text);
}

bool df_batch_param(struct df_req *req, struct df_uuid *ret)
{
    if (df_uuid_parse(df_req_param(req, "batchId"), ret))
        return true;
    df_req_fail(req, DF_E_NOT_FOUND, "There is no such import.");
    return false;
}
