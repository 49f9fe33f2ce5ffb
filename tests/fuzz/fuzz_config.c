/*
 * Any bytes as a configuration file and, behind NUL bytes, as options and variables in turn:
 * loading ends, is clean, and either gives settings that print as a file that loads again to the
 * same, or complaints that are whole lines of valid text.
 */
#include "base/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct settings {
    const char *text;
    const char *other;
    int64_t number;
    int64_t scaled;
    bool flag;
    int choice;
    uint32_t flags;
    struct df_int_list list;
    const struct df_secret *secret;
    struct item *items;
    size_t item_count;
};

struct item {
    const char *name;
    const char *text;
    int64_t number;
    const struct df_secret *secret;
};

static const char *const choices[] = {"one", "two", "three", NULL};

#define S struct settings

static const struct df_config_key a_keys[] = {
    DF_KEY_STRING("text", S, text, "x", ""),
    DF_KEY_INT("number", S, number, "1", -5, 1000, ""),
    DF_KEY_INT_IN(DF_MINUTES, "scaled", S, scaled, "2", INT64_MIN, INT64_MAX, ""),
    DF_KEY_BOOL("flag", S, flag, "on", ""),
    {.key = NULL},
};
static const struct df_config_key b_keys[] = {
    DF_KEY_ENUM("choice", S, choice, "two", choices, ""),
    DF_KEY_FLAGS("flags", S, flags, "all", choices, ""),
    DF_KEY_INT_LIST("list", S, list, "1,2", 0, 9, ""),
    {.key = NULL},
};
static const struct df_config_key other_keys[] = {
    DF_KEY_OPTIONAL("other", S, other, ""),
    {.key = NULL},
};
static const struct df_config_key c_keys[] = {
    DF_KEY_SECRET("secret", S, secret, ""),
    {.key = NULL},
};
static const struct df_config_section sections[] = {
    {"a", a_keys, 0}, {"b", b_keys, 0}, {"a", other_keys, 0}, {"c", c_keys, 0}, {.name = NULL},
};

static const struct df_config_key item_keys[] = {
    DF_KEY_STRING("text", struct item, text, "x", ""),
    DF_KEY_INT("number", struct item, number, NULL, -5, 1000, ""),
    DF_KEY_SECRET("a_number", struct item, secret, ""),
    {.key = NULL},
};
static const struct df_config_group group = {
    .prefix = "g",
    .keys = item_keys,
    .size = sizeof(struct item),
    .name_offset = offsetof(struct item, name),
};
static const struct df_config_group_at groups[] = {
    {&group, offsetof(struct settings, items), offsetof(struct settings, item_count)},
    {.group = NULL},
};
static const struct df_config_table table = {.sections = sections, .groups = groups};

#define EXTRAS_MAX 80

/* Options and variables; malloc'ed, so that reading past one is found. */
struct extras {
    char *sets[EXTRAS_MAX];
    size_t set_count;
    char *env[EXTRAS_MAX + 1];
    size_t env_count;
};

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void take_extras(struct df_str rest, struct extras *ret)
{
    *ret = (struct extras){.set_count = 0};
    while (rest.ptr && ret->env_count < EXTRAS_MAX) {
        struct df_str one;
        rest = df_str_cut(rest, '\0', &one);
        ret->sets[ret->set_count++] = strndup(one.ptr, one.len);
        if (!rest.ptr)
            break;
        rest = df_str_cut(rest, '\0', &one);
        require(asprintf(&ret->env[ret->env_count++], "DATAFLOW_" DF_STR_FMT, DF_STR_ARG(one)) > 0);
    }
}

static void free_extras(struct extras *x)
{
    for (size_t i = 0; i < x->set_count; i++)
        free(x->sets[i]);
    for (size_t i = 0; i < x->env_count; i++)
        free(x->env[i]);
}

static enum df_code load(int fd, struct df_str ini, const struct extras *x,
                         struct settings *settings, struct df_buf *complaints)
{
    char path[32];
    const struct df_config_sources src = {.file = path,
                                          .env = x->env,
                                          .sets = (const char *const *)x->sets,
                                          .set_count = x->set_count};

    require(ftruncate(fd, 0) == 0 && pwrite(fd, ini.ptr, ini.len, 0) == (ssize_t)ini.len);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    *settings = (struct settings){0};
    return df_config_load(&table, &src, settings, complaints);
}

static void check_complaints(const struct df_buf *complaints)
{
    struct df_str s = df_buf_str(complaints);
    require(s.len > 0 && s.ptr[s.len - 1] == '\n' && !df_buf_failed(complaints));
    require(df_utf8_valid_prefix(s) == s.len);
    for (size_t i = 0; i < s.len; i++)
        require((unsigned char)s.ptr[i] >= ' ' || s.ptr[i] == '\n');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct settings settings;
    struct df_buf complaints, printed, again;
    struct df_str ini;
    struct extras extras;
    const struct extras none = {.set_count = 0};

    if (fd < 0)
        fd = memfd_create("config", MFD_CLOEXEC);
    df_buf_init(&complaints, 1 << 20);
    df_buf_init(&printed, 1 << 20);
    df_buf_init(&again, 1 << 20);
    take_extras(df_str_cut(df_str_n((const char *)data, size), '\0', &ini), &extras);
    if (load(fd, ini, &extras, &settings, &complaints) == DF_OK) {
        require(complaints.len == 0);
        df_config_print(&table, &settings, &printed);
        df_config_release(&table, &settings);
        require(load(fd, df_buf_str(&printed), &none, &settings, &complaints) == DF_OK);
        df_config_print(&table, &settings, &again);
        df_config_release(&table, &settings);
        require(df_str_eq(df_buf_str(&printed), df_buf_str(&again)));
    } else {
        check_complaints(&complaints);
    }
    free_extras(&extras);
    df_buf_release(&complaints);
    df_buf_release(&printed);
    df_buf_release(&again);
    return 0;
}
