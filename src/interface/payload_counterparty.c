#include "interface/payload_private.h"

#define ENTITY_WIDTH 20

static const struct df_text_field data_fields[] = {
    DF_CODE(struct df_counterparty, counterparty_id, "counterpartyId", 50),
    DF_CODE(struct df_counterparty, entity_type, "entityType", 10),
    DF_FREE_TEXT(struct df_counterparty, name, "name", 200),
    DF_FREE_TEXT(struct df_counterparty, local_name, "localName", 200),
    DF_FREE_TEXT(struct df_counterparty, search_name, "searchName", 200),
    DF_CODE(struct df_counterparty, reference_code, "referenceCode", 50),
    DF_CODE(struct df_counterparty, source, "source", 20),
};

/* The fields of both shapes, then those whose names differ. */
static const struct df_text_field address_fields[] = {
    DF_CODE(struct df_address, phone, "phone", 30),
    DF_CODE(struct df_address, fax, "fax", 30),
    DF_FREE_TEXT(struct df_address, addr_line1, "addrLine1", 200),
    DF_FREE_TEXT(struct df_address, addr_line2, "addrLine2", 200),
    DF_CODE(struct df_address, zip_code, "zipCode", 20),
    DF_CODE(struct df_address, state, "state", 10),
};
static const struct df_text_field address_flat_fields[] = {
    DF_CODE(struct df_address, address_type_code, "addressTypeCode", 10),
    DF_FREE_TEXT(struct df_address, address_type_name, "addressTypeName", 50),
    DF_CODE(struct df_address, city_code, "cityCode", 30),
    DF_FREE_TEXT(struct df_address, district, "district", 100),
};
static const struct df_text_field address_envelope_fields[] = {
    DF_CODE(struct df_address, city_code, "addrLine3City", 30),
    DF_FREE_TEXT(struct df_address, district, "stateLocalName", 100),
};
static const struct df_text_field address_type_fields[] = {
    DF_CODE(struct df_address, address_type_code, "code", 10),
    DF_FREE_TEXT(struct df_address, address_type_name, "name", 50),
};

static const struct df_text_field fiscal_flat_fields[] = {
    DF_CODE(struct df_fiscal_reference, fiscal_reference_type_code, "fiscalReferenceTypeCode", 10),
    DF_FREE_TEXT(struct df_fiscal_reference, fiscal_reference_type_name, "fiscalReferenceTypeName",
                 50),
};
static const struct df_text_field fiscal_type_fields[] = {
    DF_CODE(struct df_fiscal_reference, fiscal_reference_type_code, "code", 10),
    DF_FREE_TEXT(struct df_fiscal_reference, fiscal_reference_type_name, "name", 50),
};

#define TEXTS(at, fields, ret) df_place_texts(in, at, fields, DF_COUNT(fields), ret)

static void read_address(struct df_input *in, const struct df_place *at, bool envelope,
                         struct df_address *ret)
{
    TEXTS(at, address_fields, ret);
    if (envelope) {
        struct df_place type = df_place_part(in, at, "addressType");
        TEXTS(&type, address_type_fields, ret);
        TEXTS(at, address_envelope_fields, ret);
    } else {
        TEXTS(at, address_flat_fields, ret);
    }
    ret->is_main_address = df_place_bool(in, at, "isMainAddress");
    ret->is_deleted = df_place_bool(in, at, "isDeleted");
}

static void read_fiscal(struct df_input *in, const struct df_place *at, bool envelope,
                        struct df_fiscal_reference *ret)
{
    struct df_place number = df_place_member(in, at, "fiscalNumber");
    ret->fiscal_number = df_place_text(in, &number, 30, DF_TEXT_CODE, DF_OPTIONAL);
    if (envelope) {
        struct df_place type = df_place_part(in, at, "fiscalReferenceType");
        TEXTS(&type, fiscal_type_fields, ret);
    } else {
        TEXTS(at, fiscal_flat_fields, ret);
    }
}

static bool is_object(struct df_input *in, const struct df_place *at)
{
    if (at->value.type == DF_JSON_OBJECT)
        return true;
    df_place_error(in, at, "must be an object");
    return false;
}

static void read_lists(struct df_input *in, const struct df_place *data, bool envelope,
                       struct df_counterparty *ret)
{
    struct df_place_list list;
    struct df_place entry;

    df_place_list(in, data, envelope ? "addressList" : "addresses", envelope ? "address" : NULL,
                  &list);
    ret->addresses = DF_ARENA_ARRAY(in->arena, struct df_address, list.count);
    while (df_place_next(&list, &entry))
        if (is_object(in, &entry))
            read_address(in, &entry, envelope, &ret->addresses[ret->address_count++]);

    df_place_list(in, data, envelope ? "fiscalReferenceList" : "fiscalReferences",
                  envelope ? "fiscalReferences" : NULL, &list);
    ret->fiscal_references = DF_ARENA_ARRAY(in->arena, struct df_fiscal_reference, list.count);
    while (df_place_next(&list, &entry))
        if (is_object(in, &entry))
            read_fiscal(in, &entry, envelope, &ret->fiscal_references[ret->fiscal_count++]);
}

void df_counterparty_read(struct df_input *in, struct df_counterparty *ret)
{
    struct df_place body, root;

    *ret = (struct df_counterparty){0};
    bool envelope = df_place_open(in, "counterparty", &body, &root);
    if (!df_place_is_there(&root))
        return;
    struct df_place doc = envelope ? df_place_part(in, &root, "functionalDocID") : root;
    struct df_place data = envelope ? df_place_part(in, &root, "data") : root;
    df_doc_id_read(in, &doc, ENTITY_WIDTH, DF_OPTIONAL, &ret->doc);
    ret->ack_required = df_place_bool(in, &root, "functionalAckIsRequired");
    TEXTS(&data, data_fields, ret);
    ret->is_deleted = df_place_bool(in, &data, "isDeleted");
    read_lists(in, &data, envelope, ret);
}
