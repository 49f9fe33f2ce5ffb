/*
 * Any bytes as a configuration file: loading ends, is clean, and either gives settings that print
 * as a file that loads again to the same, or complaints that are whole lines of valid text.
 */
#include "base/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct settings {
    char *text;
    char *other;
    int64_t number;
    bool flag;
    int choice;
    uint32_t flags;
    struct df_int_list list;
    struct df_secret *secret;
};

static const char *const choices[] = {"one", "two", "three", NULL};

#define KEY(s, k, t, field)                                                                        \
    .section = (s), .key = (k), .type = (t), .offset = offsetof(struct settings, field)

static const struct df_config_key keys[] = {
    {KEY("a", "text", DF_CFG_STRING, text), .def = "x", .help = ""},
    {KEY("a", "number", DF_CFG_INT, number), .def = "1", .min = -5, .max = 1000, .help = ""},
    {KEY("a", "flag", DF_CFG_BOOL, flag), .def = "on", .help = ""},
    {KEY("b", "choice", DF_CFG_ENUM, choice), .def = "two", .choices = choices, .help = ""},
    {KEY("b", "flags", DF_CFG_FLAGS, flags), .def = "all", .choices = choices, .help = ""},
    {KEY("b", "list", DF_CFG_INT_LIST, list), .def = "1,2", .min = 0, .max = 9, .help = ""},
    {KEY("a", "other", DF_CFG_STRING, other), .max = 12, .help = ""},
    {KEY("c", "secret", DF_CFG_SECRET, secret), .help = ""},
};
static const struct df_config_table table = {keys, sizeof(keys) / sizeof(keys[0])};

static void require(bool holds)
{
    if (!holds)
        abort();
}

static enum df_code load(int fd, struct df_str ini, struct settings *settings,
                         struct df_buf *complaints)
{
    char path[32];
    const struct df_config_sources src = {.file = path};

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

    if (fd < 0)
        fd = memfd_create("config", MFD_CLOEXEC);
    df_buf_init(&complaints, 1 << 20);
    df_buf_init(&printed, 1 << 20);
    df_buf_init(&again, 1 << 20);
    if (load(fd, df_str_n((const char *)data, size), &settings, &complaints) == DF_OK) {
        require(complaints.len == 0);
        df_config_print(&table, &settings, &printed);
        df_config_release(&table, &settings);
        require(load(fd, df_buf_str(&printed), &settings, &complaints) == DF_OK);
        df_config_print(&table, &settings, &again);
        df_config_release(&table, &settings);
        require(df_str_eq(df_buf_str(&printed), df_buf_str(&again)));
    } else {
        check_complaints(&complaints);
    }
    df_buf_release(&complaints);
    df_buf_release(&printed);
    df_buf_release(&again);
    return 0;
}
