/*
 * A payment gateway: POST creates an object and answers 201 with its id, which is the same for the
 * same Idempotency-Key; every other request is answered with 200.
 */
#include "sandbox/internal.h"

#include <sodium.h>
#include <stdio.h>

/* The id is the key's hash, so the same key gets the same id and nothing is stored. */
static void make_id(struct df_sandbox *s, struct df_str path, struct df_str key, char out[32])
{
    static const unsigned char start[crypto_shorthash_siphashx24_KEYBYTES] = "dataflow-pay-id";
    unsigned char by_path[crypto_shorthash_siphashx24_BYTES];
    unsigned char h[crypto_shorthash_siphashx24_BYTES];

    if (key.len > 0) {
        (void)crypto_shorthash_siphashx24(by_path, (const unsigned char *)path.ptr, path.len,
                                          start);
        (void)crypto_shorthash_siphashx24(h, (const unsigned char *)key.ptr, key.len, by_path);
    } else {
        df_random(s->clock, h, sizeof(h));
    }
    (void)snprintf(out, 32, "pay_%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x", h[0], h[1], h[2], h[3],
                   h[4], h[5], h[6], h[7], h[8], h[9]);
}

static struct df_str last_segment(struct df_str path)
{
    const char *slash = path.len ? memrchr(path.ptr, '/', path.len) : NULL;
    if (!slash)
        return path;
    return df_str_n(slash + 1, path.len - (size_t)(slash + 1 - path.ptr));
}

void df_sb_payment(struct df_sandbox *s, struct df_req *req, struct df_sb_reply *reply)
{
    struct df_str path = df_req_path(req);
    struct df_str id = last_segment(path);
    struct df_json_out out;
    char made[32];

    if (df_str_eq(df_req_method(req), DF_STR("POST"))) {
        make_id(s, path, df_req_header(req, "Idempotency-Key"), made);
        id = df_str_c(made);
        reply->status = 201;
        reply->replays = true;
    }
    df_buf_init(&reply->body, 64 << 10);
    df_json_out_init(&out, &reply->body);
    df_json_open(&out, '{');
    df_json_kv_text(&out, "id", id);
    df_json_kv_text(&out, "status", DF_STR("approved"));
    df_json_close(&out, '}');
}
