/*
 * Any JSON as each document of the interface. What is accepted obeys the widths of its columns and
 * the rules of codes; what is built from it parses again and says the same.
 */
#include "interface/payload.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            abort();                                                                               \
    } while (0)

static void check_text(struct df_str s, size_t width)
{
    CHECK(!s.ptr || (s.len > 0 && df_utf8_count(s) <= width));
}

static void check_code(struct df_str s, size_t width)
{
    check_text(s, width);
    CHECK(df_str_trim(s).len == s.len);
    for (size_t i = 0; i < s.len; i++)
        CHECK((unsigned char)s.ptr[i] >= 0x20);
}

static void check_required(struct df_str s, size_t width)
{
    CHECK(s.ptr);
    check_code(s, width);
}

static void check_doc(const struct df_doc_id *d, size_t entity_width)
{
    check_required(d->business_doc_id, 100);
    check_code(d->business_entity, entity_width);
    check_code(d->business_app_id, 20);
    check_code(d->original_business_doc_id, 100);
    check_code(d->user_id, 100);
}

/* Refused: every error has words. */
static bool accepted(const struct df_input *in)
{
    for (size_t i = 0; i < in->error_count; i++)
        CHECK(in->errors[i].message.len > 0);
    CHECK((df_payload_problems(in).ptr == NULL) == (in->error_count == 0));
    return in->error_count == 0;
}

static void try_counterparty(struct df_input *in)
{
    struct df_counterparty c;

    df_counterparty_read(in, &c);
    CHECK(c.address_count <= DF_PAYLOAD_ENTRIES_MAX && c.fiscal_count <= DF_PAYLOAD_ENTRIES_MAX);
    if (!accepted(in))
        return;
    check_doc(&c.doc, 20);
    check_code(c.counterparty_id, 50);
    check_code(c.entity_type, 10);
    check_text(c.name, 200);
    check_text(c.local_name, 200);
    check_text(c.search_name, 200);
    check_code(c.reference_code, 50);
    check_code(c.source, 20);
    for (size_t i = 0; i < c.address_count; i++) {
        const struct df_address *a = &c.addresses[i];
        check_code(a->address_type_code, 10);
        check_text(a->address_type_name, 50);
        check_code(a->phone, 30);
        check_code(a->fax, 30);
        check_text(a->addr_line1, 200);
        check_text(a->addr_line2, 200);
        check_code(a->city_code, 30);
        check_code(a->zip_code, 20);
        check_code(a->state, 10);
        check_text(a->district, 100);
    }
    for (size_t i = 0; i < c.fiscal_count; i++) {
        check_code(c.fiscal_references[i].fiscal_reference_type_code, 10);
        check_text(c.fiscal_references[i].fiscal_reference_type_name, 50);
        check_code(c.fiscal_references[i].fiscal_number, 30);
    }
}

static const struct df_json *parse_again(struct df_arena *arena, struct df_buf *b)
{
    const struct df_json *doc = NULL;

    CHECK(!df_buf_failed(b));
    CHECK(df_json_parse(arena, df_arena_str(arena, df_buf_str(b)), &doc, NULL) == DF_OK);
    df_buf_release(b);
    return doc;
}

static void check_same_id(const struct df_json *document, struct df_str want)
{
    const struct df_json *id =
        df_json_get(df_json_get(document, "functionalDocID"), "businessDocID");
    CHECK(id && df_str_eq(id->text, want));
}

static void check_ack(struct df_arena *arena, const struct df_ack *ack)
{
    struct df_buf b;

    df_buf_init(&b, (size_t)16 << 20);
    df_ack_build(ack, DF_STR("CRN"), &b);
    const struct df_json *whole = parse_again(arena, &b);
    const struct df_json *inner = df_json_get(whole, "functionalAck");
    check_same_id(inner, ack->doc.business_doc_id);
    size_t headers = ack->header_count ? ack->header_count : 1;
    CHECK(df_json_count(df_json_get(inner, "header")) == headers);

    /* What we build, we also take. */
    struct df_input in;
    struct df_ack back;
    struct df_str payload;
    df_input_init(&in, arena, whole);
    df_ack_read(&in, &back, &payload);
    CHECK(accepted(&in) && df_str_eq(payload, whole->raw));
    CHECK(df_str_eq(back.doc.business_doc_id, ack->doc.business_doc_id));
}

static void try_ticket(struct df_input *in, const struct df_json *doc)
{
    struct df_ticket t, checked;
    struct df_buf b;

    df_ticket_read(in, &t);
    size_t errors = in->error_count;
    bool good = accepted(in);
    if (good) {
        check_doc(&t.doc, 100);
        check_required(t.doc.business_entity, 100);
        check_required(t.company_code, 20);
        check_required(t.branch_code, 20);
        check_required(t.destination_code, 20);
        check_required(t.shipment_event, 20);
        CHECK(t.phase_code == DF_PHASE_BASIC || t.phase_code == DF_PHASE_WEIGHTS);
        CHECK(t.target_count >= 1 && t.target_count <= DF_PAYLOAD_ENTRIES_MAX);
        for (size_t i = 0; i < t.target_count; i++)
            check_required(t.targets[i], 20);
        df_buf_init(&b, (size_t)1 << 20);
        df_ticket_return_build(&t, 0, &b);
        check_same_id(df_json_get(parse_again(in->arena, &b), "ticketResult"),
                      t.doc.business_doc_id);
        const struct df_ack ack = {.doc = t.doc, .header_count = t.target_count};
        check_ack(in->arena, &ack);
    }
    /* Processing asks for all that the intake asks for; of the basic phase no more. */
    df_input_init(in, in->arena, doc);
    df_ticket_check(in, &checked);
    CHECK(in->error_count >= errors);
    CHECK(!good || t.phase_code == DF_PHASE_WEIGHTS || in->error_count == 0);
}

static void try_callback(struct df_input *in)
{
    struct df_callback c;

    df_callback_read(in, &c);
    if (!accepted(in))
        return;
    check_required(c.business_entity, 100);
    check_required(c.business_doc_id, 100);
    check_required(c.state, 20);
    check_code(c.code, 50);
    check_text(c.message, DF_CALLBACK_MESSAGE_MAX);
}

static void try_ack(struct df_input *in)
{
    struct df_ack ack;
    struct df_str payload;

    df_ack_read(in, &ack, &payload);
    if (!accepted(in))
        return;
    check_doc(&ack.doc, 100);
    if (payload.ptr)
        CHECK(df_str_eq(payload, in->object->raw));
    else
        check_ack(in->arena, &ack);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_arena arena = {0};
    struct df_input in;
    const struct df_json *doc;

    if (df_json_parse(&arena, df_str_n(size ? (const char *)data : "", size), &doc, NULL) ==
        DF_OK) {
        df_input_init(&in, &arena, doc);
        try_counterparty(&in);
        df_input_init(&in, &arena, doc);
        try_ticket(&in, doc);
        df_input_init(&in, &arena, doc);
        try_callback(&in);
        df_input_init(&in, &arena, doc);
        try_ack(&in);
    }
    df_arena_release(&arena);
    return 0;
}
