#include "tabular/formula.h"

/* The sign that s begins with, and its length in *ret_len; 0: no sign. Some programs read the
 * full-width =, +, - and @ (U+FF1D, U+FF0B, U+FF0D, U+FF20; all begin with EF BC) as the ASCII
 * ones. */
static char sign_of(struct df_str s, size_t *ret_len)
{
    static const struct {
        char last, narrow;
    } wide[] = {{'\x9D', '='}, {'\x8B', '+'}, {'\x8D', '-'}, {'\xA0', '@'}};

    static const char narrow[] = {'=', '+', '-', '@', '\t', '\r', '\n'};

    *ret_len = s.len > 0 && memchr(narrow, s.ptr[0], sizeof(narrow)) ? 1 : 0;
    if (*ret_len > 0 || s.len < 3 || s.ptr[0] != '\xEF' || s.ptr[1] != '\xBC')
        return *ret_len > 0 ? s.ptr[0] : '\0';
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
        if (s.ptr[2] == wide[i].last) {
            *ret_len = 3;
            return wide[i].narrow;
        }
    }
    return '\0';
}

/* A phone in E.164 is harmless and must stay as it is. */
static bool is_formula(struct df_str s)
{
    static const char harmless[] = {'0', '1', '2', '3', '4', '5', '6', '7',
                                    '8', '9', ' ', '(', ')', '.', ',', '-'};
    size_t len = 0;
    char sign = sign_of(s, &len);

    if (len == 0)
        return false;
    if (sign != '+' && sign != '-')
        return true;
    for (size_t i = len; i < s.len; i++)
        if (!memchr(harmless, s.ptr[i], sizeof(harmless)))
            return true;
    return false;
}

bool df_formula_needs_guard(struct df_str s)
{
    while (s.len > 0 && s.ptr[0] == '\'') {
        s.ptr++;
        s.len--;
    }
    return is_formula(s);
}
