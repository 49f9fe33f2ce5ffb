/*
 * The state machine of a chunk in work: one enum, and one pure function from state and event to the
 * next state and an action. chunk.c performs the action; no other code sets a state.
 *
 *   NEW ──to send────► READY ──permit──► PERMITTED ──commit──► SENDING
 *    │                 │  ▲ ▲                                     │
 *    │       no permit │  │ │                                     │
 *    │                 ▼  │ │                                     │
 *    │               WAITING ◄─────── again, the process ends ────┤
 *    │                 due  │                                     │
 *    │                      │ no ack in time                      │
 *    │                      │                                     │
 *    ├──awaits its ack───► AWAITING ◄──commit── NAMED ◄────202────┤
 *    │                      │     ▲                               │
 *    │                  ack │     │ the commit met an ack         │
 *    │                      ▼     │                               │
 *    ├──has its ack──────► ACKED  │                               │
 *    │                      │     │                               │
 *    └──nothing to send─────┼──► JUDGED ◄──────── 200, refused ───┘
 *                           │     │   ▲
 *                    commit │     │   └── tries used up (from SENDING, AWAITING)
 *                           ▼     │
 *                          GONE ◄─┘ commit
 *
 * Three rules are behind the drawing.
 *
 * The database knows first. A chunk is SENDING only after its row says Sending, and AWAITING only
 * after its row has the name of the ack. If the owner dies, the next one finds the chunk and sends
 * it under the same key, or waits for its ack.
 *
 * A stored ack decides. The API has answered 200 for it, so it counts in every state in which the
 * chunk belongs to the worker. (In SENDING the chunk belongs to the HTTP client's thread; the ack
 * is looked for again after the answer.) The commit of a JUDGED chunk passes over a row that has an
 * ack; the chunk then awaits the ack that is already stored.
 *
 * An outage uses up no tries. While the peer takes no chunk, be it that the breaker holds chunks
 * back or that every chunk fails, a failed call was only a test whether the peer is back. Such a
 * chunk never fails: after max_outage_ms the batch is given back (batch_state.h), and the chunk is
 * dropped with it. Acks that do not come are counted apart from failed calls, since it takes some
 * failed calls to find that there is an outage.
 *
 * A chunk is dropped when its batch leaves its owner before the chunk is settled; the next owner
 * cuts it again. GONE has no way out, so a settled chunk is never sent.
 */
#ifndef DF_IMPORTS_CHUNK_STATE_H
#define DF_IMPORTS_CHUNK_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum import_chunk_state {
    CHUNK_NEW,       /* being cut */
    CHUNK_READY,     /* to be sent as soon as the breaker permits it */
    CHUNK_PERMITTED, /* by the breaker; its row is being committed as Sending */
    CHUNK_SENDING,   /* the call is under way; the HTTP client's thread has the chunk */
    CHUNK_WAITING,   /* until due_ms, then READY */
    CHUNK_NAMED,     /* a 202 has named its ack, which is not committed yet */
    CHUNK_AWAITING,  /* waits for an ack until due_ms */
    CHUNK_JUDGED,    /* its items have the results of an answer: to be settled */
    CHUNK_ACKED,     /* its items have the results of the stored ack: to be settled */
    CHUNK_GONE,      /* settled, or left to the next owner */
    CHUNK_STATES
};

enum import_chunk_event {
    CHUNK_EV_CUT,            /* it has items to send */
    CHUNK_EV_CUT_EMPTY,      /* it has none */
    CHUNK_EV_FOUND_AWAITING, /* an earlier owner sent it and waited for its ack */
    CHUNK_EV_FOUND_ACKED,    /* an earlier owner sent it, and its ack is stored */
    CHUNK_EV_PERMIT,         /* the breaker lets it through */
    CHUNK_EV_NO_PERMIT,
    CHUNK_EV_SEND_STORED, /* the row says Sending */
    CHUNK_EV_ANSWER_RESULTS,
    CHUNK_EV_ANSWER_PROMISE, /* 202: the ack comes later */
    CHUNK_EV_ANSWER_AGAIN,   /* no answer, or a failure that may pass */
    CHUNK_EV_ANSWER_REFUSED, /* a failure that will not pass */
    CHUNK_EV_ANSWER_CUT_OFF, /* the process ends */
    CHUNK_EV_PROMISE_STORED, /* the row says AwaitingAck and has the ack's name */
    CHUNK_EV_ACK,            /* an ack is stored */
    CHUNK_EV_TICK,           /* time has passed */
    CHUNK_EV_SETTLED,        /* the commit settled it */
    CHUNK_EV_PASSED_OVER,    /* the commit did not: its row has an ack, or was settled before */
    CHUNK_EV_DROPPED,        /* its batch leaves this owner */
    CHUNK_EVENTS
};

enum import_chunk_action {
    CHUNK_NOTHING,
    CHUNK_SEND,
    CHUNK_RETURN_PERMIT,
    CHUNK_WAIT_FOR_BREAKER,
    CHUNK_WAIT_TO_RETRY,
    CHUNK_WAIT_FOR_EVER, /* the process ends */
    CHUNK_WAIT_FOR_ACK,
    CHUNK_APPLY_ACK,
    CHUNK_RESEND,      /* no ack came in time */
    CHUNK_FAIL,        /* its items get the error of its last attempt */
    CHUNK_FAIL_NO_ACK, /* its items get the error that no ack came in time */
    CHUNK_COUNT_SETTLED,
    CHUNK_IMPOSSIBLE, /* a bug */
    CHUNK_ACTIONS
};

/* What the step depends on, beside state and event. All times are monotonic. */
struct import_chunk_facts {
    int64_t now_ms;
    int64_t due_ms;    /* of WAITING and AWAITING */
    bool is_outage;    /* the peer takes no chunk */
    bool was_last_try; /* of calls; of AWAITING: of acks */
};

struct import_chunk_step {
    enum import_chunk_state state;
    enum import_chunk_action action;
};

/* With CHUNK_IMPOSSIBLE the state stays. */
struct import_chunk_step import_chunk_step(enum import_chunk_state state,
                                           enum import_chunk_event event,
                                           const struct import_chunk_facts *f);

#endif
