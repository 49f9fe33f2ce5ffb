/*
 * Lists what lies below the prefix: objects, and uploads in parts that are not over. A page is one
 * request, made once: whoever lists comes again. Only keys that this program makes are told.
 */
#include "files/s3_request.h"

#include "base/mem.h"

#include <libxml/parser.h>
#include <stdio.h>
#include <stdlib.h>

/* An element's text. The memory is the document's if the element holds one piece of text, as all
 * do that count here; else absent. */
static struct df_str text_of(const xmlNode *node)
{
    const xmlNode *text = node->children;

    if (!text || text->next || text->type != XML_TEXT_NODE || !text->content)
        return DF_STR_NULL;
    return df_str_c((const char *)text->content);
}

static bool is_named(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0;
}

static struct df_str child_text(const xmlNode *parent, const char *name)
{
    for (const xmlNode *n = parent->children; n; n = n->next)
        if (is_named(n, name))
            return text_of(n);
    return DF_STR_NULL;
}

/* "{prefix}{batchId}/{name}"; ret->location is where it lies. */
static bool read_key(const struct df_s3 *s, struct df_str key, struct df_storage_found *ret)
{
    struct df_str prefix = df_str_c(s->prefix);

    if (!df_str_starts(key, prefix))
        return false;
    key = df_str_n(key.ptr + prefix.len, key.len - prefix.len);
    if (key.len < DF_UUID_LEN + 2 || key.ptr[DF_UUID_LEN] != '/' ||
        memchr(key.ptr + DF_UUID_LEN + 1, '/', key.len - DF_UUID_LEN - 1) ||
        !df_uuid_parse(df_str_n(key.ptr, DF_UUID_LEN), &ret->batch) ||
        !df_str_starts(key, df_uuid_str(&ret->batch)))
        return false;
    int n =
        snprintf(ret->location, sizeof(ret->location), "%s/" DF_STR_FMT, s->url, DF_STR_ARG(key));
    return n > 0 && (size_t)n < sizeof(ret->location);
}

static bool encode_id(struct df_str id, char *out, size_t size)
{
    struct df_buf b;

    df_buf_init(&b, size - 1);
    df_s3_encode(&b, id, true);
    bool ok = b.len > 0 && !df_buf_failed(&b);
    if (ok)
        memcpy(out, b.ptr, b.len + 1);
    df_buf_release(&b);
    return ok;
}

static void tell_entry(const struct df_s3 *s, const xmlNode *node, bool uploads,
                       void (*seen)(void *arg, const struct df_storage_found *f), void *arg)
{
    struct df_storage_found found = {.size_bytes = 0};
    struct df_str id = child_text(node, "UploadId"), size = child_text(node, "Size");
    int64_t since_ms;

    if (!read_key(s, child_text(node, "Key"), &found) ||
        !df_time_parse(child_text(node, uploads ? "Initiated" : "LastModified"), &since_ms) ||
        (uploads && !encode_id(id, found.upload_id, sizeof(found.upload_id))))
        return;
    found.size_bytes = size.ptr ? strtoull(size.ptr, NULL, 10) : 0;
    found.age_ms = df_wall_ms(s->clock) - since_ms;
    seen(arg, &found);
}

static bool copy_marker(struct df_str from, char *to, size_t size)
{
    if (from.len >= size)
        return false;
    (void)snprintf(to, size, DF_STR_FMT, DF_STR_ARG(from));
    return true;
}

/* Where the next page begins. False: the answer does not tell. */
static bool advance_cursor(struct df_storage_cursor *at, const xmlNode *root)
{
    bool more = df_str_eq(child_text(root, "IsTruncated"), DF_STR("true"));
    struct df_str next = child_text(root, at->stage == DF_STORAGE_OBJECTS ? "NextContinuationToken"
                                                                          : "NextKeyMarker");

    if (!more) {
        *at = (struct df_storage_cursor){
            .stage = at->stage == DF_STORAGE_OBJECTS ? DF_STORAGE_UPLOADS : DF_STORAGE_LISTED};
        return true;
    }
    return next.len > 0 && copy_marker(next, at->marker, sizeof(at->marker)) &&
           copy_marker(child_text(root, "NextUploadIdMarker"), at->id_marker,
                       sizeof(at->id_marker));
}

static void add_parameter(struct df_buf *query, const char *name, const char *value)
{
    if (!*value)
        return;
    df_buf_addf(query, "%s%s=", query->len > 0 ? "&" : "", name);
    df_s3_encode(query, df_str_c(value), true);
}

/* The parameters are in the order in which they are signed. */
static void make_query(const struct df_s3 *s, const struct df_storage_cursor *at,
                       struct df_buf *query)
{
    char most[16];

    (void)snprintf(most, sizeof(most), "%d", DF_STORAGE_PAGE);
    if (at->stage == DF_STORAGE_OBJECTS) {
        add_parameter(query, "continuation-token", at->marker);
        add_parameter(query, "list-type", "2");
        add_parameter(query, "max-keys", most);
        add_parameter(query, "prefix", s->prefix);
        return;
    }
    add_parameter(query, "key-marker", at->marker);
    add_parameter(query, "max-uploads", most);
    add_parameter(query, "prefix", s->prefix);
    add_parameter(query, "upload-id-marker", at->id_marker);
    df_buf_addz(query, "&uploads=");
}

/* No storage sends a document type; entities of one could be many times longer than the answer. */
static enum df_code read_page(const struct df_s3_request *r, struct df_storage_cursor *at,
                              void (*seen)(void *arg, const struct df_storage_found *f), void *arg,
                              struct df_err *err)
{
    bool uploads = at->stage == DF_STORAGE_UPLOADS;
    xmlDoc *doc = r->answer.len > 0 ? xmlReadMemory(r->answer.ptr, (int)r->answer.len, NULL, NULL,
                                                    XML_PARSE_NONET | XML_PARSE_NOERROR |
                                                        XML_PARSE_NOWARNING | XML_PARSE_NOCDATA)
                                    : NULL;
    const xmlNode *root = doc && !doc->intSubset ? xmlDocGetRootElement(doc) : NULL;
    bool ok = root && is_named(root, uploads ? "ListMultipartUploadsResult" : "ListBucketResult");

    for (const xmlNode *n = ok ? root->children : NULL; n; n = n->next)
        if (is_named(n, uploads ? "Upload" : "Contents"))
            tell_entry(r->s3, n, uploads, seen, arg);
    ok = ok && advance_cursor(at, root);
    xmlFreeDoc(doc);
    return ok ? DF_OK : df_err_set(err, DF_E_NET, "%s: the listing is not readable", r->s3->url);
}

enum df_code df_s3_list(struct df_s3 *s, struct df_storage_cursor *at,
                        void (*seen)(void *arg, const struct df_storage_found *f), void *arg,
                        struct df_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct df_s3_request r;
    struct df_buf query;
    enum df_code code = df_s3_request_init(&r, s, NULL, err);

    (void)pthread_once(&once, xmlInitParser);
    df_buf_init(&query, 8 * sizeof(*at));
    make_query(s, at, &query);
    if (code == DF_OK) {
        df_s3_request_set(&r, "GET", df_buf_str(&query).ptr, DF_S3_EMPTY_SHA256);
        r.once = true;
        code = df_s3_request_perform(&r, err);
    }
    if (code == DF_OK)
        code = read_page(&r, at, seen, arg, err);
    df_buf_release(&query);
    df_s3_request_release(&r);
    return code;
}
