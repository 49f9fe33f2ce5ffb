/*
 * Writes an object from start to end, in parts that the caller has in memory. If the first part is
 * also the last, it is one PUT, with its SHA-256 stored beside it. Otherwise it is an upload in
 * parts, each signed, sent and repeated by itself, so that a broken connection costs one part. All
 * parts but the last have the same size, which some storages ask for.
 *
 * An upload in parts has a random mark, by which the object is known again when the answer to its
 * completion was lost: an older object of the same key has another one.
 */
#include "files/s3_request.h"

#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define PARTS_MAX    10000 /* S3's limit */
#define QUERY_MAX    1200
#define ROUND_BYTES  ((uint64_t)1 << 20)
#define JOIN_SECONDS 600L /* S3 may be silent while it joins the parts */

struct df_s3_writer {
    struct df_s3_request r;
    char *key;
    unsigned parts; /* sent */
    char mark[DF_S3_ID_LEN + 1];
    struct df_buf upload_id; /* encoded for a query; empty: there is no upload in parts */
    struct df_buf list;      /* of the parts, for the completion; some 100 bytes each */
};

size_t df_s3_part_bytes(uint64_t size)
{
    uint64_t least = (size + PARTS_MAX - 1) / PARTS_MAX;

    if (least <= DF_S3_PART_BYTES)
        return DF_S3_PART_BYTES;
    return (size_t)((least + ROUND_BYTES - 1) / ROUND_BYTES * ROUND_BYTES);
}

enum df_code df_s3_writer_new(struct df_s3 *s, const char *key, struct df_s3_writer **ret,
                              struct df_err *err)
{
    struct df_s3_writer *w = df_calloc(1, sizeof(*w));
    uint64_t random[2];

    static_assert(sizeof(random) * 2 == DF_S3_ID_LEN, "the mark is hexadecimal");
    df_random(s->clock, random, sizeof(random));
    (void)snprintf(w->mark, sizeof(w->mark), "%016llx%016llx", (unsigned long long)random[0],
                   (unsigned long long)random[1]);
    w->key = df_strdup(df_str_c(key));
    df_buf_init(&w->upload_id, 1024);
    df_buf_init(&w->list, (size_t)PARTS_MAX * (DF_S3_TAG_MAX + 64));
    enum df_code code = df_s3_request_init(&w->r, s, w->key, err);
    if (code == DF_OK)
        *ret = w;
    else
        df_s3_writer_free(w);
    return code;
}

/* --- the requests --- */

static enum df_code put_whole(struct df_s3_writer *w, struct df_str all, struct df_err *err)
{
    char sha256[DF_CHECKSUM_LEN + 1];

    df_checksum_of(all, sha256);
    df_s3_request_set(&w->r, "PUT", NULL, sha256);
    w->r.meta = sha256;
    w->r.body = all;
    return df_s3_request_perform(&w->r, err);
}

/* Takes the id out of <UploadId>…</UploadId>, and encodes it for a query. */
static bool take_upload_id(const struct df_buf *answer, struct df_buf *ret)
{
    const char *begin = answer->ptr ? strstr(answer->ptr, "<UploadId>") : NULL;
    const char *end = begin ? strstr(begin, "</UploadId>") : NULL;
    if (!end)
        return false;

    begin += strlen("<UploadId>");
    df_s3_encode(ret, df_str_n(begin, (size_t)(end - begin)), true);
    return ret->len > 0 && !df_buf_failed(ret);
}

static enum df_code begin_parts(struct df_s3_writer *w, struct df_err *err)
{
    df_s3_request_set(&w->r, "POST", "uploads=", DF_S3_EMPTY_SHA256);
    w->r.mark = w->mark;
    enum df_code code = df_s3_request_perform(&w->r, err);
    if (code == DF_OK && !take_upload_id(&w->r.answer, &w->upload_id)) {
        df_buf_reset(&w->upload_id);
        code = df_err_set(err, DF_E_NET, "%s: no upload id in the answer", w->r.s3->url);
    }
    df_buf_addz(&w->list, "<CompleteMultipartUpload>");
    return code;
}

static enum df_code put_part(struct df_s3_writer *w, struct df_str part, struct df_err *err)
{
    char query[QUERY_MAX], sha256[DF_CHECKSUM_LEN + 1];

    if (w->parts == PARTS_MAX)
        return df_err_set(
            err, DF_E_TOO_LARGE,
            "The file has too many parts for its storage; send its Content-Length, so "
            "that they can be larger.");
    df_checksum_of(part, sha256);
    (void)snprintf(query, sizeof(query), "partNumber=%u&uploadId=%s", ++w->parts, w->upload_id.ptr);
    df_s3_request_set(&w->r, "PUT", query, sha256);
    w->r.body = part;
    enum df_code code = df_s3_request_perform(&w->r, err);
    if (code == DF_OK && !w->r.etag[0])
        code = df_err_set(err, DF_E_NET, "%s: a part has no ETag", w->r.s3->url);
    df_buf_addf(&w->list, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", w->parts,
                w->r.etag);
    return code;
}

/* Whether the object exists and is this one: the answer to the completion may have been lost. */
static bool is_stored(struct df_s3_writer *w)
{
    df_s3_request_set(&w->r, "HEAD", NULL, DF_S3_EMPTY_SHA256);
    return df_s3_request_perform(&w->r, NULL) == DF_OK && strcmp(w->r.stored_mark, w->mark) == 0;
}

static enum df_code join_parts(struct df_s3_writer *w, struct df_err *err)
{
    char query[QUERY_MAX], sha256[DF_CHECKSUM_LEN + 1];

    df_buf_addz(&w->list, "</CompleteMultipartUpload>");
    (void)snprintf(query, sizeof(query), "uploadId=%s", w->upload_id.ptr);
    df_checksum_of(df_buf_str(&w->list), sha256);
    df_s3_request_set(&w->r, "POST", query, sha256);
    w->r.body = df_buf_str(&w->list);
    w->r.slow_seconds = JOIN_SECONDS;
    enum df_code code = df_s3_request_perform(&w->r, err);
    /* S3 sends the status before the work is done; the body tells how it ended. */
    if (code == DF_OK &&
        !(w->r.answer.ptr && strstr(w->r.answer.ptr, "CompleteMultipartUploadResult")))
        code = df_err_set(err, DF_E_NET, "%s: the parts were not put together (" DF_STR_FMT ")",
                          w->r.s3->url, DF_STR_ARG(df_s3_error_name(&w->r)));
    if (code != DF_OK && code != DF_E_CANCELLED && is_stored(w))
        code = DF_OK;
    if (code == DF_OK)
        df_buf_reset(&w->upload_id); /* it is over: there is nothing to abort */
    return code;
}

/* --- the object --- */

enum df_code df_s3_writer_send(struct df_s3_writer *w, struct df_str part, bool last,
                               struct df_err *err)
{
    enum df_code code = DF_OK;

    if (last && w->parts == 0)
        return put_whole(w, part, err);
    if (w->upload_id.len == 0)
        code = begin_parts(w, err);
    if (code == DF_OK)
        code = put_part(w, part, err);
    return code == DF_OK && last ? join_parts(w, err) : code;
}

enum df_code df_s3_abort_upload(struct df_s3 *s, const char *key, const char *upload_id,
                                struct df_err *err)
{
    struct df_s3_request r;
    struct df_buf query;
    enum df_code code = df_s3_request_init(&r, s, key, err);

    df_buf_init(&query, QUERY_MAX);
    df_buf_addf(&query, "uploadId=%s", upload_id);
    if (code == DF_OK) {
        df_s3_request_set(&r, "DELETE", df_buf_str(&query).ptr, DF_S3_EMPTY_SHA256);
        r.last_wish = true;
        code = df_s3_request_perform(&r, err);
        if (r.status == 404)
            code = DF_OK;
    }
    df_buf_release(&query);
    df_s3_request_release(&r);
    return code;
}

/* If this fails too, the sweep removes the parts. */
void df_s3_writer_abort(struct df_s3_writer *w)
{
    if (w->upload_id.len == 0)
        return;
    enum df_code ignored = df_s3_abort_upload(w->r.s3, w->key, w->upload_id.ptr, NULL);
    (void)ignored;
}

void df_s3_writer_free(struct df_s3_writer *w)
{
    if (!w)
        return;
    df_s3_request_release(&w->r);
    df_buf_release(&w->upload_id);
    df_buf_release(&w->list);
    free(w->key);
    free(w);
}

enum df_code df_s3_put(struct df_s3 *s, const char *key, int fd, uint64_t size, struct df_err *err)
{
    struct df_s3_writer *w;
    size_t part_bytes = df_s3_part_bytes(size);
    uint64_t at = 0;
    bool last;
    enum df_code code = df_s3_writer_new(s, key, &w, err);

    if (code != DF_OK)
        return code;
    char *part = df_malloc(size < part_bytes ? (size_t)size + 1 : part_bytes);
    do {
        size_t n = size - at < part_bytes ? (size_t)(size - at) : part_bytes;
        last = at + n == size;
        code = df_local_read(fd, at, part, n, err);
        if (code == DF_OK)
            code = df_s3_writer_send(w, df_str_n(part, n), last, err);
        at += n;
    } while (code == DF_OK && !last);
    if (code != DF_OK)
        df_s3_writer_abort(w);
    df_s3_writer_free(w);
    free(part);
    return code;
}
