/*
 * Written here and not taken from libinih: as Debian builds it, that cuts lines at 200 bytes
 * without a word, takes " ;" inside a value (a URL, a password) as the start of a comment, joins
 * indented lines to the value before them, and reports the first faulty line only.
 *
 * Here a line is blank, a comment (# or ; as its first character), a [section] or key = value. The
 * value is the rest of the line without the blanks around it; no character in it is special. So
 * there is no reference to compare with: tests/unit/base/config_test.c has what is meant, and in
 * tests/fuzz/fuzz_config.c the printed configuration loads again and is the same.
 */
#include "base/ini.h"

const char *df_ini_text_fault(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c == '\0')
            return "a NUL byte is not allowed";
        if ((c < ' ' && c != '\t') || c == 0x7F)
            return "control characters are not allowed";
    }
    return df_utf8_valid_prefix(s) < s.len ? "the text is not valid UTF-8" : NULL;
}

static const char *read_section(struct df_str line, struct df_str *section)
{
    struct df_str name = {NULL, 0};
    if (line.ptr[line.len - 1] == ']')
        name = df_str_trim(df_str_n(line.ptr + 1, line.len - 2));

    /* Entries after a faulty header belong to no section: they are skipped rather than misfiled. */
    *section = name.len > 0 ? name : DF_STR_NULL;
    return name.len > 0 ? NULL : "a section is written [name], with nothing after it";
}

static const char *read_entry(const struct df_ini_handler *h, size_t number, struct df_str section,
                              struct df_str line)
{
    struct df_str key;
    struct df_str value = df_str_cut(line, '=', &key);

    key = df_str_trim(key);
    if (!value.ptr)
        return "expected [section] or key = value";
    if (key.len == 0)
        return "the name before \"=\" is missing";
    h->entry(h->arg, number, section, key, df_str_trim(value));
    return NULL;
}

void df_ini_read(struct df_str text, const struct df_ini_handler *h)
{
    struct df_str section = DF_STR_NULL;
    bool any_section = false;

    if (df_str_starts(text, DF_STR("\xEF\xBB\xBF")))
        text = df_str_n(text.ptr + 3, text.len - 3);
    for (size_t number = 1; text.ptr; number++) {
        struct df_str line;
        const char *fault = NULL;

        text = df_str_cut(text, '\n', &line);
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        if (line.len > DF_INI_LINE_MAX_BYTES)
            fault = "the line is too long";
        else
            fault = df_ini_text_fault(line);
        line = df_str_trim(line);

        if (!fault && line.len > 0 && line.ptr[0] != '#' && line.ptr[0] != ';') {
            if (line.ptr[0] == '[') {
                any_section = true;
                fault = read_section(line, &section);
                if (!fault)
                    h->section(h->arg, number, section);
            } else if (section.ptr) {
                fault = read_entry(h, number, section, line);
            } else if (!any_section) {
                fault = "a [section] must come first";
            }
        }
        if (fault)
            h->complaint(h->arg, number, fault);
    }
}
