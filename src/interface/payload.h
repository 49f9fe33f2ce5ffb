/*
 * The documents of the interface: reads bodies and builds answers. Pure functions over a parsed
 * body; no database, no HTTP.
 *
 * Bodies come flat (column names in camelCase) or in the sender's envelope. A body that has the
 * envelope's member ("counterparty", "shipmentTicket", "functionalAck") is an envelope, whatever
 * other members it has. Every problem is added to the input under the path of the field as it was
 * sent ("counterparty.data.addressList.address[0].zipCode"). The result is valid only if the input
 * has no errors.
 *
 * - Names match in any case; unknown members are ignored.
 * - Blank text is absent, also in place of a list or an object: senders write "" for a missing
 *   value, and the columns (and the filtered index on CounterpartyId) need NULL.
 * - Codes and ids lose the blanks around them, which fixed-width systems send: SQL Server takes
 *   'A ' and 'A' for the same key, the other databases do not. Control characters in them are an
 *   error, because BusinessDocId goes into a header. Names, addresses and messages stay as sent.
 * - A number is accepted as text, and text as a number or boolean. An absent boolean is false.
 * - One object in place of a list is a list of one, as converters from XML write it.
 * - Widths are those of the columns, in UTF-16 units.
 *
 * All text is borrowed from the body and the input's arena.
 */
#ifndef DF_INTERFACE_PAYLOAD_H
#define DF_INTERFACE_PAYLOAD_H

#include "base/buf.h"
#include "net/input.h"

#define DF_PHASE_BASIC   15
#define DF_PHASE_WEIGHTS 6

/* Entries in one list: far more than real ones, but bounds the memory that few bytes can cost. */
#define DF_PAYLOAD_ENTRIES_MAX  1000

#define DF_CALLBACK_MESSAGE_MAX 2000

struct df_doc_id {
    struct df_str business_app_id;
    struct df_str business_entity;
    struct df_str business_doc_id;
    struct df_str original_business_doc_id;
    struct df_str user_id; /* goes back in the ack; not stored in a column */
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
    struct df_doc_id doc; /* only business_doc_id is always set */
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
    struct df_doc_id doc; /* entity and id are always set */
    struct df_str company_code;
    struct df_str branch_code;
    struct df_str destination_code;
    struct df_str shipment_event;
    struct df_str *targets; /* at least one: the first is TargetApplicationCode */
    size_t target_count;
    int phase_code;
    bool ack_required;
};

/* Checks what a ticket needs to be received: its columns. */
void df_ticket_read(struct df_input *in, struct df_ticket *ret);

/*
 * Checks what a ticket needs to be processed: its columns, and in phase 6 weights, each at least 0,
 * with net = gross - tare if all three are given. The comparison is exact, not by doubles.
 */
void df_ticket_check(struct df_input *in, struct df_ticket *ret);
/* The second half of it, for a ticket that df_ticket_read found no error in. */
void df_ticket_check_rest(struct df_input *in, const struct df_ticket *t);

/* All errors in one text, "weights.net: must be gross - tare; …"; the absent slice if none. */
struct df_str df_payload_problems(const struct df_input *in);

struct df_callback {
    struct df_str business_entity;
    struct df_str business_doc_id;
    int phase_code;      /* any value; the database tells whether there is such a ticket */
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
    size_t header_count; /* one for each target application; 0 counts as 1 */
};

/*
 * Reads a functional ack to be sent. If the body is a complete ack, *ret_payload is its text byte
 * for byte, and *ret has only the document's id and entity. Else *ret_payload is absent, and *ret
 * is for df_ack_build(). The object of the short form is originalBusinessObject; without it, a
 * counterparty for the entity PRC and a ticket for any other.
 */
void df_ack_read(struct df_input *in, struct df_ack *ret, struct df_str *ret_payload);

/* Writes {"functionalAck": …}; absent text becomes "", as in the partner's documents. */
void df_ack_build(const struct df_ack *ack, struct df_str ack_business_application,
                  struct df_buf *out);

/*
 * Writes {"ticketResult": {"functionalDocID", "header", "status": "Processed", "processedAt"}}. The
 * specification names the document (TicketResult) but not its members; these are the ticket's.
 */
void df_ticket_return_build(const struct df_ticket *t, int64_t processed_at_ms, struct df_buf *out);

#endif
