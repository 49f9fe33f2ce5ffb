#include "interface/payload_private.h"

#define DOC_ID_WIDTH  100
#define ENTITY_WIDTH  100
#define MESSAGE_WIDTH 2000

static const char *const objects[] = {
    [DF_ACK_TICKET] = "AS400_TICKET",
    [DF_ACK_COUNTERPARTY] = "AS400_COUNTERPARTY",
};
static const char *const operations[] = {
    [DF_ACK_CREATE] = "CREATE",
    [DF_ACK_UPDATE] = "UPDATE",
    [DF_ACK_PROCESS] = "PROCESS",
};
static const char *const statuses[] = {
    [DF_ACK_CREATED] = "201",
    [DF_ACK_DONE] = "200",
    [DF_ACK_INVALID] = "400",
    [DF_ACK_FAILED] = "500",
};

static enum df_ack_object read_object(struct df_input *in, const struct df_place *body,
                                      struct df_str entity)
{
    struct df_place at = df_place_member(in, body, "originalBusinessObject");
    if (!df_place_text(in, &at, SIZE_MAX, DF_TEXT_CODE, DF_OPTIONAL).ptr)
        return df_str_ieq(entity, DF_STR("PRC")) ? DF_ACK_COUNTERPARTY : DF_ACK_TICKET;
    return df_place_word(in, &at, objects, DF_COUNT(objects)) == DF_ACK_COUNTERPARTY
               ? DF_ACK_COUNTERPARTY
               : DF_ACK_TICKET;
}

static void read_short_ack(struct df_input *in, const struct df_place *body, struct df_ack *ret)
{
    struct df_place operation = df_place_member(in, body, "operation");
    struct df_place status = df_place_member(in, body, "status");
    struct df_place message = df_place_member(in, body, "message");
    struct df_str *targets;

    df_doc_id_read(in, body, ENTITY_WIDTH, DF_REQUIRED, &ret->doc);
    int word = df_place_word(in, &operation, operations, DF_COUNT(operations));
    if (word >= 0)
        ret->operation = (enum df_ack_operation)word;
    word = df_place_word(in, &status, statuses, DF_COUNT(statuses));
    if (word >= 0)
        ret->status = (enum df_ack_status)word;
    ret->message = df_place_text(in, &message, MESSAGE_WIDTH, DF_TEXT_FREE, DF_OPTIONAL);
    ret->object = read_object(in, body, ret->doc.business_entity);
    ret->header_count = df_targets_read(in, body, &targets);
}

/* A complete ack is sent as it is. Only its key is needed, for the row, and its entity if there is
 * one, to find the document's owner. */
static void read_whole_ack(struct df_input *in, const struct df_place *ack, struct df_ack *ret)
{
    struct df_place doc = df_place_part(in, ack, "functionalDocID");
    struct df_place id = df_place_member(in, &doc, "businessDocId");
    struct df_place entity = df_place_member(in, &doc, "businessEntity");
    ret->doc.business_doc_id = df_place_text(in, &id, DOC_ID_WIDTH, DF_TEXT_CODE, DF_REQUIRED);
    ret->doc.business_entity = df_place_text(in, &entity, SIZE_MAX, DF_TEXT_CODE, DF_OPTIONAL);
}

void df_ack_read(struct df_input *in, struct df_ack *ret, struct df_str *ret_payload)
{
    struct df_place body, root;

    *ret = (struct df_ack){0};
    *ret_payload = DF_STR_NULL;
    bool whole = df_place_open(in, "functionalAck", &body, &root);
    if (!df_place_is_there(&root))
        return;
    if (!whole) {
        read_short_ack(in, &root, ret);
        return;
    }
    read_whole_ack(in, &root, ret);
    *ret_payload = in->object->raw;
}

static void write_header(struct df_json_out *j, const struct df_ack *ack, struct df_str application)
{
    df_json_open(j, '{');
    df_json_kv_text(j, "ackBusinessApplication", application);
    df_json_kv_text(j, "origMessageID", ack->doc.business_doc_id);
    df_json_kv_text(j, "originalBusinessObject", df_str_c(objects[ack->object]));
    df_json_kv_text(j, "originalBusinessOperation", df_str_c(operations[ack->operation]));
    df_json_kv_text(j, "status", df_str_c(statuses[ack->status]));
    df_json_close(j, '}');
}

void df_ack_build(const struct df_ack *ack, struct df_str ack_business_application,
                  struct df_buf *out)
{
    struct df_json_out j;

    df_json_out_init(&j, out);
    df_json_open(&j, '{');
    df_json_key(&j, "functionalAck");
    df_json_open(&j, '{');
    df_doc_id_write(&j, &ack->doc);
    df_json_key(&j, "header");
    df_json_open(&j, '[');
    for (size_t i = 0; i == 0 || i < ack->header_count; i++)
        write_header(&j, ack, ack_business_application);
    df_json_close(&j, ']');
    df_json_key(&j, "items");
    df_json_open(&j, '[');
    df_json_open(&j, '{');
    df_json_kv_text(&j, "message", ack->message.ptr ? ack->message : DF_STR(""));
    df_json_close(&j, '}');
    df_json_close(&j, ']');
    df_json_close(&j, '}');
    df_json_close(&j, '}');
}
