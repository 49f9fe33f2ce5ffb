#include "interface/payload_private.h"

#include "base/clock.h"

#define KEY_WIDTH  100
#define CODE_WIDTH 50

static void read_status(struct df_input *in, const struct df_place *body, struct df_callback *ret)
{
    static const char *const words[] = {"Success", "Error", "Warning"};
    static const char *const states[] = {"Success", "Error", "Received"};
    struct df_place at = df_place_member(in, body, "status");
    int i = df_place_word(in, &at, words, DF_COUNT(words));
    if (i >= 0)
        ret->state = df_str_c(states[i]);
}

static void read_time(struct df_input *in, const struct df_place *body, struct df_callback *ret)
{
    struct df_place at = df_place_member(in, body, "processedAt");
    struct df_str s = df_place_text(in, &at, 40, DF_TEXT_CODE, DF_OPTIONAL);
    if (s.ptr && !df_time_parse(s, &ret->processed_at))
        df_place_error(in, &at, "must be a time such as 2026-11-15T03:16:05.123Z");
}

void df_callback_read(struct df_input *in, struct df_callback *ret)
{
    static const struct df_text_field fields[] = {
        DF_CODE_REQUIRED(struct df_callback, business_entity, "businessEntity", KEY_WIDTH),
        DF_CODE_REQUIRED(struct df_callback, business_doc_id, "businessDocId", KEY_WIDTH),
        DF_CODE(struct df_callback, code, "code", CODE_WIDTH),
        DF_FREE_TEXT(struct df_callback, message, "message", SIZE_MAX),
    };
    struct df_place body = {.index = DF_NO_INDEX,
                            .value = in->object ? *in->object : (struct df_json){0}};

    *ret = (struct df_callback){.processed_at = -1};
    df_place_texts(in, &body, fields, DF_COUNT(fields), ret);
    struct df_place phase = df_place_member(in, &body, "phaseCode");
    (void)df_place_int(in, &phase, &ret->phase_code);
    read_status(in, &body, ret);
    read_time(in, &body, ret);
    /* A long message is cut, like LastError, and not a reason to refuse the callback. */
    ret->message = df_utf8_cut(ret->message, DF_CALLBACK_MESSAGE_MAX);
}
