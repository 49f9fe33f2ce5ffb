#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "capture.h"
#include "fake_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN(a)   (sizeof(a) / sizeof((a)[0]))
#define HEAD     "{\"time\":\"2026-11-15T03:16:05.123Z\",\"level\":"
#define ELLIPSIS "\xE2\x80\xA6"

static struct df_fake_clock fake;

static int use_json(void **state)
{
    (void)state;
    df_fake_clock_init(&fake, INT64_C(1794712565123), 1);
    df_log_init(DF_LOG_DEBUG, DF_LOG_JSON, &fake.base);
    df_log_ctx_use(NULL);
    return 0;
}

/* --- a strict reader of flat JSON objects ----------------------------------------------------- */

static const char *skip_string(const char *p)
{
    if (*p++ != '"')
        return NULL;
    for (; *p != '"'; p++) {
        if ((unsigned char)*p < 0x20)
            return NULL;
        if (*p == '\\') {
            p++;
            if (*p == 'u') {
                if (strspn(p + 1, "0123456789abcdef") < 4)
                    return NULL;
                p += 4;
            } else if (!*p || !strchr("\"\\/bfnrt", *p)) {
                return NULL;
            }
        }
    }
    return p + 1;
}

static bool is_json_line(struct df_str line)
{
    char *text = strndup(line.ptr, line.len);
    const char *p = text;
    bool good = df_utf8_valid_prefix(line) == line.len && strlen(text) == line.len && *p == '{';

    while (good && (p = skip_string(p + 1)) && *p == ':') {
        p++;
        p = *p == '"' ? skip_string(p) : p + strspn(p, "-+.0123456789eEnultr");
        if (!p || *p != ',')
            break;
    }
    good = good && p && strcmp(p, "}") == 0;
    free(text);
    return good;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void a_line_is_an_object_with_its_members_in_order(void **state)
{
    (void)state;
    const struct df_log_field fields[] = {
        DF_F("client", DF_STR("acme")),
        DF_FI("rows", 500000),
        DF_FI("ratio", 0.1),
        DF_FI("debt", -3),
        DF_F("none", DF_STR_NULL),
        DF_F("empty", DF_STR("")),
    };
    capture();
    df_log_info("ServerStarted", "listening on %s", "127.0.0.1:80");
    df_log_write(DF_LOG_WARN, "Slow", fields, LEN(fields), "%s", "");
    assert_string_equal(
        captured_lines(), HEAD
        "\"info\",\"event\":\"ServerStarted\",\"message\":\"listening on 127.0.0.1:80\"}\n" HEAD
        "\"warn\",\"event\":\"Slow\",\"message\":\"\",\"client\":\"acme\",\"rows\":500000,"
        "\"ratio\":0.1,\"debt\":-3,\"empty\":\"\"}\n");
}

static void numbers_are_whole_where_they_can_be(void **state)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "0"},
        {123456789012345, "123456789012345"},
        {1e15, "1e+15"},
        {1.5, "1.5"},
        {0.30000000000000004, "0.30000000000000004"},
        {-2.25e-7, "-2.25e-07"},
        {(double)NAN, "null"},
        {(double)INFINITY, "null"},
    };
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        const struct df_log_field f = DF_FI("n", cases[i].v);
        char expected[200];
        capture();
        df_log_write(DF_LOG_INFO, "N", &f, 1, "m");
        snprintf(expected, sizeof(expected),
                 HEAD "\"info\",\"event\":\"N\",\"message\":\"m\",\"n\":%s}\n", cases[i].text);
        assert_string_equal(captured_lines(), expected);
    }
}

static void people_are_masked(void **state)
{
    struct df_log_ctx ctx = {.count = 0};
    char longer[3000], expected[3200];
    struct df_log_field fields[] = {
        DF_F("peer", DF_STR("answered: {\"phone\":\"+5511912345678\"}")),
        DF_F("id", DF_STR("11912345-1191-4123-8123-119123456789")),
        DF_FI("bytes", 11912345678),
    };
    (void)state;

    df_log_ctx_set(&ctx, "actor", DF_STR("maria@example.com"));
    df_log_ctx_use(&ctx);
    capture();
    df_log_write(DF_LOG_INFO, "E", fields, LEN(fields), "no %s", "123.456.789-09");
    assert_string_equal(captured_lines(), HEAD
                        "\"info\",\"event\":\"E\",\"message\":\"no "
                        "***.***.***-09\",\"actor\":\"m****@*******.com\","
                        "\"peer\":\"answered: {\\\"phone\\\":\\\"+***********78\\\"}\","
                        "\"id\":\"11912345-1191-4123-8123-119123456789\",\"bytes\":11912345678}\n");
    df_log_ctx_use(NULL);

    /* A number at the place where a long message is cut. */
    memset(longer, '-', sizeof(longer));
    memcpy(longer + 2040, "12345678909", 11);
    longer[2100] = '\0';
    capture();
    df_log_info("E", "%s", longer);
    snprintf(expected, sizeof(expected),
             HEAD "\"info\",\"event\":\"E\",\"message\":\"%.2040s*****" ELLIPSIS "\"}\n", longer);
    assert_string_equal(captured_lines(), expected);
}

static void text_is_escaped(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"quote \" slash \\ /", "quote \\\" slash \\\\ /"},
        {"a\nb\rc\td\be\f", "a\\nb\\rc\\td\\be\\f"},
        {"\x01\x1b[31m\x7f", "\\u0001\\u001b[31m\\u007f"},
        {"ol\xC3\xA1 \xE2\x82\xAC \xF0\x9F\x98\x80", "ol\xC3\xA1 \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"\xC2\x85|\xC2\x9B|\xC2\xA0", "\\u0085|\\u009b|\xC2\xA0"},
        {"\xE2\x80\xA8|\xE2\x80\xA9|\xE2\x80\xA7", "\\u2028|\\u2029|\xE2\x80\xA7"},
        {"\xFF|\xC3|\xED\xA0\x80|", "\xEF\xBF\xBD|\xEF\xBF\xBD|"
                                    "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD|"},
        {"trailing newline\n", "trailing newline"},
    };
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        char expected[300];
        capture();
        df_log_error("E", "%s", cases[i].in);
        snprintf(expected, sizeof(expected), HEAD "\"error\",\"event\":\"E\",\"message\":\"%s\"}\n",
                 cases[i].out);
        assert_string_equal(captured_lines(), expected);
    }
}

static void any_bytes_give_one_valid_line(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        char bytes[3][300];
        df_random(&fake.base, bytes, sizeof(bytes));
        bytes[0][299] = '\0';
        const struct df_log_field fields[] = {
            DF_F("a", df_str_n(bytes[1], df_random_below(&fake.base, 300))),
            DF_F("b", df_str_n(bytes[2], 300)),
        };
        capture();
        df_log_write(DF_LOG_INFO, "Bytes", fields, LEN(fields), "%s", bytes[0]);
        struct df_str line = df_str_c(captured_lines());
        assert_true(line.len > 0 && line.ptr[line.len - 1] == '\n');
        assert_true(is_json_line(df_str_n(line.ptr, line.len - 1)));
    }
}

static void a_long_message_is_cut_between_characters(void **state)
{
    static char text[20000];
    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 4 < sizeof(text); i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4);
        capture();
        df_log_info("Long", "%s", text);
        struct df_str line = df_str_c(captured_lines());
        assert_in_range(line.len, 2000, 4096);
        assert_true(is_json_line(df_str_n(line.ptr, line.len - 1)));
        assert_true(df_str_ends(line, DF_STR("\xE2\x82\xAC" ELLIPSIS "\"}\n")));
    }
}

/* Lengths around the message's limit, where a byte too many would show. */
static void a_message_is_cut_at_its_limit_only(void **state)
{
    static char text[5000];
    (void)state;
    for (size_t len = 2032; len < 2062; len++) {
        memset(text, 'x', len);
        text[len] = '\0';
        capture();
        df_log_info("Long", "%s", text);
        struct df_str line = df_str_c(captured_lines());
        bool cut = df_str_ends(line, DF_STR(ELLIPSIS "\"}\n"));
        assert_int_equal(cut, len > 2045);
        assert_true(is_json_line(df_str_n(line.ptr, line.len - 1)));
    }
}

static void a_line_too_long_loses_fields_and_says_so(void **state)
{
    static char text[2000];
    struct df_log_field fields[12];
    char names[12][4];
    (void)state;

    memset(text, '\x01', sizeof(text)); /* six bytes each when escaped */
    for (size_t i = 0; i < LEN(fields); i++) {
        snprintf(names[i], sizeof(names[i]), "f%zu", i);
        fields[i] = (struct df_log_field)DF_F(names[i], df_str_n(text, sizeof(text)));
    }
    fields[11] = (struct df_log_field)DF_FI("last", 1);
    capture();
    df_log_write(DF_LOG_INFO, "Wide", fields, LEN(fields), "%s", "m");
    struct df_str line = df_str_c(captured_lines());
    assert_in_range(line.len, 3000, 4096);
    assert_true(is_json_line(df_str_n(line.ptr, line.len - 1)));
    assert_true(df_str_ends(line, DF_STR(",\"last\":1,\"truncated\":true}\n")));
    assert_ptr_equal(strchr(line.ptr, '\n'), line.ptr + line.len - 1);
}

/* --- context ---------------------------------------------------------------------------------- */

static void context_is_in_every_line_until_it_is_taken_away(void **state)
{
    struct df_log_ctx ctx = {.count = 0};
    struct df_log_ctx inner = {.count = 0};
    (void)state;

    df_log_ctx_set(&ctx, "traceId", DF_STR("t1"));
    df_log_ctx_set(&ctx, "clientId", DF_STR("c1"));
    df_log_ctx_set(&ctx, "traceId", DF_STR("t2"));
    df_log_ctx_set(&ctx, "ip", DF_STR_NULL);
    df_log_ctx_set(&inner, "batchId", DF_STR("b1"));
    capture();
    assert_null(df_log_ctx_use(&ctx));
    df_log_info("A", "a");
    assert_ptr_equal(df_log_ctx_use(&inner), &ctx);
    df_log_info("B", "b");
    assert_ptr_equal(df_log_ctx_use(NULL), &inner);
    df_log_info("C", "c");
    assert_string_equal(
        captured_lines(), HEAD
        "\"info\",\"event\":\"A\",\"message\":\"a\",\"traceId\":\"t2\",\"clientId\":\"c1\"}\n" HEAD
        "\"info\",\"event\":\"B\",\"message\":\"b\",\"batchId\":\"b1\"}\n" HEAD
        "\"info\",\"event\":\"C\",\"message\":\"c\"}\n");
}

static void a_context_takes_no_more_than_it_holds(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    struct df_log_ctx ctx = {.count = 0};
    (void)state;

    for (size_t i = 0; i < LEN(names); i++)
        df_log_ctx_set(&ctx, names[i], DF_STR("x"));
    assert_int_equal(ctx.count, DF_LOG_CTX_MAX);
    df_log_ctx_set(&ctx, "h", DF_STR("y"));
    assert_true(df_str_eq(ctx.fields[7].text, DF_STR("y")));
}

static void names_are_unique_in_a_line(void **state)
{
    struct df_log_ctx ctx = {.count = 0};
    const struct df_log_field fields[] = {
        DF_F("id", DF_STR("first")),
        DF_F("id", DF_STR("own")),
        DF_F("event", DF_STR("mine")),
        DF_F("kept", DF_STR_NULL),
    };
    (void)state;

    df_log_ctx_set(&ctx, "id", DF_STR("context"));
    df_log_ctx_set(&ctx, "kept", DF_STR("context"));
    df_log_ctx_use(&ctx);
    capture();
    df_log_write(DF_LOG_INFO, "U", fields, LEN(fields), "m");
    assert_string_equal(captured_lines(),
                        HEAD "\"info\",\"event\":\"U\",\"message\":\"m\",\"kept\":\"context\","
                             "\"id\":\"own\",\"event_\":\"mine\"}\n");
    df_log_ctx_use(NULL);
}

/* --- levels and formats ----------------------------------------------------------------------- */

static void levels_below_are_silent(void **state)
{
    (void)state;
    df_log_init(DF_LOG_WARN, DF_LOG_JSON, &fake.base);
    capture();
    errno = ENOENT;
    df_log_info("Quiet", "x");
    df_log_warn("Loud", "x");
    assert_int_equal(errno, ENOENT);
    const char *lines = captured_lines();
    assert_null(strstr(lines, "Quiet"));
    assert_non_null(strstr(lines, "Loud"));
    assert_false(df_log_enabled(DF_LOG_INFO));
    assert_true(df_log_enabled(DF_LOG_ERROR));
}

static void text_is_for_people(void **state)
{
    const struct df_log_field fields[] = {
        DF_F("client", DF_STR("acme")),
        DF_F("path", DF_STR("a b")),
        DF_F("evil", DF_STR("\x1b[2J")),
        DF_F("empty", DF_STR("")),
        DF_FI("rows", 7),
    };
    (void)state;

    df_log_init(DF_LOG_DEBUG, DF_LOG_TEXT, &fake.base);
    capture();
    df_log_info("ServerStarted", "listening on %s", "x");
    df_log_write(DF_LOG_ERROR, "Failed", fields, LEN(fields), "%s", "");
    assert_string_equal(captured_lines(), "03:16:05.123 INFO  ServerStarted listening on x\n"
                                          "03:16:05.123 ERROR Failed client=acme path=\"a b\" "
                                          "evil=\"\\u001b[2J\" empty=\"\" rows=7\n");
}

/* What a line looks like on a terminal; NULL when there are no terminals here. */
static const char *on_terminal(enum df_log_format format)
{
    static char seen[4096];
    int master, slave;
    if (openpty(&master, &slave, NULL, NULL, NULL) != 0)
        return NULL;
    int saved = dup(2);
    dup2(slave, 2);
    df_log_init(DF_LOG_DEBUG, format, &fake.base);
    df_log_warn("Seen", "x");
    dup2(saved, 2);
    close(saved);
    ssize_t n = read(master, seen, sizeof(seen) - 1);
    close(slave);
    close(master);
    assert_true(n > 0);
    seen[n] = '\0';
    return seen;
}

static void a_terminal_gets_text_in_colour_unless_told_otherwise(void **state)
{
    (void)state;
    unsetenv("NO_COLOR"); /* NOLINT(concurrency-mt-unsafe): there is one thread */
    const char *line = on_terminal(DF_LOG_AUTO);
    if (!line)
        skip();
    assert_string_equal(line, "03:16:05.123 \033[33mWARN  \033[0;1mSeen\033[0m x\r\n");
    assert_int_equal(on_terminal(DF_LOG_JSON)[0], '{');
    setenv("NO_COLOR", "1", 1); /* NOLINT(concurrency-mt-unsafe): there is one thread */
    assert_string_equal(on_terminal(DF_LOG_AUTO), "03:16:05.123 WARN  Seen x\r\n");
    unsetenv("NO_COLOR"); /* NOLINT(concurrency-mt-unsafe): there is one thread */
}

static void a_file_gets_json_by_itself(void **state)
{
    (void)state;
    capture();
    df_log_init(DF_LOG_DEBUG, DF_LOG_AUTO, &fake.base);
    df_log_debug("D", "d");
    assert_string_equal(captured_lines(), HEAD "\"debug\",\"event\":\"D\",\"message\":\"d\"}\n");
}

/* --- libraries -------------------------------------------------------------------------------- */

static void what_a_library_prints_is_a_line_of_the_log(void **state)
{
    (void)state;
    capture();
    df_log_adopt_stderr();
    fprintf(stderr, "WARNING: \"%s\"\n", "x");
    errno = ENOENT;
    perror("y");
    fputs("one\n\ntwo", stderr);
    df_log_return_stderr();
    fputs("for people\n", stderr);
    assert_string_equal(
        captured_lines(), HEAD
        "\"warn\",\"event\":\"LibraryMessage\",\"message\":\"WARNING: \\\"x\\\"\"}\n" HEAD
        "\"warn\",\"event\":\"LibraryMessage\",\"message\":\"y: No such file or directory\"}\n" HEAD
        "\"warn\",\"event\":\"LibraryMessage\",\"message\":\"one\"}\n" HEAD
        "\"warn\",\"event\":\"LibraryMessage\",\"message\":\"two\"}\n"
        "for people\n");
}

/* --- threads ---------------------------------------------------------------------------------- */

enum { THREADS = 4, LINES = 500 };

static void *write_lines(void *arg)
{
    struct df_log_ctx ctx = {.count = 0};
    char id[2] = {*(const char *)arg, '\0'};

    df_log_ctx_set(&ctx, "thread", df_str_c(id));
    df_log_ctx_use(&ctx);
    for (int i = 0; i < LINES; i++)
        df_log_info("Line", "%s%s%s%s%s", id, id, id, id, id);
    df_log_ctx_use(NULL);
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state)
{
    pthread_t threads[THREADS];
    unsigned seen[THREADS] = {0};
    (void)state;

    capture();
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, write_lines, (void *)(uintptr_t) & "abcd"[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    struct df_str rest = df_str_c(captured_lines());
    while (rest.len > 0) {
        struct df_str line;
        char expected[200];
        rest = df_str_cut(rest, '\n', &line);
        assert_true(line.len > 2);
        char id = line.ptr[line.len - 3];
        assert_in_range(id, 'a', 'd');
        snprintf(expected, sizeof(expected),
                 HEAD "\"info\",\"event\":\"Line\",\"message\":\"%c%c%c%c%c\",\"thread\":\"%c\"}",
                 id, id, id, id, id, id);
        assert_true(df_str_eq(line, df_str_c(expected)));
        seen[id - 'a']++;
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(seen[i], LINES);
}

static void *write_long_lines(void *arg)
{
    static char text[3000];
    const struct df_log_field fields[] = {DF_F("a", df_str_n(text, 1000)),
                                          DF_F("b", df_str_n(text, 1000)), DF_F("c", DF_STR("c"))};
    (void)arg;

    for (int i = 0; i < LINES / 5; i++)
        df_log_write(DF_LOG_INFO, "Long", fields, LEN(fields), "%2500d", i);
    return NULL;
}

static void *close_after_long_lines(void *arg)
{
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_long_lines, NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    dup2(*(const int *)arg, STDERR_FILENO);
    return NULL;
}

/* As a collector of logs has them: in a pipe that is full now and then. */
static void long_lines_of_threads_do_not_mix_in_a_pipe(void **state)
{
    int ends[2];
    pthread_t writer;
    char *line = NULL;
    size_t room = 0;
    int lines = 0;
    int before = dup(STDERR_FILENO);
    (void)state;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0 && close(ends[1]) == 0);
    assert_int_equal(pthread_create(&writer, NULL, close_after_long_lines, &before), 0);
    FILE *in = fdopen(ends[0], "r");
    for (ssize_t len; (len = getline(&line, &room, in)) > 0; lines++)
        assert_true(is_json_line(df_str_n(line, (size_t)len - 1)));
    pthread_join(writer, NULL);
    assert_int_equal(lines, THREADS * (LINES / 5));
    free(line);
    (void)fclose(in);
    (void)close(before);
}

/* --- the second reader --- */

static char teed[8192];
static int teed_count, teed_level;
static int64_t teed_ms;

static void keep_line(void *arg, enum df_log_level level, int64_t wall_ms, struct df_str line)
{
    assert_ptr_equal(arg, teed);
    assert_true(line.len < sizeof(teed));
    memcpy(teed, line.ptr, line.len);
    teed[line.len] = '\0';
    teed_level = (int)level;
    teed_ms = wall_ms;
    teed_count++;
}

static void a_second_reader_gets_json_whatever_standard_error_has(void **state)
{
    (void)state;
    struct df_log_field fields[] = {DF_F("phone", DF_STR("+5551987654321")), DF_FI("n", 3)};
    const char *want = HEAD "\"warn\",\"event\":\"Told\",\"message\":\"a \\\"b\\\"\",\"phone\":";
    for (int format = DF_LOG_JSON; format <= DF_LOG_TEXT; format++) {
        df_log_init(DF_LOG_INFO, (enum df_log_format)format, &fake.base);
        teed_count = 0;
        df_log_tee(keep_line, teed);
        capture();
        df_log_write(DF_LOG_WARN, "Told", fields, 2, "a \"b\"");
        df_log_debug("Silent", "below the level");
        char *written = captured_lines();
        df_log_tee(NULL, NULL);
        assert_int_equal(teed_count, 1);
        assert_int_equal(teed_level, DF_LOG_WARN);
        assert_true(teed_ms == INT64_C(1794712565123));
        assert_memory_equal(teed, want, strlen(want));
        assert_null(strstr(teed, "7654321"));
        assert_true(is_json_line(df_str_c(teed)));
        if (format == DF_LOG_JSON) { /* the very line, without its end */
            assert_memory_equal(written, teed, strlen(teed));
            assert_string_equal(written + strlen(teed), "\n");
        }
        capture();
        df_log_info("Over", "nobody listens");
        (void)captured_lines();
        assert_int_equal(teed_count, 1);
    }
}

static _Atomic bool ended, late;

static void use_after_end(void *arg, enum df_log_level level, int64_t wall_ms, struct df_str line)
{
    (void)arg;
    (void)level;
    (void)wall_ms;
    (void)line;
    if (ended)
        late = true;
}

static void *log_much(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2000; i++)
        df_log_info("Much", "line %d", i);
    return NULL;
}

/* Whoever ends the reader may free what it used. */
static void a_reader_that_was_ended_is_not_called_again(void **state)
{
    (void)state;
    pthread_t threads[4];
    capture();
    ended = false;
    df_log_tee(use_after_end, NULL);
    for (size_t i = 0; i < LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_much, NULL), 0);
    df_log_tee(NULL, NULL);
    ended = true;
    for (size_t i = 0; i < LEN(threads); i++)
        pthread_join(threads[i], NULL);
    (void)captured_lines();
    assert_false(late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_second_reader_gets_json_whatever_standard_error_has, use_json),
        cmocka_unit_test_setup(a_reader_that_was_ended_is_not_called_again, use_json),
        cmocka_unit_test_setup(a_line_is_an_object_with_its_members_in_order, use_json),
        cmocka_unit_test_setup(numbers_are_whole_where_they_can_be, use_json),
        cmocka_unit_test_setup(people_are_masked, use_json),
        cmocka_unit_test_setup(text_is_escaped, use_json),
        cmocka_unit_test_setup(any_bytes_give_one_valid_line, use_json),
        cmocka_unit_test_setup(a_long_message_is_cut_between_characters, use_json),
        cmocka_unit_test_setup(a_message_is_cut_at_its_limit_only, use_json),
        cmocka_unit_test_setup(a_line_too_long_loses_fields_and_says_so, use_json),
        cmocka_unit_test_setup(context_is_in_every_line_until_it_is_taken_away, use_json),
        cmocka_unit_test_setup(a_context_takes_no_more_than_it_holds, use_json),
        cmocka_unit_test_setup(names_are_unique_in_a_line, use_json),
        cmocka_unit_test_setup(levels_below_are_silent, use_json),
        cmocka_unit_test_setup(text_is_for_people, use_json),
        cmocka_unit_test_setup(a_terminal_gets_text_in_colour_unless_told_otherwise, use_json),
        cmocka_unit_test_setup(a_file_gets_json_by_itself, use_json),
        cmocka_unit_test_setup(what_a_library_prints_is_a_line_of_the_log, use_json),
        cmocka_unit_test_setup(lines_of_threads_do_not_mix, use_json),
        cmocka_unit_test_setup(long_lines_of_threads_do_not_mix_in_a_pipe, use_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
