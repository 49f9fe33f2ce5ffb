/*
 * The documents of the interface: what a body says, and what is built from it. Pure functions over
 * a parsed body; no database, no HTTP.
 *
 * Bodies come flat (column names in camelCase) or in the sender's envelope; a body that has the
 * envelope's member ("counterparty", "shipmentTicket", "functionalAck") is an envelope, whatever
 * else stands beside it. Every problem is added to the input under the path of the field as it was
 * sent ("counterparty.data.addressList.address[0].zipCode"); what was read is good only when the
 * input has no errors.
 *
 * - Names are matched without regard to case, unknown members are ignored.
 * - Blank text is absent: the senders write "" for what they do not have, and NULL is how the
 *   columns (and the filtered index on CounterpartyId) say that. Also in place of a list or a part.
 * - Codes and ids lose the blanks around them, which fixed-width systems send: SQL Server takes
 *   'A ' and 'A' for the same key, the other databases do not. They have no control characters,
 *   because BusinessDocId goes into a header. Names, addresses and messages stay as sent.
 * - Numbers are taken for text, and text for numbers and booleans. An absent boolean is false.
 * - One object in place of a list is a list of one, as converters from XML write it.
 * - Widths are the columns', in UTF-16 units.
 *
 * All text is borrowed from the body and the input's arena.
 */
#ifndef DF_INTERFACE_PAYLOAD_H
#define DF_INTERFACE_PAYLOAD_H

#include "base/buf.h"
#include "net/input.h"

#define DF_PHASE_BASIC   15
#define DF_PHASE_WEIGHTS 6

/* Entries in one list: bounds what a body can make of few bytes, far above what is real. */
#define DF_PAYLOAD_ENTRIES_MAX  1000

#define DF_CALLBACK_MESSAGE_MAX 2000

struct df_doc_id {
    struct df_str business_app_id;
    struct df_str business_entity;
    struct df_str business_doc_id;
    struct df_str original_business_doc_id;
    struct df_str user_id; /* no column has it: it goes back in the ack */
};

struct df_address {
    struct df_str address_type_code;
    struct df_str address_type_name;
    struct df_str phone;
    struct df_str fax;
    struct df_str addr_line1;
    struct df_str addr_line2;
    struct df_str city_code;
    struct df_str zip_code;
    struct df_str state;
    struct df_str district;
    bool is_main_address;
    bool is_deleted;
};

struct df_fiscal_reference {
    struct df_str fiscal_reference_type_code;
    struct df_str fiscal_reference_type_name;
    struct df_str fiscal_number;
};

struct df_counterparty {
    struct df_doc_id doc; /* of these only business_doc_id is always there */
    struct df_str counterparty_id;
    struct df_str entity_type;
    struct df_str name;
    struct df_str local_name;
    struct df_str search_name;
    struct df_str reference_code;
    struct df_str source;
    bool is_deleted;
    bool ack_required;
    struct df_address *addresses;
    size_t address_count;
    struct df_fiscal_reference *fiscal_references;
    size_t fiscal_count;
};

void df_counterparty_read(struct df_input *in, struct df_counterparty *ret);

struct df_ticket {
    struct df_doc_id doc; /* entity and id are always there */
    struct df_str company_code;
    struct df_str branch_code;
    struct df_str destination_code;
    struct df_str shipment_event;
    struct df_str *targets; /* at least one: the first is TargetApplicationCode */
    size_t target_count;
    int phase_code;
    bool ack_required;
};

/* What is asked of a ticket to be taken in: its columns. */
void df_ticket_read(struct df_input *in, struct df_ticket *ret);

/*
 * What is asked of a ticket to be processed: the same, and in phase 6 weights, each at least 0,
 * with net = gross - tare if all are given. Compared digit by digit, not as doubles.
 */
void df_ticket_check(struct df_input *in, struct df_ticket *ret);

/* All errors in one text, "weights.net: must be gross - tare; …"; the absent slice if none. */
struct df_str df_payload_problems(const struct df_input *in);

struct df_callback {
    struct df_str business_entity;
    struct df_str business_doc_id;
    int phase_code;      /* of any value: that there is no such ticket is for the database to say */
    struct df_str state; /* what CallbackStatus becomes: Success, Error, or Received for Warning */
    struct df_str code;  /* may be absent */
    struct df_str message; /* may be absent; cut at DF_CALLBACK_MESSAGE_MAX */
    int64_t processed_at;  /* -1: not given */
};

void df_callback_read(struct df_input *in, struct df_callback *ret);

enum df_ack_object { DF_ACK_TICKET, DF_ACK_COUNTERPARTY };
enum df_ack_operation { DF_ACK_CREATE, DF_ACK_UPDATE, DF_ACK_PROCESS };
enum df_ack_status { DF_ACK_CREATED, DF_ACK_DONE, DF_ACK_INVALID, DF_ACK_FAILED };

struct df_ack {
    struct df_doc_id doc;
    enum df_ack_object object;
    enum df_ack_operation operation;
    enum df_ack_status status;
    struct df_str message;
    size_t header_count; /* one for each target application; 0 is taken for 1 */
};

/*
 * A functional ack to be sent. When the body is a whole one, *ret_payload is its text byte for byte
 * and of *ret only the document's id and entity are set; else the absent slice, and *ret is for
 * df_ack_build(). The object of the short form is originalBusinessObject, or without it a
 * counterparty for the entity PRC and a ticket for any other.
 */
void df_ack_read(struct df_input *in, struct df_ack *ret, struct df_str *ret_payload);

/* {"functionalAck": …}; absent text is written as "", as the partner does. */
void df_ack_build(const struct df_ack *ack, struct df_str ack_business_application,
                  struct df_buf *out);

/*
 * {"ticketResult": {"functionalDocID", "header", "status": "Processed", "processedAt"}}: the source
 * names the document (TicketResult) but not its members; these are the ticket's own.
 */
void df_ticket_return_build(const struct df_ticket *t, int64_t processed_at_ms, struct df_buf *out);

#endif
