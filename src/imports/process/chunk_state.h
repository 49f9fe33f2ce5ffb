/*
 * The life of a chunk in the hands of its batch's owner: one enum, and one pure function that says
 * what an event makes of it. chunk.c asks it and performs the action; nobody else sets a state.
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
 *                    commit │     │   └── tries used up, or out for max_outage_ms
 *                           ▼     │       (from READY, SENDING, AWAITING)
 *                          GONE ◄─┘ commit
 *
 * Three rules are behind the drawing.
 *
 * What was sent is known to the database first. A chunk is SENDING only after its row says Sending,
 * and it is AWAITING only after its row has the name of the ack. An owner that dies leaves a chunk
 * that the next one finds and sends under the same key, or waits for.
 *
 * A stored ack decides. The API has answered 200 for it, so it counts in every state in which the
 * chunk is the worker's (not SENDING, where it is the HTTP client's thread's; it is looked for
 * again after the answer). A commit of JUDGED passes over a row that has an ack; then the chunk
 * awaits what is there already.
 *
 * An outage uses up no tries. While the breaker has been keeping chunks back, a failed call was the
 * breaker's own question whether the peer is back; only max_outage_ms ends a chunk then.
 *
 * Dropped is what becomes of every chunk when its batch leaves its owner before the chunk was
 * settled: the next owner cuts it again. GONE has no way out, so nothing that is settled is sent.
 */
#ifndef DF_IMPORTS_CHUNK_STATE_H
#define DF_IMPORTS_CHUNK_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum import_chunk_state {
    CHUNK_NEW,       /* being cut */
    CHUNK_READY,     /* to be sent as soon as the breaker permits it */
    CHUNK_PERMITTED, /* by the breaker; its row is being committed as Sending */
    CHUNK_SENDING,   /* the call is under way: the HTTP client's thread has it */
    CHUNK_WAITING,   /* until due_ms, then READY */
    CHUNK_NAMED,     /* a 202 has named its ack, which is not committed yet */
    CHUNK_AWAITING,  /* an ack, until due_ms */
    CHUNK_JUDGED,    /* its items have their results: to be settled by them */
    CHUNK_ACKED,     /* its items have those of its stored ack: to be settled by that */
    CHUNK_GONE,      /* settled, or left to the next owner */
    CHUNK_STATES
};

enum import_chunk_event {
    CHUNK_EV_CUT,            /* there is something to send */
    CHUNK_EV_CUT_EMPTY,      /* there is not */
    CHUNK_EV_FOUND_AWAITING, /* an earlier owner sent it, and was waiting for its ack */
    CHUNK_EV_FOUND_ACKED,    /* an earlier owner sent it, and its ack is there */
    CHUNK_EV_PERMIT,         /* the breaker lets it through */
    CHUNK_EV_NO_PERMIT,
    CHUNK_EV_SEND_STORED, /* the row says Sending */
    CHUNK_EV_ANSWER_RESULTS,
    CHUNK_EV_ANSWER_PROMISE, /* 202: the ack comes later */
    CHUNK_EV_ANSWER_AGAIN,   /* none, or one that may be better later */
    CHUNK_EV_ANSWER_REFUSED, /* for good */
    CHUNK_EV_ANSWER_CUT_OFF, /* the process ends */
    CHUNK_EV_PROMISE_STORED, /* the row says AwaitingAck, and has the ack's name */
    CHUNK_EV_ACK,            /* one is stored */
    CHUNK_EV_TICK,           /* time has passed */
    CHUNK_EV_SETTLED,        /* by the commit */
    CHUNK_EV_PASSED_OVER,    /* by the commit: its row has an ack, or was settled before */
    CHUNK_EV_DROPPED,        /* its batch leaves this owner */
    CHUNK_EVENTS
};

enum import_chunk_action {
    CHUNK_NOTHING,
    CHUNK_SEND,
    CHUNK_RETURN_PERMIT,
    CHUNK_WAIT_FOR_BREAKER,
    CHUNK_WAIT_TO_RETRY,
    CHUNK_WAIT_FOR_EVER, /* nobody waits: the process ends */
    CHUNK_WAIT_FOR_ACK,
    CHUNK_APPLY_ACK,
    CHUNK_RESEND,         /* no ack came in time */
    CHUNK_FAIL,           /* its items get the error of its last attempt */
    CHUNK_FAIL_NO_ACK,    /* likewise, since no ack came in time */
    CHUNK_FAIL_BY_OUTAGE, /* they get that the peer could not be reached for so long */
    CHUNK_COUNT_SETTLED,
    CHUNK_IMPOSSIBLE, /* a mistake in the program */
    CHUNK_ACTIONS
};

/* What the decision depends on, beside state and event. */
struct import_chunk_facts {
    int64_t now_ms;          /* monotonic, as all of them */
    int64_t due_ms;          /* of WAITING and AWAITING */
    int64_t outage_since_ms; /* -1: there is none */
    int64_t max_outage_ms;
    bool was_last_try;
};

struct import_chunk_step {
    enum import_chunk_state state;
    enum import_chunk_action action;
};

/* Of CHUNK_IMPOSSIBLE the state is the one before. */
struct import_chunk_step import_chunk_step(enum import_chunk_state state,
                                           enum import_chunk_event event,
                                           const struct import_chunk_facts *f);

#endif
