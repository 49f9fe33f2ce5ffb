/*
 * Configuration from tables: name, type, unit, default, range, whether it is secret, where the
 * value goes, and a line of help. Parsing, `check-config`, `help config` and docs/configuration.md
 * all use them. Each room has tables for its own settings, which fill a struct of the room; the
 * program assigns each table a section and a place for the struct in its settings.
 *
 * Order of precedence, later wins: default, INI file, environment (DATAFLOW_<SECTION>_<KEY>), --set
 * section.key=value. An unknown section or key, a value of the wrong type or out of range, a key
 * given twice in the file and an unreadable file are refused, all of them at once, each with its
 * file and line (or the variable's or option's name).
 *
 * A number is stored in the unit that the code uses: when lock_timeout_minutes fills a member
 * lock_timeout_ms, the table says DF_MINUTES. Range, default and messages are in the written unit.
 *
 * A group is any number of sections with the same keys, [prefix.NAME]; each fills one element of an
 * array, in the order of first appearance. Every source may create one: [relay.orders] in the file,
 * --set relay.orders.url=…, DATAFLOW_RELAY_ORDERS_URL=…. Names are compared without regard to case.
 * In a variable, the longest matching key at the end is the key and the text before it is the name,
 * where '_' also stands for '-'; if no section has that name, one is created with the name in lower
 * case.
 *
 * A key with DF_CFG_SECRET or DF_CFG_URL also exists as <key>_file: the path of a file that holds
 * the value (one trailing newline is dropped). Giving both in one source is refused; from two
 * sources the later wins. Secrets are kept in struct df_secret and are never printed. A file with a
 * secret, this or the INI file, that other users may read gives a warning.
 *
 * Only environment variables that begin with DATAFLOW_ are read. One that names a section but no
 * key of it is refused. One that names no section is ignored: it has another reader, as
 * DATAFLOW_CONFIG and DATAFLOW_TEST_* have.
 *
 * The settings struct is plain data owned by the caller; df_config_release frees its strings.
 */
#ifndef DF_BASE_CONFIG_H
#define DF_BASE_CONFIG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/lang.h"
#include "base/secret.h"

enum df_config_type {
    DF_CFG_STRING,   /* const char *, NULL when unset and without a default */
    DF_CFG_SECRET,   /* const struct df_secret *, NULL when unset */
    DF_CFG_URL,      /* const char * like STRING, but may hold a password: shown without it */
    DF_CFG_INT,      /* int64_t, min..max; DF_CFG_INT_UNSET when unset and without a default */
    DF_CFG_BOOL,     /* bool: on/off, true/false, yes/no, 1/0 */
    DF_CFG_ENUM,     /* int: index into `choices` */
    DF_CFG_FLAGS,    /* uint32_t: comma separated names of `choices`, or "all" */
    DF_CFG_INT_LIST, /* struct df_int_list: comma separated, each min..max */
};

#define DF_CFG_INT_UNSET INT64_MIN
#define DF_INT_LIST_MAX  16

struct df_int_list {
    int64_t items[DF_INT_LIST_MAX];
    size_t count;
};

struct df_config_key {
    const char *key;
    enum df_config_type type;
    bool empty_is_none; /* STRING, URL: an empty text counts as unset */
    size_t offset;      /* in the room's struct */
    const char *def;    /* as written in a file; NULL: unset */
    int64_t min;        /* INT, INT_LIST; for STRING the longest length is max, 0: 4096 */
    int64_t max;
    int64_t unit;               /* INT, INT_LIST: the written value is multiplied by this; 0: 1 */
    const char *const *choices; /* ENUM, FLAGS: NULL-terminated */
    const char *help;
};

/* Units of keys: the member is in milliseconds, or in bytes. */
#define DF_SECONDS INT64_C(1000)
#define DF_MINUTES INT64_C(60000)
#define DF_HOURS   INT64_C(3600000)
#define DF_DAYS    INT64_C(86400000)
#define DF_MIB     (INT64_C(1) << 20)

/*
 * A row of a table. T is the struct, m the member; a member of the wrong type does not compile. A
 * table ends with a key that is NULL.
 */
#define DF_CFG_AT(T, m, type) _Generic(((T *)0)->m, type : offsetof(T, m))
#define DF_CFG_TEXT(name, T, m, kind, standard, what)                                              \
    .key = (name), .type = (kind), .offset = DF_CFG_AT(T, m, const char *), .def = (standard),     \
    .help = (what)
#define DF_KEY_STRING(name, T, m, standard, what)                                                  \
    {                                                                                              \
        DF_CFG_TEXT(name, T, m, DF_CFG_STRING, standard, what)                                     \
    }
#define DF_KEY_OPTIONAL(name, T, m, what)                                                          \
    {                                                                                              \
        DF_CFG_TEXT(name, T, m, DF_CFG_STRING, NULL, what), .empty_is_none = true                  \
    }
#define DF_KEY_URL(name, T, m, what)                                                               \
    {                                                                                              \
        DF_CFG_TEXT(name, T, m, DF_CFG_URL, NULL, what)                                            \
    }
#define DF_KEY_OPTIONAL_URL(name, T, m, what)                                                      \
    {                                                                                              \
        DF_CFG_TEXT(name, T, m, DF_CFG_URL, NULL, what), .empty_is_none = true                     \
    }
#define DF_KEY_SECRET(name, T, m, what)                                                            \
    {                                                                                              \
        .key = (name), .type = DF_CFG_SECRET, .help = (what),                                      \
        .offset = DF_CFG_AT(T, m, const struct df_secret *)                                        \
    }
#define DF_KEY_INT_IN(u, name, T, m, standard, lo, hi, what)                                       \
    {                                                                                              \
        .key = (name), .type = DF_CFG_INT, .offset = DF_CFG_AT(T, m, int64_t), .def = (standard),  \
        .min = (lo), .max = (hi), .unit = (u), .help = (what)                                      \
    }
#define DF_KEY_INT(name, T, m, standard, lo, hi, what)                                             \
    DF_KEY_INT_IN(1, name, T, m, standard, lo, hi, what)
#define DF_KEY_INT_LIST(name, T, m, standard, lo, hi, what)                                        \
    {                                                                                              \
        .key = (name), .type = DF_CFG_INT_LIST, .offset = DF_CFG_AT(T, m, struct df_int_list),     \
        .def = (standard), .min = (lo), .max = (hi), .help = (what)                                \
    }
#define DF_KEY_BOOL(name, T, m, standard, what)                                                    \
    {                                                                                              \
        .key = (name), .type = DF_CFG_BOOL, .offset = DF_CFG_AT(T, m, bool), .def = (standard),    \
        .help = (what)                                                                             \
    }
#define DF_KEY_ENUM(name, T, m, standard, list, what)                                              \
    {                                                                                              \
        .key = (name), .type = DF_CFG_ENUM, .offset = DF_CFG_AT(T, m, int), .def = (standard),     \
        .choices = (list), .help = (what)                                                          \
    }
#define DF_KEY_FLAGS(name, T, m, standard, list, what)                                             \
    {                                                                                              \
        .key = (name), .type = DF_CFG_FLAGS, .offset = DF_CFG_AT(T, m, uint32_t),                  \
        .def = (standard), .choices = (list), .help = (what)                                       \
    }

/* A table in a section. Rooms may share a section, which is then listed once for each table. */
struct df_config_section {
    const char *name;
    const struct df_config_key *keys;
    size_t offset; /* of the room's struct in the settings */
};

#define DF_CFG_SECTIONS_MAX 64 /* of one group */
#define DF_CFG_NAME_MAX     64

/* The element is plain data, zeroed before its defaults are set. */
struct df_config_group {
    const char *prefix;
    const struct df_config_key *keys;
    size_t size;         /* of an element */
    size_t name_offset;  /* const char * in the element: NAME as it was first written */
    const char *help;    /* for the reference: what a section is */
    const char *example; /* an example as INI text */
};

/* Where in the settings a group's elements are. */
struct df_config_group_at {
    const struct df_config_group *group;
    size_t items_offset; /* pointer to the elements; NULL: none */
    size_t count_offset; /* size_t */
};

struct df_config_table {
    const struct df_config_section *sections; /* ended by one without a name */
    const struct df_config_group_at *groups;  /* ended by one without a group; NULL: none */
};

struct df_config_sources {
    const char *file;        /* NULL: none */
    char *const *env;        /* NULL-terminated, as environ */
    const char *const *sets; /* "section.key=value" */
    size_t set_count;
    struct df_buf *warnings; /* unwise settings that are accepted, one a line; NULL: not wanted */
    enum df_lang lang;       /* of complaints */
    bool keep; /* a failure releases nothing: keys whose values were refused keep their defaults */
};

/*
 * Fills *settings (zeroed by the caller). On failure *complaints holds every complaint, one a line,
 * and the values set so far are released, unless src->keep.
 */
enum df_code df_config_load(const struct df_config_table *t, const struct df_config_sources *src,
                            void *settings, struct df_buf *complaints) DF_MUST_CHECK;
/* Whether a complaint "[section] key: …" is about a key of which a line of `told` complains
 * already: its value was refused there, and here its default is judged. */
bool df_config_is_told(struct df_str complaint, struct df_str told);
void df_config_release(const struct df_config_table *t, void *settings);

/* Unset numbers of a room's struct are copied from another one. */
void df_config_inherit(const struct df_config_key *keys, void *settings, const void *from);

/* The effective configuration as an INI file, secrets as "(set)". */
void df_config_print(const struct df_config_table *t, const void *settings, struct df_buf *out);

/* The same as a JSON object of sections, each an object of keys; values are texts, null: unset. */
void df_config_print_json(const struct df_config_table *t, const void *settings,
                          struct df_buf *out);

/*
 * What a key is: its help, values, default, variable and option. name is section.key (in a group
 * also prefix.key or prefix.NAME.key), a key alone, or a section for all of its keys. False: there
 * is none, and *ret_near is the nearest name as section.key, in the arena, or NULL.
 */
bool df_config_print_key(const struct df_config_table *t, struct df_str name, enum df_lang lang,
                         struct df_arena *a, struct df_buf *out, const char **ret_near);

/* The reference as Markdown: a table for each section and group. */
void df_config_print_docs(const struct df_config_table *t, struct df_buf *out);

#endif
