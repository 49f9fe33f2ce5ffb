/* Reads as much of a statement as is needed to know a plain INSERT. */
#include "store/insert.h"

#include "base/str.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool word_at(const char *p, const char *word)
{
    size_t len = strlen(word);
    return strncasecmp(p, word, len) == 0 && !isalnum((unsigned char)p[len]) && p[len] != '_';
}

const char *df_insert_skip_quoted(const char *p)
{
    char quote = *p++;
    while (*p && (*p != quote || p[1] == quote))
        p += *p == quote ? 2 : 1;
    return *p ? p + 1 : p;
}

/* The parenthesis that closes the one at p; NULL: there is none. */
static const char *find_close(const char *p)
{
    int depth = 0;

    while (*p) {
        if (*p == '\'' || *p == '"') {
            p = df_insert_skip_quoted(p);
            continue;
        }
        depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
        if (depth == 0)
            return p;
        p++;
    }
    return NULL;
}

bool df_insert_find(const char *sql, struct df_insert *ret)
{
    struct df_insert v = {0};

    if (!word_at(sql, "INSERT"))
        return false;
    for (const char *p = sql; *p;) {
        bool start = p == sql || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
        if (*p == '\'' || *p == '"') {
            p = df_insert_skip_quoted(p);
            continue;
        }
        if (start && !v.word && word_at(p, "VALUES"))
            v.word = p;
        /* Several statements, other kinds of INSERT, or syntax that is not understood here. */
        if (*p == ';' || *p == '[' || ((*p == '?' || *p == '$') && !v.word) ||
            (start && (word_at(p, "SELECT") || word_at(p, "OUTPUT") || word_at(p, "RETURNING"))))
            return false;
        p++;
    }
    if (!v.word)
        return false;
    v.open = v.word + strlen("VALUES");
    while (isspace((unsigned char)*v.open))
        v.open++;
    v.close = *v.open == '(' ? find_close(v.open) : NULL;
    if (!v.close || df_str_trim(df_str_c(v.close + 1)).len > 0)
        return false; /* more than one list, or something behind it */
    *ret = v;
    return true;
}
