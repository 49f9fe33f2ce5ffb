/*
 * The language of an answer, by Accept-Language (RFC 9110, 12.5.4): English or Portuguese.
 *
 * The quality of Portuguese is that of the range that fits best: pt-BR, then pt, then another
 * Portuguese such as pt-PT (whose readers it serves better than English), then *. English likewise.
 * The greater quality wins; of equal ones the range that stands first; English if nothing asks for
 * Portuguese. What is malformed is skipped. At most DF_LANGUAGE_RANGES_MAX ranges are read.
 */
#ifndef DF_NET_LANGUAGE_H
#define DF_NET_LANGUAGE_H

#include "base/lang.h"

#define DF_LANGUAGE_RANGES_MAX 64

struct df_language_ask {
    struct df_language_want {
        int fit;     /* how well the best range fits; 0: none does */
        int quality; /* in thousandths */
        int place;   /* of that range */
    } want[2];       /* by enum df_lang */
    int ranges;
};

/* One line of the header; several count as one list. The struct starts zeroed. */
void df_language_read(struct df_language_ask *ask, struct df_str value);
enum df_lang df_language_choose(const struct df_language_ask *ask);

#endif
