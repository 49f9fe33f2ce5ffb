#include "interface/settings.h"

#include "net/settings.h"

#define TARGET_URL_MAX 500 /* the column TargetUrl of acks and returns */

#define S              struct df_interface_settings

/* clang-format off */
const struct df_config_key df_gateway_keys[] = {
    DF_KEY_OPTIONAL("functional_ack_url", S, functional_ack_url, "Where functional acks are sent."),
    DF_KEY_OPTIONAL("ticket_return_url", S, ticket_return_url, "Where ticket returns are sent."),
    DF_KEY_OPTIONAL("ticket_send_url", S, ticket_send_url, "Where tickets are sent."),
    DF_KEY_SECRET("api_key", S, api_key, "The gateway's key; required if one of the URLs is set."),
    DF_KEY_STRING("api_key_header", S, api_key_header, "x-Gateway-APIKey", "Header that carries the key."),
    DF_KEY_STRING("ack_business_application", S, ack_business_application, "CRN", "ackBusinessApplication of functional acks."),
    {.key = NULL},
};
/* clang-format on */

/* The URL of an ack or a return is stored with its row. */
static void check_gateway_url(const char *name, const char *url, struct df_buf *complaints)
{
    df_net_check_url("gateway", name, df_str_c(url), complaints);
    if (url && strlen(url) > TARGET_URL_MAX)
        df_buf_addf(complaints, "[gateway] %s: must have at most %d bytes\n", name, TARGET_URL_MAX);
}

void df_interface_check_settings(const struct df_interface_settings *s, struct df_buf *complaints)
{
    if ((s->functional_ack_url || s->ticket_return_url || s->ticket_send_url) && !s->api_key)
        df_buf_addz(complaints,
                    "[gateway] api_key (or api_key_file) is needed when a gateway URL is set\n");
    check_gateway_url("functional_ack_url", s->functional_ack_url, complaints);
    check_gateway_url("ticket_return_url", s->ticket_return_url, complaints);
    check_gateway_url("ticket_send_url", s->ticket_send_url, complaints);
    df_net_check_header("gateway", s->api_key_header, complaints);
}
