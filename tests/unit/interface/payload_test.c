/* Documents of the interface: both shapes, what senders really write, and every bad field named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../store/schema_expected.h"
#include "interface/payload.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct df_arena arena;
static struct df_input in;

static const struct df_json *parsed(struct df_str text)
{
    const struct df_json *doc = NULL;
    struct df_err err = DF_ERR_INIT;

    if (df_json_parse(&arena, text, &doc, &err) != DF_OK)
        fail_msg(DF_STR_FMT ": %s", DF_STR_ARG(text), err.detail);
    return doc;
}

static void open_input(const char *text)
{
    df_input_init(&in, &arena, parsed(df_str_c(text)));
}

static int release(void **state)
{
    (void)state;
    df_arena_release(&arena);
    return 0;
}

static void assert_str(struct df_str got, const char *want)
{
    if (!df_str_eq(got, df_str_c(want)) || !got.ptr != !want)
        fail_msg("\"" DF_STR_FMT "\" instead of \"%s\"", DF_STR_ARG(got), want ? want : "(absent)");
}

static void assert_good(void)
{
    if (in.error_count)
        fail_msg(DF_STR_FMT, DF_STR_ARG(df_payload_problems(&in)));
}

static void read_counterparty(void)
{
    struct df_counterparty c;
    df_counterparty_read(&in, &c);
}

static void read_ticket(void)
{
    struct df_ticket t;
    df_ticket_read(&in, &t);
}

static void check_ticket(void)
{
    struct df_ticket t;
    df_ticket_check(&in, &t);
}

static void read_callback(void)
{
    struct df_callback c;
    df_callback_read(&in, &c);
}

static void read_ack(void)
{
    struct df_ack a;
    struct df_str payload;
    df_ack_read(&in, &a, &payload);
}

/* --- counterparties --------------------------------------------------------------------------- */

#define ENVELOPE                                                                                   \
    "{\"counterparty\":{\"functionalDocID\":{\"businessAppID\":\"ASB\",\"businessEntity\":\"PRC\"" \
    ",\"businessDocID\":\"CP_0001\",\"originalBusinessDocID\":\"CP_0001\",\"userID\":\"\"},"       \
    "\"functionalAckIsRequired\":\"true\",\"data\":{\"counterpartyID\":\"0050-1\","                \
    "\"name\":\"A\xC3\xA7o & Cia \xF0\x9F\x91\x8D\",\"localName\":\" Local \",\"searchName\":"     \
    "\"ACO\",\"source\":\"\",\"entityType\":\"CLI\",\"referenceCode\":74,\"isDeleted\":\"false\"," \
    "\"addressList\":{\"address\":[{\"addressType\":{\"code\":\"1\",\"name\":\"PRINCIPAL\"},"      \
    "\"phone\":\"\",\"fax\":\"\",\"addrLine1\":\"Rua S\xC3\xA3o Jo\xC3\xA3o, 1\",\"addrLine2\":"   \
    "\"x\",\"addrLine3City\":\"4315701\",\"zipCode\":\"96400-000 \",\"state\":\"RS\","             \
    "\"stateLocalName\":\"Centro\",\"isMainAddress\":\"true\",\"isDeleted\":\"false\"},"           \
    "{\"addressType\":\"\",\"zipCode\":1,\"isMainAddress\":0}]},"                                  \
    "\"fiscalReferenceList\":{\"fiscalReferences\":[{\"fiscalReferenceType\":{\"code\":\"BR1\","   \
    "\"name\":\"CNPJ/CPF\"},\"fiscalNumber\":\"12345678000190\"}]}}}}"

#define FLAT                                                                                       \
    "{\"BUSINESSDOCID\":\" CP_0001\",\"businessAppId\":\"ASB\",\"businessEntity\":\"PRC\","        \
    "\"originalBusinessDocId\":\"CP_0001\",\"functionalAckIsRequired\":true,\"extra\":{\"a\":[1]"  \
    "},\"counterpartyId\":\"0050-1\",\"name\":\"A\\u00e7o & Cia \\ud83d\\udc4d\","                 \
    "\"LocalName\":\" Local \",\"searchName\":\"ACO\",\"source\":null,\"entityType\":\"CLI\","     \
    "\"referenceCode\":\"74\",\"isDeleted\":0,\"addresses\":[{\"addressTypeCode\":1,"              \
    "\"addressTypeName\":\"PRINCIPAL\",\"addrLine1\":\"Rua S\xC3\xA3o Jo\xC3\xA3o, 1\","           \
    "\"addrLine2\":\"x\",\"cityCode\":\"4315701\",\"zipCode\":\"96400-000\",\"state\":\"RS\","     \
    "\"district\":\"Centro\",\"isMainAddress\":\"1\"},null,{\"zipCode\":\"1\"}],"                  \
    "\"fiscalReferences\":{\"fiscalReferenceTypeCode\":\"BR1\",\"fiscalReferenceTypeName\":"       \
    "\"CNPJ/CPF\",\"fiscalNumber\":12345678000190}}"

static void an_envelope_is_read_whole(void **state)
{
    struct df_counterparty c;

    (void)state;
    open_input(ENVELOPE);
    df_counterparty_read(&in, &c);
    assert_good();
    assert_str(c.doc.business_app_id, "ASB");
    assert_str(c.doc.business_entity, "PRC");
    assert_str(c.doc.business_doc_id, "CP_0001");
    assert_str(c.doc.original_business_doc_id, "CP_0001");
    assert_str(c.doc.user_id, NULL);
    assert_str(c.counterparty_id, "0050-1");
    assert_str(c.name, "A\xC3\xA7o & Cia \xF0\x9F\x91\x8D");
    assert_str(c.local_name, " Local ");
    assert_str(c.source, NULL);
    assert_str(c.reference_code, "74");
    assert_true(c.ack_required);
    assert_false(c.is_deleted);
    assert_int_equal(c.address_count, 2);
    assert_str(c.addresses[0].address_type_code, "1");
    assert_str(c.addresses[0].address_type_name, "PRINCIPAL");
    assert_str(c.addresses[0].phone, NULL);
    assert_str(c.addresses[0].city_code, "4315701");
    assert_str(c.addresses[0].zip_code, "96400-000");
    assert_str(c.addresses[0].district, "Centro");
    assert_true(c.addresses[0].is_main_address);
    assert_str(c.addresses[1].zip_code, "1");
    assert_false(c.addresses[1].is_main_address);
    assert_int_equal(c.fiscal_count, 1);
    assert_str(c.fiscal_references[0].fiscal_reference_type_code, "BR1");
    assert_str(c.fiscal_references[0].fiscal_number, "12345678000190");
}

/* Structs of slices and booleans alone: compared slice by slice. */
static void assert_same_texts(const void *a, const void *b, size_t count)
{
    const struct df_str *x = a, *y = b;
    for (size_t i = 0; i < count; i++)
        if (!df_str_eq(x[i], y[i]) || !x[i].ptr != !y[i].ptr)
            fail_msg("text %zu: \"" DF_STR_FMT "\" and \"" DF_STR_FMT "\"", i, DF_STR_ARG(x[i]),
                     DF_STR_ARG(y[i]));
}

static void both_shapes_of_a_counterparty_give_the_same(void **state)
{
    struct df_counterparty a, b;

    (void)state;
    open_input(ENVELOPE);
    df_counterparty_read(&in, &a);
    assert_good();
    open_input(FLAT);
    df_counterparty_read(&in, &b);
    assert_good();
    assert_same_texts(&a, &b, offsetof(struct df_counterparty, is_deleted) / sizeof(struct df_str));
    assert_int_equal(a.is_deleted, b.is_deleted);
    assert_int_equal(a.ack_required, b.ack_required);
    assert_int_equal(a.address_count, b.address_count);
    for (size_t i = 0; i < a.address_count; i++) {
        assert_same_texts(&a.addresses[i], &b.addresses[i],
                          offsetof(struct df_address, is_main_address) / sizeof(struct df_str));
        assert_int_equal(a.addresses[i].is_main_address, b.addresses[i].is_main_address);
        assert_int_equal(a.addresses[i].is_deleted, b.addresses[i].is_deleted);
    }
    assert_int_equal(a.fiscal_count, b.fiscal_count);
    assert_same_texts(a.fiscal_references, b.fiscal_references, 3);
}

static void lists_are_taken_in_every_form_converters_write(void **state)
{
    static const struct {
        const char *list;
        size_t count;
    } table[] = {
        {"{\"address\":[{\"state\":\"RS\"},{\"state\":\"SP\"}]}", 2},
        {"{\"address\":{\"state\":\"RS\"}}", 1},
        {"{\"address\":{\"state\":\"RS\"},\"other\":{\"state\":\"SP\"}}", 1},
        {"[{\"state\":\"RS\"}]", 1},
        {"{\"Address\":[{},{}]}", 2},
        {"{\"address\":[\"\",null,{}]}", 1},
        {"{\"address\":\"\"}", 0},
        {"{\"address\":[]}", 0},
        {"{\"address\":null,\"other\":{\"state\":\"RS\"}}", 0},
        {"{}", 0},
        {"\" \"", 0},
        {"null", 0},
    };
    struct df_counterparty c;

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        open_input(df_arena_printf(&arena,
                                   "{\"counterparty\":{\"functionalDocID\":{\"businessDocID\":1},"
                                   "\"data\":{\"addressList\":%s,\"name\":\"after\"}}}",
                                   table[i].list)
                       .ptr);
        df_counterparty_read(&in, &c);
        assert_good();
        if (c.address_count != table[i].count)
            fail_msg("%s: %zu", table[i].list, c.address_count);
    }
}

/* --- bad ones --------------------------------------------------------------------------------- */

struct bad {
    void (*read)(void);
    const char *json;
    const char *problems;
};

#define T_HEAD                                                                                     \
    "\"companyCode\":\"1\",\"branchCode\":\"2\",\"destinationCode\":\"3\",\"shipmentEvent\":"      \
    "\"RCD\",\"targetApplicationCode\":\"ASB\""
#define T_FLAT(phase)                                                                              \
    "\"businessEntity\":\"TCK\",\"businessDocId\":\"T1\",\"phaseCode\":" phase "," T_HEAD
#define CB  "\"businessEntity\":\"TCK\",\"businessDocId\":\"T1\",\"phaseCode\":15"
#define ACK "\"businessEntity\":\"TCK\",\"businessDocId\":\"T1\",\"operation\":\"PROCESS\""

static const struct bad bad_bodies[] = {
    {read_counterparty, "[]", "the body must be one JSON object"},
    {read_counterparty, "{}", "businessDocId: is required"},
    {read_counterparty, "{\"counterparty\":[{},{}]}",
     "counterparty: must be one object: send one document a call"},
    {read_counterparty, "{\"Counterparty\":{}}",
     "Counterparty.functionalDocID.businessDocId: is required"},
    {read_counterparty, "{\"businessDocId\":\" \",\"name\":[],\"isDeleted\":\"maybe\"}",
     "businessDocId: must not be empty; name: must be text; isDeleted: must be true or false"},
    {read_counterparty,
     "{\"businessDocID\":\"A\",\"BusinessDocId\":\"B\",\"name\":null,\"NAME\":\"x\"}",
     "businessDocID: stands twice, in two spellings; name: stands twice, in two spellings"},
    {read_ticket, "{" T_FLAT("15") ",\"data\":{},\"SHIPMENTTICKET\":{},\"shipmentTicket\":null}",
     "shipmentTicket: stands twice, in two spellings"},
    {read_counterparty, "{\"businessDocId\":\"a\\nb\"}",
     "businessDocId: must not have control characters"},
    {read_counterparty,
     "{\"businessDocId\":1,\"addresses\":[{},7,{\"ZIPCODE\":{},\"state\":"
     "\"12345678901\"}]}",
     "addresses[1]: must be an object; addresses[2].ZIPCODE: must be text; addresses[2].state: has "
     "11 characters, at most 10 are allowed"},
    {read_counterparty,
     "{\"counterparty\":{\"functionalDocID\":{\"businessDocID\":1},\"data\":{\"addressList\":{"
     "\"address\":[{\"zipCode\":\"123456789012345678901\",\"addressType\":\"x\"}]},"
     "\"fiscalReferenceList\":{\"fiscalReferences\":{\"fiscalReferenceType\":{\"code\":true}}}}}}",
     "counterparty.data.addressList.address[0].zipCode: has 21 characters, at most 20 are allowed; "
     "counterparty.data.addressList.address[0].addressType: must be an object; "
     "counterparty.data.fiscalReferenceList.fiscalReferences.fiscalReferenceType.code: must be "
     "text"},
    /* An emoji counts twice: 6 of them are 12 units. */
    {read_counterparty,
     "{\"businessDocId\":1,\"entityType\":"
     "\"\\ud83d\\udc4d\\ud83d\\udc4d\\ud83d\\udc4d\\ud83d\\udc4d"
     "\\ud83d\\udc4d\\ud83d\\udc4d\"}",
     "entityType: has 12 characters, at most 10 are allowed"},
    {read_ticket, "{\"shipmentTicket\":{\"header\":{\"phaseCode\":\"\"}}}",
     "shipmentTicket.functionalDocID.businessEntity: is required; "
     "shipmentTicket.functionalDocID.businessDocId: is required; "
     "shipmentTicket.header.companyCode: is required; "
     "shipmentTicket.header.branchCode: is required; "
     "shipmentTicket.header.destinationCode: is required; "
     "shipmentTicket.header.shipmentEvent: is required; "
     "shipmentTicket.header.phaseCode: must not be empty; "
     "shipmentTicket.header.targetApplications: is required"},
    {read_ticket, "{" T_FLAT("7") "}", "phaseCode: must be 15 or 6"},
    {read_ticket, "{" T_FLAT("15.5") "}", "phaseCode: must be a whole number"},
    {read_ticket, "{" T_FLAT("99999999999") "}", "phaseCode: must be a whole number"},
    {read_ticket, "{" T_FLAT("15") ",\"targetApplications\":{\"targetApplication\":[{},\"B\"]}}",
     "targetApplications.targetApplication[0].applicationCode: is required"},
    {check_ticket, "{" T_FLAT("6") "}", "weights: is required"},
    {check_ticket, "{" T_FLAT("6") ",\"weights\":{\"unit\":\"KG\"}}",
     "weights: must have gross, tare or net"},
    {check_ticket, "{" T_FLAT("6") ",\"weights\":[1]}", "weights: must be an object"},
    {check_ticket,
     "{" T_FLAT("6") ",\"data\":{\"weights\":{\"gross\":-1,\"tare\":\"1,5\",\"net\":"
                     "1e30}}}",
     "data.weights.gross: must not be negative; data.weights.tare: must be a number; "
     "data.weights.net: must have at most 18 digits before and after the point"},
    {check_ticket, "{" T_FLAT("6") ",\"weights\":{\"gross\":10,\"tare\":3,\"net\":8}}",
     "weights.net: must be gross - tare"},
    {read_callback, "{}",
     "businessEntity: is required; businessDocId: is required; phaseCode: is required; status: is "
     "required"},
    {read_callback, "{" CB ",\"status\":\"Done\",\"processedAt\":\"yesterday\"}",
     "status: must be Success, Error or Warning; processedAt: must be a time such as "
     "2026-11-15T03:16:05.123Z"},
    {read_callback, "{" CB ",\"status\":{},\"code\":false}",
     "code: must be text; status: must be Success, Error or Warning"},
    {read_ack, "{}",
     "businessEntity: is required; businessDocId: is required; operation: is required; status: is "
     "required"},
    {read_ack, "{" ACK ",\"status\":204,\"originalBusinessObject\":\"TICKET\"}",
     "status: must be 201, 200, 400 or 500; originalBusinessObject: must be AS400_TICKET or "
     "AS400_COUNTERPARTY"},
    {read_ack, "{\"functionalAck\":{}}",
     "functionalAck.functionalDocID.businessDocId: is required"},
    {read_ack, "{\"functionalAck\":\"x\"}",
     "functionalAck: must be one object: send one document a call"},
};

static void every_bad_field_is_named_by_its_path(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_bodies); i++) {
        open_input(bad_bodies[i].json);
        bad_bodies[i].read();
        struct df_str got = df_payload_problems(&in);
        if (!df_str_eq(got, df_str_c(bad_bodies[i].problems)))
            fail_msg("%s\n got " DF_STR_FMT "\nwant %s", bad_bodies[i].json, DF_STR_ARG(got),
                     bad_bodies[i].problems);
    }
}

static void a_list_has_a_limit(void **state)
{
    struct df_counterparty c;
    struct df_buf b;

    (void)state;
    for (size_t extra = 0; extra < 2; extra++) {
        df_buf_init(&b, 1 << 20);
        df_buf_addz(&b, "{\"businessDocId\":1,\"addresses\":[{}");
        for (size_t i = 1; i < DF_PAYLOAD_ENTRIES_MAX + extra; i++)
            df_buf_addz(&b, ",{}");
        df_buf_addz(&b, "]}");
        open_input(df_arena_cstr(&arena, df_buf_str(&b)));
        df_buf_release(&b);
        df_counterparty_read(&in, &c);
        assert_int_equal(in.error_count, extra);
        assert_int_equal(c.address_count, extra ? 0 : DF_PAYLOAD_ENTRIES_MAX);
    }
    assert_str(in.errors[0].field, "addresses");
}

/* --- widths ----------------------------------------------------------------------------------- */

/* Members of the flat shape, by table; what else a table has is not the sender's to say. */
static const struct {
    const char *table;
    const char *before;
    const char *after;
    void (*read)(void);
} homes[] = {
    {"TB_COUNTERPARTIES", "{\"x\":0", "}", read_counterparty},
    {"TB_COUNTERPARTY_ADDRESSES", "{\"businessDocId\":1,\"addresses\":{\"x\":0", "}}",
     read_counterparty},
    {"TB_COUNTERPARTY_FISCAL_REFERENCES", "{\"businessDocId\":1,\"fiscalReferences\":{\"x\":0",
     "}}", read_counterparty},
    {"TB_TICKET_INTERFACE", "{\"x\":0", "}", read_ticket},
};

static size_t too_long_errors(void)
{
    size_t n = 0;
    for (size_t i = 0; i < in.error_count; i++)
        n += memmem(in.errors[i].message.ptr, in.errors[i].message.len, "at most", 7) != NULL;
    return n;
}

static void try_width(size_t home, const char *column, size_t width, size_t len)
{
    char text[400];
    memset(text, 'x', sizeof text);
    open_input(df_arena_printf(&arena, "%s,\"%s\":\"%.*s\"%s", homes[home].before, column, (int)len,
                               text, homes[home].after)
                   .ptr);
    homes[home].read();
    if (too_long_errors() != (len > width))
        fail_msg("%s.%s: %zu of %zu", homes[home].table, column, len, width);
}

static void widths_are_those_of_the_schema(void **state)
{
    size_t tried = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(expected_columns); i++) {
        const struct expected_column *c = &expected_columns[i];
        size_t width = 0;
        if (sscanf(c->type, "varchar(%zu)", &width) != 1 || strstr(c->column, "Status") ||
            strstr(c->column, "Callback"))
            continue;
        for (size_t home = 0; home < COUNT(homes); home++) {
            if (strcmp(homes[home].table, c->table) != 0)
                continue;
            try_width(home, c->column, width, width);
            try_width(home, c->column, width, width + 1);
            tried++;
        }
    }
    assert_int_equal(tried, 11 + 10 + 3 + 7);
}

/* --- tickets ---------------------------------------------------------------------------------- */

#define TICKET                                                                                     \
    "{\"shipmentTicket\":{\"functionalDocID\":{\"businessAppID\":\"CRN\",\"businessEntity\":"      \
    "\"TCK\",\"businessDocID\":\"T_0041\",\"originalBusinessDocID\":\"\",\"userID\":\"joao\"},"    \
    "\"functionalAckIsRequired\":\"True\",\"header\":{\"companyCode\":\"01\",\"branchCode\":7,"    \
    "\"destinationCode\":\"D\",\"phaseCode\":\" 6 \",\"shipmentEvent\":\"RCD\","                   \
    "\"targetApplications\":{\"targetApplication\":[{\"applicationCode\":\"ASB\"},"                \
    "{\"applicationCode\":\"CRN\"}]}},\"data\":{\"plate\":\"ABC1D23\",\"weights\":{\"gross\":"     \
    "\"0.3\",\"tare\":0.1,\"net\":0.2,\"unit\":\"KG\"}}}}"

static void both_shapes_of_a_ticket_give_the_same(void **state)
{
    struct df_ticket a, b;

    (void)state;
    open_input(TICKET);
    df_ticket_check(&in, &a);
    assert_good();
    assert_str(a.doc.business_doc_id, "T_0041");
    assert_str(a.doc.original_business_doc_id, NULL);
    assert_str(a.branch_code, "7");
    assert_int_equal(a.phase_code, 6);
    assert_true(a.ack_required);
    assert_int_equal(a.target_count, 2);
    assert_str(a.targets[0], "ASB");
    assert_str(a.targets[1], "CRN");

    open_input("{\"businessappid\":\"CRN\",\"businessEntity\":\"TCK\",\"businessDocId\":\"T_0041\","
               "\"userId\":\"joao\",\"functionalAckIsRequired\":true,\"companyCode\":\"01\","
               "\"branchCode\":\"7 \",\"destinationCode\":\"D\",\"phaseCode\":6.0,"
               "\"shipmentEvent\":\"RCD\",\"targetApplications\":[\"ASB\",\"CRN\"],"
               "\"data\":\"anything\",\"weights\":{\"gross\":3e-1,\"tare\":\"0.10\",\"net\":0.2}}");
    df_ticket_check(&in, &b);
    assert_good();
    assert_same_texts(&a, &b, offsetof(struct df_ticket, targets) / sizeof(struct df_str));
    assert_int_equal(a.phase_code, b.phase_code);
    assert_int_equal(a.ack_required, b.ack_required);
    assert_int_equal(a.target_count, b.target_count);
    assert_same_texts(a.targets, b.targets, 2);
}

static void weights_are_compared_digit_by_digit(void **state)
{
    static const struct {
        const char *gross, *tare, *net;
        bool good;
    } table[] = {
        {"0.3", "0.1", "0.2", true},
        {"0.3", "0.1", "0.20000000000000001", false},
        {"\"00012345.670\"", "\"345.67\"", "12000", true},
        {"1e3", "1.0E+2", "9e2", true},
        {"100", "0", "100", true},
        {"100", "-0.0", "100", true},
        {"1", "0.000000000000000001", "0.999999999999999999", true},
        {"1", "0.000000000000000001", "0.999999999999999998", false},
        {"999999999999999999", "1", "999999999999999998", true},
        {"9007199254740993", "1", "9007199254740992", true},
        {"9007199254740993", "0", "9007199254740992", false},
        {"0e999999999999999999999", "0", "0.000000000000000000000000000000", true},
        {"1e-19", "0", "0", false},
        {"1e-19", "0", "1e-18", false},
        {"1000000000000000000", "0", "0", false},
        {"1e99999999999999999999", "0", "0", false},
        {"3", "5", "-2", false},
        {"\".5\"", "0", "0", false},
        {"\"5.\"", "0", "5", false},
        {"\"1e\"", "0", "1", false},
        {"\"+1\"", "0", "1", false},
        {"\"0x10\"", "0", "16", false},
        {"true", "0", "1", false},
        {"10", "3", "null", true},
        {"10", "\"\"", "99", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        open_input(df_arena_printf(&arena,
                                   "{" T_FLAT("6") ",\"weights\":{\"gross\":%s,\"tare\":%s,"
                                                   "\"net\":%s}}",
                                   table[i].gross, table[i].tare, table[i].net)
                       .ptr);
        check_ticket();
        if ((in.error_count == 0) != table[i].good)
            fail_msg("%s - %s = %s: " DF_STR_FMT, table[i].gross, table[i].tare, table[i].net,
                     DF_STR_ARG(df_payload_problems(&in)));
    }
}

static void weights_are_asked_for_in_phase_6_alone(void **state)
{
    (void)state;
    open_input("{" T_FLAT("\"15\"") ",\"weights\":{\"gross\":-1}}");
    check_ticket();
    assert_good();
    open_input("{" T_FLAT("6") "}");
    read_ticket();
    assert_good();
}

/* --- callbacks -------------------------------------------------------------------------------- */

static void a_callback_says_what_becomes_of_the_ticket(void **state)
{
    static const char *const table[][2] = {
        {"Success", "Success"}, {"error", "Error"}, {" WARNING ", "Received"}};
    struct df_callback c;

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        open_input(df_arena_printf(&arena,
                                   "{\"BusinessEntity\":\"TCK\",\"businessDocID\":\"T1\","
                                   "\"phaseCode\":\"15\",\"status\":\"%s\",\"code\":0,"
                                   "\"message\":\"n\xC3\xA3o\\n\",\"details\":[{}],"
                                   "\"processedAt\":\"2026-11-15T03:16:05.123Z\"}",
                                   table[i][0])
                       .ptr);
        df_callback_read(&in, &c);
        assert_good();
        assert_str(c.business_entity, "TCK");
        assert_str(c.business_doc_id, "T1");
        assert_int_equal(c.phase_code, 15);
        assert_str(c.state, table[i][1]);
        assert_str(c.code, "0");
        assert_str(c.message, "n\xC3\xA3o\n");
        assert_int_equal(c.processed_at, INT64_C(1794712565123));
    }
}

static void a_callback_is_not_refused_for_a_long_message(void **state)
{
    struct df_callback c;
    char text[DF_CALLBACK_MESSAGE_MAX + 500];

    (void)state;
    memset(text, 'm', sizeof text);
    text[sizeof text - 1] = '\0';
    open_input(
        df_arena_printf(&arena, "{" CB ",\"status\":\"Error\",\"message\":\"%s\"}", text).ptr);
    df_callback_read(&in, &c);
    assert_good();
    assert_int_equal(c.message.len, DF_CALLBACK_MESSAGE_MAX);
    assert_str(c.code, NULL);
    assert_int_equal(c.processed_at, -1);
}

/* --- acks and returns ------------------------------------------------------------------------- */

static void assert_ack(const struct df_ack *ack, const char *want)
{
    struct df_buf b;
    df_buf_init(&b, 1 << 16);
    df_ack_build(ack, DF_STR("CRN"), &b);
    assert_false(df_buf_failed(&b));
    assert_str(df_buf_str(&b), want);
    (void)parsed(df_arena_str(&arena, df_buf_str(&b)));
    df_buf_release(&b);
}

static void a_whole_ack_is_kept_byte_for_byte(void **state)
{
    static const char body[] = "{ \"functionalAck\" : {\"functionalDocID\":{\"businessDocID\":"
                               "\"T_1\",\"userID\":[]},\"a\":\"\\u00e7\", \"n\":1.50}, \"z\":0 }";
    struct df_ack ack;
    struct df_str payload;

    (void)state;
    open_input(body);
    df_ack_read(&in, &ack, &payload);
    assert_good();
    assert_str(payload, body);
    assert_str(ack.doc.business_doc_id, "T_1");
}

static void an_ack_is_built_from_the_short_form(void **state)
{
    struct df_ack ack;
    struct df_str payload;

    (void)state;
    open_input("{\"businessEntity\":\"PRC\",\"businessDocId\":\"CP_1\",\"operation\":\"create\","
               "\"status\":201}");
    df_ack_read(&in, &ack, &payload);
    assert_good();
    assert_str(payload, NULL);
    assert_ack(&ack, "{\"functionalAck\":{\"functionalDocID\":{\"businessAppID\":\"\","
                     "\"businessEntity\":\"PRC\",\"businessDocID\":\"CP_1\","
                     "\"originalBusinessDocID\":\"\",\"userID\":\"\"},\"header\":[{"
                     "\"ackBusinessApplication\":\"CRN\",\"origMessageID\":\"CP_1\","
                     "\"originalBusinessObject\":\"AS400_COUNTERPARTY\","
                     "\"originalBusinessOperation\":\"CREATE\",\"status\":\"201\"}],"
                     "\"items\":[{\"message\":\"\"}]}}");

    open_input("{\"businessEntity\":\"PRC\",\"businessDocId\":\"X\",\"operation\":\"PROCESS\","
               "\"status\":\"400\",\"originalBusinessObject\":\"as400_ticket\"}");
    df_ack_read(&in, &ack, &payload);
    assert_good();
    assert_int_equal(ack.object, DF_ACK_TICKET);
    assert_int_equal(ack.operation, DF_ACK_PROCESS);
    assert_int_equal(ack.status, DF_ACK_INVALID);
}

static void an_ack_has_a_header_for_each_target(void **state)
{
    const struct df_ack ack = {.doc = {.business_doc_id = DF_STR("a\"b"), .user_id = DF_STR("u")},
                               .object = DF_ACK_TICKET,
                               .operation = DF_ACK_UPDATE,
                               .status = DF_ACK_FAILED,
                               .message = DF_STR("n\xC3\xA3o"),
                               .header_count = 2};

    (void)state;
#define HEADER                                                                                     \
    "{\"ackBusinessApplication\":\"CRN\",\"origMessageID\":\"a\\\"b\",\"originalBusinessObject\":" \
    "\"AS400_TICKET\",\"originalBusinessOperation\":\"UPDATE\",\"status\":\"500\"}"
    assert_ack(&ack, "{\"functionalAck\":{\"functionalDocID\":{\"businessAppID\":\"\","
                     "\"businessEntity\":\"\",\"businessDocID\":\"a\\\"b\","
                     "\"originalBusinessDocID\":\"\",\"userID\":\"u\"},\"header\":[" HEADER
                     "," HEADER "],\"items\":[{\"message\":\"n\xC3\xA3o\"}]}}");
}

static void a_return_repeats_the_ticket(void **state)
{
    struct df_ticket t;
    struct df_buf b;

    (void)state;
    open_input(TICKET);
    df_ticket_read(&in, &t);
    assert_good();
    df_buf_init(&b, 1 << 16);
    df_ticket_return_build(&t, INT64_C(1794712565123), &b);
    assert_str(df_buf_str(&b),
               "{\"ticketResult\":{\"functionalDocID\":{\"businessAppID\":\"CRN\","
               "\"businessEntity\":\"TCK\",\"businessDocID\":\"T_0041\",\"originalBusinessDocID\":"
               "\"\",\"userID\":\"joao\"},\"header\":{\"companyCode\":\"01\",\"branchCode\":\"7\","
               "\"destinationCode\":\"D\",\"phaseCode\":6,\"shipmentEvent\":\"RCD\"},"
               "\"status\":\"Processed\",\"processedAt\":\"2026-11-15T03:16:05.123Z\"}}");
    df_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_envelope_is_read_whole, release),
        cmocka_unit_test_teardown(both_shapes_of_a_counterparty_give_the_same, release),
        cmocka_unit_test_teardown(lists_are_taken_in_every_form_converters_write, release),
        cmocka_unit_test_teardown(every_bad_field_is_named_by_its_path, release),
        cmocka_unit_test_teardown(a_list_has_a_limit, release),
        cmocka_unit_test_teardown(widths_are_those_of_the_schema, release),
        cmocka_unit_test_teardown(both_shapes_of_a_ticket_give_the_same, release),
        cmocka_unit_test_teardown(weights_are_compared_digit_by_digit, release),
        cmocka_unit_test_teardown(weights_are_asked_for_in_phase_6_alone, release),
        cmocka_unit_test_teardown(a_callback_says_what_becomes_of_the_ticket, release),
        cmocka_unit_test_teardown(a_callback_is_not_refused_for_a_long_message, release),
        cmocka_unit_test_teardown(a_whole_ack_is_kept_byte_for_byte, release),
        cmocka_unit_test_teardown(an_ack_is_built_from_the_short_form, release),
        cmocka_unit_test_teardown(an_ack_has_a_header_for_each_target, release),
        cmocka_unit_test_teardown(a_return_repeats_the_ticket, release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
