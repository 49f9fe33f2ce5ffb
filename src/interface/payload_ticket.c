#include "interface/payload_private.h"

#define ENTITY_WIDTH 100
#define TARGET_WIDTH 20

static const struct df_text_field header_fields[] = {
    DF_CODE_REQUIRED(struct df_ticket, company_code, "companyCode", 20),
    DF_CODE_REQUIRED(struct df_ticket, branch_code, "branchCode", 20),
    DF_CODE_REQUIRED(struct df_ticket, destination_code, "destinationCode", 20),
    DF_CODE_REQUIRED(struct df_ticket, shipment_event, "shipmentEvent", 20),
};

/* In the flat shape all parts are the body itself, except a `data` member that holds the weights.
 */
struct parts {
    struct df_place body;
    struct df_place root;
    struct df_place doc;
    struct df_place header;
    struct df_place data;
};

static bool open_parts(struct df_input *in, struct parts *p)
{
    struct df_json weights;
    bool envelope = df_place_open(in, "shipmentTicket", &p->body, &p->root);
    if (!df_place_is_there(&p->root))
        return false;
    p->doc = p->header = p->root;
    if (envelope) {
        p->doc = df_place_part(in, &p->root, "functionalDocID");
        p->header = df_place_part(in, &p->root, "header");
        p->data = df_place_part(in, &p->root, "data");
    } else {
        p->data = df_place_member(in, &p->root, "data");
        if (!df_place_is_there(&p->data) || df_json_find(&p->root.value, "weights", &weights))
            p->data = p->root;
    }
    return true;
}

/* Reads the list of targets, or targetApplicationCode in its place. */
static void read_targets(struct df_input *in, const struct df_place *header, struct df_ticket *ret)
{
    ret->target_count = df_targets_read(in, header, &ret->targets);
    if (ret->target_count > 0)
        return;
    struct df_place one = df_place_member(in, header, "targetApplicationCode");
    if (!df_place_is_there(&one) && header->up) { /* in an envelope, the error names the list */
        one = df_place_member(in, header, "targetApplications");
        one.value = (struct df_json){0};
    }
    ret->targets = DF_ARENA_NEW(in->arena, struct df_str);
    ret->targets[0] = df_place_text(in, &one, TARGET_WIDTH, DF_TEXT_CODE, DF_REQUIRED);
    ret->target_count = 1;
}

static void read_parts(struct df_input *in, const struct parts *p, struct df_ticket *ret)
{
    struct df_place phase = df_place_member(in, &p->header, "phaseCode");

    df_doc_id_read(in, &p->doc, ENTITY_WIDTH, DF_REQUIRED, &ret->doc);
    df_place_texts(in, &p->header, header_fields, DF_COUNT(header_fields), ret);
    if (df_place_int(in, &phase, &ret->phase_code) && ret->phase_code != DF_PHASE_BASIC &&
        ret->phase_code != DF_PHASE_WEIGHTS)
        df_place_error(in, &phase, "must be %d or %d", DF_PHASE_BASIC, DF_PHASE_WEIGHTS);
    ret->ack_required = df_place_bool(in, &p->root, "functionalAckIsRequired");
    read_targets(in, &p->header, ret);
}

void df_ticket_read(struct df_input *in, struct df_ticket *ret)
{
    struct parts p;

    *ret = (struct df_ticket){0};
    if (open_parts(in, &p))
        read_parts(in, &p, ret);
}

/* --- weights ---------------------------------------------------------------------------------- */

/* An exact decimal: `part` counts units of 10^-18. The sum of two still fits. */
struct weight {
    int64_t whole;
    int64_t part;
};

#define DIGITS   18
#define PART_ONE INT64_C(1000000000000000000)

enum weight_fault { WEIGHT_OK, WEIGHT_NOT_A_NUMBER, WEIGHT_NEGATIVE, WEIGHT_TOO_LONG };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t skip_digits(struct df_str s, size_t at)
{
    while (at < s.len && is_digit(s.ptr[at]))
        at++;
    return at;
}

/* Reads the exponent after the mantissa; none is 0. A huge one is cut to a value that is still too
 * large. */
static bool read_exponent(struct df_str s, int64_t *ret)
{
    const int64_t far = INT64_C(1) << 40;
    int64_t n;

    *ret = 0;
    if (s.len == 0)
        return true;
    if (s.ptr[0] != 'e' && s.ptr[0] != 'E')
        return false;
    size_t at = 1 + (s.len > 1 && (s.ptr[1] == '+' || s.ptr[1] == '-'));
    struct df_str digits = df_str_n(s.ptr + at, s.len - at);
    if (digits.len == 0 || skip_digits(digits, 0) != digits.len)
        return false;
    if (!df_str_to_i64(digits, &n) || n > far)
        n = far;
    *ret = s.ptr[1] == '-' ? -n : n;
    return true;
}

static int64_t power_of_ten(int64_t n)
{
    int64_t v = 1;
    while (n-- > 0)
        v *= 10;
    return v;
}

/* Adds the digit times 10^place. False: it is out of range; zeros never are. */
static bool add_digit(struct weight *w, char c, int64_t place)
{
    int64_t digit = c - '0';
    if (digit == 0)
        return true;
    if (place >= DIGITS || place < -DIGITS)
        return false;
    if (place >= 0)
        w->whole += digit * power_of_ten(place);
    else
        w->part += digit * power_of_ten(DIGITS + place);
    return true;
}

/* Reads a JSON number, or a text that holds one; a text may have leading zeros. */
static enum weight_fault read_weight(const struct df_json *v, struct weight *ret)
{
    struct df_str s = df_str_trim(v->text);
    bool negative = s.len > 0 && s.ptr[0] == '-';
    size_t begin = negative;
    size_t point = skip_digits(s, begin);
    size_t end = point;
    int64_t exponent;

    *ret = (struct weight){0, 0};
    if (point == begin)
        return WEIGHT_NOT_A_NUMBER;
    if (point < s.len && s.ptr[point] == '.') {
        end = skip_digits(s, point + 1);
        if (end == point + 1)
            return WEIGHT_NOT_A_NUMBER;
    }
    if (!read_exponent(df_str_n(s.ptr + end, s.len - end), &exponent))
        return WEIGHT_NOT_A_NUMBER;
    int64_t place = (int64_t)(point - begin) - 1 + exponent;
    for (size_t i = begin; i < end; i++) {
        if (i == point)
            continue;
        if (!add_digit(ret, s.ptr[i], place--))
            return negative ? WEIGHT_NEGATIVE : WEIGHT_TOO_LONG;
    }
    return negative && (ret->whole || ret->part) ? WEIGHT_NEGATIVE : WEIGHT_OK;
}

static bool is_sum(const struct weight *sum, const struct weight *a, const struct weight *b)
{
    int64_t part = a->part + b->part;
    int64_t carry = part >= PART_ONE;
    return sum->part == part - carry * PART_ONE && sum->whole == a->whole + b->whole + carry;
}

/* True: the weight is given. An invalid one is an error and counts as given. */
static bool check_weight(struct df_input *in, const struct df_place *at, struct weight *ret)
{
    const struct df_json *v = &at->value;
    if (!df_place_is_there(at) || (v->type == DF_JSON_STRING && df_str_trim(v->text).len == 0))
        return false;
    switch (read_weight(v, ret)) {
    case WEIGHT_OK:
        break;
    case WEIGHT_NOT_A_NUMBER:
        df_place_error(in, at, "must be a number");
        break;
    case WEIGHT_NEGATIVE:
        df_place_error(in, at, "must not be negative");
        break;
    case WEIGHT_TOO_LONG:
        df_place_error(in, at, "must have at most %d digits before and after the point", DIGITS);
        break;
    }
    return true;
}

static void check_weights(struct df_input *in, const struct df_place *weights)
{
    struct df_place gross = df_place_member(in, weights, "gross");
    struct df_place tare = df_place_member(in, weights, "tare");
    struct df_place net = df_place_member(in, weights, "net");
    struct weight g, t, n;
    size_t before = in->error_count;

    bool has_gross = check_weight(in, &gross, &g);
    bool has_tare = check_weight(in, &tare, &t);
    bool has_net = check_weight(in, &net, &n);
    if (!has_gross && !has_tare && !has_net)
        df_place_error(in, weights,
                       df_place_is_there(weights) ? "must have gross, tare or net" : "is required");
    if (has_gross && has_tare && has_net && in->error_count == before && !is_sum(&g, &t, &n))
        df_place_error(in, &net, "must be gross - tare");
}

/* In phase 6 weights are required. */
static void check_parts(struct df_input *in, const struct parts *p, const struct df_ticket *t)
{
    if (t->phase_code != DF_PHASE_WEIGHTS)
        return;
    size_t before = in->error_count;
    struct df_place weights = df_place_part(in, &p->data, "weights");
    if (in->error_count == before)
        check_weights(in, &weights);
}

void df_ticket_check_rest(struct df_input *in, const struct df_ticket *t)
{
    struct parts p;

    if (open_parts(in, &p))
        check_parts(in, &p, t);
}

void df_ticket_check(struct df_input *in, struct df_ticket *ret)
{
    struct parts p;

    *ret = (struct df_ticket){0};
    if (!open_parts(in, &p))
        return;
    read_parts(in, &p, ret);
    check_parts(in, &p, ret);
}

/* --- the return ------------------------------------------------------------------------------- */

void df_ticket_return_build(const struct df_ticket *t, int64_t processed_at_ms, struct df_buf *out)
{
    struct df_json_out j;

    df_json_out_init(&j, out);
    df_json_open(&j, '{');
    df_json_key(&j, "ticketResult");
    df_json_open(&j, '{');
    df_doc_id_write(&j, &t->doc);
    df_json_key(&j, "header");
    df_json_open(&j, '{');
    df_json_kv_text(&j, "companyCode", t->company_code);
    df_json_kv_text(&j, "branchCode", t->branch_code);
    df_json_kv_text(&j, "destinationCode", t->destination_code);
    df_json_kv_int(&j, "phaseCode", t->phase_code);
    df_json_kv_text(&j, "shipmentEvent", t->shipment_event);
    df_json_close(&j, '}');
    df_json_kv_text(&j, "status", DF_STR("Processed"));
    df_json_kv_time(&j, "processedAt", processed_at_ms);
    df_json_close(&j, '}');
    df_json_close(&j, '}');
}
