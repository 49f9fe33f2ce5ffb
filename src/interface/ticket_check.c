/* What becomes of a ticket: its problems, or its return and functional ack. Nothing is stored. */
#include "interface/processing_private.h"

#include <assert.h>

#define ERROR_UNITS   2000
#define ACK_MAX_BYTES (1 << 20)

enum ticket_action ticket_happens(struct ticket *t, enum ticket_event event)
{
    struct ticket_step step = df_ticket_step(t->state, event);

    assert(step.action != TICKET_IMPOSSIBLE);
    t->state = step.state;
    return step.action;
}

struct df_str ticket_text(struct df_arena *a, struct df_buf *take_buf)
{
    struct df_str s = DF_STR_NULL;
    if (!df_buf_failed(take_buf))
        s = df_arena_str(a, df_buf_str(take_buf));
    df_buf_release(take_buf);
    return s;
}

struct df_str ticket_problem(struct df_arena *kept, struct df_str text)
{
    return df_arena_str(kept, df_utf8_cut(text, ERROR_UNITS));
}

/* The ack of a ticket, with its problems if it has any. */
static struct df_str build_ack(const struct df_interface *i, const struct df_ticket *t,
                               struct df_str problems, struct df_arena *kept)
{
    struct df_buf out;
    struct df_ack ack = {
        .doc = t->doc,
        .object = DF_ACK_TICKET,
        .operation = DF_ACK_PROCESS,
        .status = problems.ptr ? DF_ACK_INVALID : DF_ACK_DONE,
        .message = problems.ptr ? problems : DF_STR("Processed"),
        .header_count = t->target_count,
    };

    df_buf_init(&out, ACK_MAX_BYTES);
    df_ack_build(&ack, df_str_c(i->opt.settings.ack_business_application), &out);
    return ticket_text(kept, &out);
}

static struct df_str build_return(const struct df_interface *i, const struct df_ticket *t,
                                  struct df_arena *kept)
{
    struct df_buf out;

    df_buf_init(&out, ACK_MAX_BYTES);
    df_ticket_return_build(t, df_wall_ms(i->opt.clock), &out);
    return ticket_text(kept, &out);
}

void ticket_judge(const struct df_interface *i, struct ticket *t, const struct df_ticket *parsed,
                  struct df_str problems, struct df_arena *kept)
{
    bool wants_ack = parsed->ack_required && parsed->doc.business_doc_id.ptr;

    if (problems.ptr)
        t->problems = ticket_problem(kept, problems);
    t->doc_id = df_arena_str(kept, parsed->doc.business_doc_id);
    if (wants_ack)
        t->ack = build_ack(i, parsed, t->problems, kept);
    if (!t->problems.ptr)
        t->answer = build_return(i, parsed, kept);
    if (!t->problems.ptr && (!t->answer.ptr || (wants_ack && !t->ack.ptr))) {
        t->ack = t->answer = DF_STR_NULL;
        t->problems = df_arena_printf(
            kept, "its return or functional ack would be larger than %d bytes", ACK_MAX_BYTES);
    }
    (void)ticket_happens(t, t->problems.ptr ? TICKET_EV_UNFIT : TICKET_EV_FIT);
}

/* --- spans ------------------------------------------------------------------------------------ */

bool ticket_span_begin(const struct df_interface *i, const struct ticket *t, struct df_span *span)
{
    struct df_trace from;

    if (!df_spans_on() || !df_trace_parse(t->trace_parent, &from))
        return false;
    df_span_begin(span, &from, "process ticket", DF_SPAN_INTERNAL, i->opt.clock);
    return span->recording;
}

void ticket_span_end(const struct ticket *t, struct df_span *span, enum df_code code)
{
    df_span_text(span, "dataflow.document.id", t->row_doc_id);
    df_span_int(span, "dataflow.ticket.phase", t->phase);
    if (code != DF_OK) {
        df_span_text(span, "error.type", df_str_c(df_code_name(code)));
        df_span_fail(span, DF_STR_NULL);
    } else {
        df_span_text(span, "dataflow.ticket.outcome",
                     t->problems.ptr ? DF_STR("rejected") : DF_STR("processed"));
    }
    df_span_end(span);
}
