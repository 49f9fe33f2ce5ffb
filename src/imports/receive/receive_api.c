/*
 * POST /imports. The life of an upload, by the thread that has it:
 *
 *   HTTP thread   the first piece of the body arrives: it is copied, the request is suspended
 *   store         policy, the client's usage, an earlier call with the same key
 *                 ──► refused at once, though most of the body may not have arrived yet
 *   HTTP thread   each piece goes to the disk, or into a part that an uploader sends
 *                 (receive_parts.c); over a limit ──► refused, the rest is not read
 *   HTTP thread   the body is complete: the request is suspended again
 *   file thread   fsync, content against declaration, now or scheduled, the row's commit ──► 202
 *   ..uploader    all of that, if files go to the outside storage, beginning with the last part;
 *                 before the commit, if only files of scheduled batches go there
 *
 * If there is an earlier call with the same Idempotency-Key, the upload is only compared with it:
 * it is hashed and not stored, and no rule of the policy applies. If the earlier call commits while
 * this one is under way, the unique index tells, and the comparison is made then.
 *
 * on_upload_end frees the upload, however it ends. The file is removed before a refusal is sent,
 * unless there is a row for it; an unfinished one in the outside storage is aborted soon after.
 */
#include "imports/receive/receive_private.h"

#include "base/mem.h"
#include "imports/routes.h"
#include "net/field.h"
#include "net/multipart.h"

#include <inttypes.h>
#include <stdlib.h>

#define FIELDS_BYTES ((uint64_t)1 << 20) /* of a body, beside the file */
#define UPLOAD_BYTES ((size_t)384 << 10) /* memory for buffers of file, cipher and scanner */

/* --- the body --- */

size_t df_receive_body_limit(uint64_t max_upload_bytes)
{
    return (size_t)(max_upload_bytes / 3 * 4 + 4 + FIELDS_BYTES);
}

/* The least size of the file by Content-Length; unknown fields may take FIELDS_BYTES. */
static uint64_t least_size(struct df_req *req)
{
    int64_t declared = df_req_declared_length(req);
    uint64_t body = declared > (int64_t)FIELDS_BYTES ? (uint64_t)declared - FIELDS_BYTES : 0;

    return df_multipart_is(df_req_header(req, "Content-Type")) ? body : body / 4 * 3;
}

static enum df_code check_head(struct df_receive *up, struct df_err *err)
{
    const struct df_imports_options *opt = up->receiver->opt;
    uint64_t least = (uint64_t)up->facts.size_bytes;
    enum df_code code = df_field_check_key(up->key, err);

    if (code != DF_OK)
        return code;
    if (least > (uint64_t)opt->settings.max_upload_bytes)
        return df_err_set(err, DF_E_TOO_LARGE,
                          "The file has more than the %" PRId64 " bytes that this server takes.",
                          opt->settings.max_upload_bytes);
    if ((up->preview || !df_storage_is_remote(opt->storage)) &&
        least > df_storage_free_bytes(opt->storage))
        return df_err_set(err, DF_E_DISK_FULL,
                          "the disk has no room for a file of %" PRIu64 " bytes", least);
    return DF_OK;
}

/* On a thread of the store. Reading the body goes on unless the upload is refused. */
static bool upload_looked_up(struct df_work *w, enum df_code code, const struct df_err *job_err)
{
    struct df_receive *up = df_req_state(w->req);
    struct df_err err = *job_err;

    if (code == DF_OK && !up->earlier.found)
        code = df_receive_admit(up, &err);
    if (code == DF_OK)
        up->size_limit = df_policy_size_limit(&up->facts);
    else
        df_receive_reject(up, &err);
    df_work_end(w);
    return true;
}

static const struct df_handler look_up = {.run = df_receive_look_up, .pass_on = upload_looked_up};

static struct df_receive *receive_new(struct df_req *req, struct df_upload *take_upload,
                                      bool is_preview)
{
    struct df_receiver *r = df_req_route_arg(req);
    struct df_receive *up = df_calloc(1, sizeof(*up));

    *up = (struct df_receive){
        .receiver = r,
        .req = req,
        .client_id = df_auth_client(req)->id,
        .batch = df_uuid_v7(r->opt->clock),
        .began_ms = df_mono_ms(r->opt->clock),
        .key = is_preview ? DF_STR_NULL
                          : df_arena_str(df_req_arena(req), df_req_header(req, "Idempotency-Key")),
        .facts = {.policy = &up->policy,
                  .maintenance = r->opt->maintenance,
                  .zone = r->opt->zone,
                  .size_bytes = (int64_t)least_size(req)},
        .upload = take_upload,
    };
    df_policy_init(&up->policy);
    return up;
}

/* The upload is made before its df_receive, so its handler finds that through the request. */
static enum df_code on_file_begin(void *arg, const struct df_upload *u, struct df_err *err)
{
    return df_receive_file_begin(df_req_state(arg), u, err);
}

static enum df_code on_file_data(void *arg, struct df_str piece, struct df_err *err)
{
    return df_receive_file_data(df_req_state(arg), piece, err);
}

/* Takes the first piece of the body. From here on, on_upload_end frees the upload. */
static enum df_code begin_upload(struct df_req *req, struct df_str piece, bool is_preview,
                                 struct df_err *err)
{
    const struct df_upload_handler handler = {on_file_begin, on_file_data, req, is_preview};
    const struct df_receiver *r = df_req_route_arg(req);
    struct df_upload *upload = NULL;
    size_t file_bytes = is_preview
                            ? DF_PREVIEW_BYTES
                            : df_storage_writer_bytes(r->opt->storage, df_req_declared_length(req));
    if (!df_req_charge(req, UPLOAD_BYTES + file_bytes))
        return DF_OK; /* the answer is set */
    enum df_code code = df_upload_new(df_req_header(req, "Content-Type"), handler, &upload, err);
    if (code != DF_OK)
        return code;
    struct df_receive *up = receive_new(req, upload, is_preview);
    df_req_set_state(req, up);
    if (is_preview)
        df_preview_begin(up);
    else
        df_log_ctx_set(df_req_log(req), "batchId", df_uuid_str(&up->batch));
    if (check_head(up, err) != DF_OK) {
        df_receive_reject(up, err);
        return DF_OK;
    }
    up->first = df_malloc(piece.len);
    memcpy(up->first, piece.ptr, piece.len);
    up->first_len = piece.len;
    df_handle_by(req, &look_up);
    return DF_OK;
}

static enum df_code feed_upload(struct df_receive *up, struct df_str piece, struct df_err *err)
{
    enum df_code code = DF_OK;

    if (up->first) {
        code = df_upload_feed(up->upload, df_str_n(up->first, up->first_len), err);
        free(up->first);
        up->first = NULL;
    }
    return code == DF_OK && piece.len > 0 ? df_upload_feed(up->upload, piece, err) : code;
}

/* Answers refusals itself, since they may name fields. */
static enum df_code take_piece(struct df_req *req, struct df_str piece, bool is_preview,
                               struct df_err *err)
{
    struct df_receive *up = df_req_state(req);

    if (!up)
        return begin_upload(req, piece, is_preview, err);
    if (feed_upload(up, piece, err) != DF_OK || df_receive_parts_pass(up, err) != DF_OK)
        df_receive_reject(up, err);
    return DF_OK;
}

static enum df_code on_upload_data(struct df_req *req, const char *data, size_t len,
                                   struct df_err *err)
{
    return take_piece(req, df_str_n(data, len), false, err);
}

static enum df_code on_preview_data(struct df_req *req, const char *data, size_t len,
                                    struct df_err *err)
{
    return take_piece(req, df_str_n(data, len), true, err);
}

/* --- the end of the body --- */

/* A request without a body gets the answer of a body without a file. */
static void refuse_empty(struct df_req *req)
{
    struct df_err err = DF_ERR_INIT;
    struct df_upload *upload = NULL;
    const struct df_upload_handler none = {0};

    enum df_code code = df_upload_new(df_req_header(req, "Content-Type"), none, &upload, &err);
    if (code == DF_OK)
        code = df_upload_finish(upload, &err);
    if (code == DF_OK)
        (void)df_err_set(&err, DF_E_BAD_REQUEST, "There is no file.");
    df_req_problem(req, &err);
    df_upload_free(upload);
}

/* The column Sheet is narrower than the other fields. */
static bool check_sheet(struct df_receive *up)
{
    struct df_err err = DF_ERR_INIT;
    const struct df_field_error bad = {DF_STR("sheet"), DF_STR("has more than 100 characters")};

    if (df_utf8_count(df_upload_fields(up->upload)->sheet) <= DF_RECEIVE_SHEET_MAX)
        return true;
    (void)df_err_set(&err, DF_E_VALIDATION, "1 field is not valid: see errors.");
    df_receive_reject_fields(up, &err, &bad, 1);
    return false;
}

static bool end_upload_body(struct df_work *w, struct df_input *in)
{
    struct df_receive *up = df_req_state(w->req);
    struct df_err err = DF_ERR_INIT;

    (void)in;
    if (!up) {
        refuse_empty(w->req);
        return false;
    }
    enum df_code code = feed_upload(up, DF_STR_NULL, &err);
    if (code == DF_OK)
        code = df_upload_finish(up->upload, &err);
    if (code != DF_OK) {
        df_receive_reject(up, &err);
        return false;
    }
    if (!check_sheet(up))
        return false;
    if (up->earlier.found) {
        df_receive_sum_up(up);
        df_receive_answer_again(up);
        return false;
    }
    return true;
}

static void wait_for_disk(struct df_work *w)
{
    struct df_receive *up = df_req_state(w->req);
    struct df_err err = DF_ERR_INIT;

    up->work = w;
    if (up->preview ? df_preview_start(up) : df_receive_hand_over(up))
        return;
    (void)df_err_set(&err, DF_E_BUSY, "Too many uploads are waiting for the disk.");
    df_receive_reject(up, &err);
    df_work_end(w);
}

static const struct df_handler receive = {.prepare = end_upload_body, .first = wait_for_disk};

/* --- the end of the request --- */

static void on_upload_end(struct df_req *req)
{
    struct df_receive *up = df_req_state(req);

    if (!up)
        return;
    if (up->outcome == DF_RECEIVE_OPEN && !up->preview) {
        struct df_log_field said[] = {DF_FI("sizeBytes", up->size_bytes)};
        df_log_write(DF_LOG_INFO, "UploadAbandoned", said, 1, "the sender left");
    }
    df_receive_end(up, DF_RECEIVE_ABANDONED);
    df_req_set_state(req, NULL);
    df_checksum_free(up->hash);
    df_upload_free(up->upload);
    free(up->first);
    free(up->preview);
    free(up);
}

const struct df_route df_imports_receive_routes[] = {
    {.method = "POST",
     .pattern = "/imports",
     .access = DF_ACCESS_CLIENT,
     .scope = "imports",
     .body = DF_BODY_STREAM,
     .on_data = on_upload_data,
     .handle = df_handle,
     .handler = &receive,
     .on_end = on_upload_end},
    {.method = "POST",
     .pattern = "/imports/preview",
     .access = DF_ACCESS_CLIENT,
     .scope = "imports",
     .body = DF_BODY_STREAM,
     .on_data = on_preview_data,
     .handle = df_handle,
     .handler = &receive,
     .on_end = on_upload_end},
    {.method = NULL},
};
