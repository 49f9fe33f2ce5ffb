/* "Did you mean …?": the known name that is nearest to a mistyped one. */
#ifndef DF_BASE_SUGGEST_H
#define DF_BASE_SUGGEST_H

#include "base/str.h"

/* Longer names are compared with nothing. */
#define DF_SUGGEST_MAX 64

struct df_suggest {
    struct df_str typed;
    const char *best; /* NULL: nothing is near enough */
    size_t distance;  /* of the best */
};

/* Begins with typed set and the rest zero; then one call for each known name, which must outlive
 * the struct. A name is near if at most a third of its letters, and at least one, would have to be
 * changed, added, left out or swapped with their neighbour; case does not count. */
void df_suggest_try(struct df_suggest *s, const char *known);

#endif
