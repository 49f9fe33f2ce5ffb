/* How sections and keys are spelled in the environment. */
#include "base/config_private.h"

char df_config_env_char(char c)
{
    if (c >= 'a' && c <= 'z')
        return (char)(c - 'a' + 'A');
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
}

/* Whether a part of a variable's name is this text. */
static bool is_spelled(struct df_str part, struct df_str text)
{
    bool same = part.len == text.len;
    for (size_t i = 0; same && i < part.len; i++)
        same = part.ptr[i] == df_config_env_char(text.ptr[i]);
    return same;
}

struct df_str df_config_env_behind(struct df_str name, const char *section)
{
    struct df_str text = df_str_c(section);
    size_t begin = strlen(DF_CFG_ENV_PREFIX);
    size_t end = begin + text.len;

    if (name.len <= end || name.ptr[end] != '_' ||
        !is_spelled(df_str_n(name.ptr + begin, text.len), text))
        return DF_STR_NULL;
    return df_str_n(name.ptr + end + 1, name.len - end - 1);
}

bool df_config_env_ends(struct df_str s, const struct df_config_key *k, bool by_file,
                        struct df_str *ret_before)
{
    const struct df_str suffix = DF_STR("_FILE");
    struct df_str key = df_str_c(k->key);

    if (by_file && !df_str_ends(s, suffix))
        return false;
    s.len -= by_file ? suffix.len : 0;
    if (s.len < key.len || !is_spelled(df_str_n(s.ptr + s.len - key.len, key.len), key))
        return false;
    *ret_before = df_str_n(s.ptr, s.len - key.len);
    return true;
}
