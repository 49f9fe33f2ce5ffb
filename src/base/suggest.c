#include "base/suggest.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edits that make one of the other, where two neighbours that changed places are one edit. */
static size_t distance_of(struct df_str a, struct df_str b)
{
    size_t rows[3][DF_SUGGEST_MAX + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b.len; j++)
        above[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            char x = lower(a.ptr[i - 1]), y = lower(b.ptr[j - 1]);
            row[j] = least(above[j - 1] + (x != y), least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && x == lower(b.ptr[j - 2]) && y == lower(a.ptr[i - 2]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[b.len];
}

void df_suggest_try(struct df_suggest *s, const char *known)
{
    struct df_str name = df_str_c(known);

    if (s->typed.len == 0 || s->typed.len > DF_SUGGEST_MAX || name.len > DF_SUGGEST_MAX)
        return;
    size_t distance = distance_of(s->typed, name);
    size_t near = name.len < 6 ? 1 : name.len / 3;
    if (distance <= near && distance < name.len && (!s->best || distance < s->distance)) {
        s->best = known;
        s->distance = distance;
    }
}
