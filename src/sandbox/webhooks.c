/*
 * A receiver of webhooks: POST /webhooks/…. If a secret is known for the path, every signature that
 * the request carries must verify (delivery/verify.h), and one of them must be in a header: the
 * body's own signature does not say when it was sent.
 */
#include "sandbox/internal.h"

const char *df_sb_verify(struct df_str secret, const struct df_signed *m, int64_t now_s,
                         int64_t tolerance_s)
{
    struct df_verify_result v[DF_VERIFY_KINDS];

    df_verify(secret, m, now_s, tolerance_s, v);
    for (int i = 0; i < DF_VERIFY_KINDS; i++)
        if (v[i].why)
            return v[i].why;
    if (v[DF_VERIFY_OWN].present || v[DF_VERIFY_STANDARD].present)
        return NULL;
    return v[DF_VERIFY_BODY].present ? "only the body is signed: X-DataFlow-Signature is missing"
                                     : "there is no signature";
}

void df_sb_webhook(struct df_sandbox *s, struct df_req *req, struct df_sb_reply *reply)
{
    char secret[DF_SB_SECRET_LEN];
    size_t len = df_sb_config_secret(&s->config, df_req_path(req), secret);

    reply->fixed = DF_STR("{\"status\":\"Received\"}");
    if (len == 0)
        return;
    const struct df_signed m = {
        .body = df_req_body(req),
        .timestamp = df_req_header(req, "X-DataFlow-Timestamp"),
        .signature = df_req_header(req, "X-DataFlow-Signature"),
        .webhook_id = df_req_header(req, "webhook-id"),
        .webhook_timestamp = df_req_header(req, "webhook-timestamp"),
        .webhook_signature = df_req_header(req, "webhook-signature"),
    };
    struct df_sb_settings settings = df_sb_config_settings(&s->config);
    const char *why = df_sb_verify(df_str_n(secret, len), &m, df_wall_ms(s->clock) / 1000,
                                   settings.webhook_tolerance_s);
    df_wipe(secret, sizeof(secret));
    reply->verified = why ? DF_SB_REJECTED : DF_SB_VERIFIED;
    if (why) {
        reply->status = 401;
        df_req_fail(req, DF_E_UNAUTHORIZED, "%s", why);
    }
}
