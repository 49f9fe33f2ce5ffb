/* Who calls, behind proxies: lists of trusted networks, and what Forwarded and X-Forwarded-For say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/caller.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void lists_of_proxies_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        const char *ip;
        bool trusted;
    } rows[] = {
        {NULL, "127.0.0.1", false},
        {"", "127.0.0.1", false},
        {"127.0.0.1", "127.0.0.1", true},
        {"127.0.0.1", "127.0.0.2", false},
        {" 10.0.0.0/8 , 192.0.2.7 ", "10.255.0.1", true},
        {"10.0.0.0/8,192.0.2.7", "192.0.2.7", true},
        {"10.0.0.0/8,192.0.2.7", "11.0.0.0", false},
        {"10.0.0.0/8,192.0.2.7", "192.0.2.6", false},
        {"172.16.0.0/12", "172.31.255.255", true},
        {"172.16.0.0/12", "172.32.0.0", false},
        {"128.0.0.0/1", "203.0.113.9", true},
        {"128.0.0.0/1", "127.0.0.1", false},
        {"10.0.0.0/8", "::ffff:10.1.2.3", true},
        {"::ffff:10.0.0.0/104", "10.1.2.3", true},
        {"::1", "::1", true},
        {"::1", "::2", false},
        {"2001:db8::/32", "2001:db8:ffff::1", true},
        {"2001:db8::/32", "2001:db9::1", false},
        {"2001:db8::/33", "2001:db8:8000::", false},
        {"::/8", "10.0.0.1", false},
        {"fe80::/10", "febf::1", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_proxies p;
        struct df_err err = DF_ERR_INIT;
        struct df_ip ip;
        assert_int_equal(df_proxies_parse(rows[i].list, &p, &err), DF_OK);
        assert_true(df_ip_parse(df_str_c(rows[i].ip), &ip));
        if (df_proxies_have(&p, &ip) != rows[i].trusted)
            fail_msg("%s in %s", rows[i].ip, rows[i].list);
        df_proxies_release(&p);
    }
}

static void lists_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "proxy.example",
        "10.0.0.0/8;192.0.2.7",
        "10.0.0.0/33",
        "10.0.0.0/0",
        "::/0",
        "10.0.0.1/8",
        "2001:db8::1/64",
        "10.0.0.0/-1",
        "10.0.0.0/",
        "10.0.0.0/8/8",
        "10.0.0",
        "[::1]",
        "fe80::1%lo",
        "127.0.0.1:8080",
        "10.0.0.1,,10.0.0.2",
        "::1/129",
        "10.0.0.0/ 8",
        "/8",
        "*",
        ",",
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_proxies p;
        struct df_err err = DF_ERR_INIT;
        if (df_proxies_parse(rows[i], &p, &err) != DF_E_CONFIG)
            fail_msg("%s was taken", rows[i]);
        assert_null(p.nets);
        assert_true(err.detail[0] != '\0');
    }
}

/* The peer is trusted, and so are 10.0.0.0/8 and 2001:db8:1::/48. NULL: the caller is the peer. */
static void the_last_address_not_trusted_is_the_caller(void **state)
{
    (void)state;
    static const struct {
        const char *fields[4]; /* "name: value" lines */
        const char *caller;
    } rows[] = {
        {{NULL}, NULL},
        {{"X-Forwarded-For: 192.0.2.7"}, "192.0.2.7"},
        {{"x-forwarded-for: 192.0.2.7"}, "192.0.2.7"},
        {{"X-Forwarded-For: 192.0.2.7:4711"}, "192.0.2.7"},
        {{"X-Forwarded-For: 198.51.100.1, 192.0.2.7"}, "192.0.2.7"},
        {{"X-Forwarded-For: 198.51.100.1,192.0.2.7 , 10.0.0.1,10.0.0.2"}, "192.0.2.7"},
        {{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-For: 192.0.2.7, 10.0.0.1"}, "192.0.2.7"},
        {{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-For: 10.0.0.1"}, "198.51.100.1"},
        {{"X-Forwarded-For: garbage, 192.0.2.7"}, "192.0.2.7"},
        {{"X-Forwarded-For: 192.0.2.7,, ,10.0.0.1,"}, "192.0.2.7"},
        {{"X-Forwarded-For: 2001:db8::7"}, "2001:db8::7"},
        {{"X-Forwarded-For: [2001:db8::7]"}, "2001:db8::7"},
        {{"X-Forwarded-For: [2001:db8::7]:443, 2001:db8:1::5"}, "2001:db8::7"},
        {{"X-Forwarded-For: ::ffff:192.0.2.7"}, "192.0.2.7"},
        {{"X-Forwarded-For: ::ffff:10.0.0.9"}, NULL},
        {{"X-Forwarded-For: 10.0.0.9"}, NULL},
        {{"X-Forwarded-For: "}, NULL},
        {{"X-Forwarded-For: ,"}, NULL},
        {{"X-Forwarded-For: 192.0.2.7, unknown"}, NULL},
        {{"X-Forwarded-For: 192.0.2.7, unknown, 10.0.0.1"}, NULL},
        {{"X-Forwarded-For: 192.0.2"}, NULL},
        {{"X-Forwarded-For: 192.0.2.7 198.51.100.1"}, NULL},
        {{"X-Forwarded-For: 192.0.2.7:"}, NULL},
        {{"X-Forwarded-For: 192.0.2.7:http"}, NULL},
        {{"X-Forwarded-For: [192.0.2.7]"}, NULL},
        {{"X-Forwarded-For: [2001:db8::7"}, NULL},
        {{"X-Forwarded-For: [2001:db8::7]x"}, NULL},
        {{"X-Forwarded-For: fe80::1%eth0"}, NULL},
        {{"X-Forwarded-For: \"192.0.2.7\""}, NULL},
        {{"X-Forwarded-For: host.example"}, NULL},
        {{"X-Forwarded-For: 11111111111111111111111111111111111111111111111111111111"}, NULL},
        {{"X-Forwarded: 192.0.2.7", "X-Real-IP: 192.0.2.7"}, NULL},

        {{"Forwarded: for=192.0.2.7"}, "192.0.2.7"},
        {{"Forwarded: For=\"192.0.2.7\";proto=https"}, "192.0.2.7"},
        {{"Forwarded: proto=https; for=192.0.2.7;by=10.0.0.1"}, "192.0.2.7"},
        {{"Forwarded: for=\"192.0.2.7:4711\""}, "192.0.2.7"},
        {{"Forwarded: for=\"[2001:db8::7]:4711\""}, "2001:db8::7"},
        {{"Forwarded: for=\"[2001:DB8::7]\", for=10.0.0.1"}, "2001:db8::7"},
        {{"Forwarded: for=198.51.100.1, for=192.0.2.7, for=\"[2001:db8:1::1]\""}, "192.0.2.7"},
        {{"Forwarded: for=198.51.100.1", "Forwarded: for=192.0.2.7", "Forwarded: for=10.0.0.1"},
         "192.0.2.7"},
        {{"Forwarded: host=\"a,b;for=198.51.100.1\";for=192.0.2.7"}, "192.0.2.7"},
        {{"Forwarded: host=\"a\\\",for=198.51.100.1\";for=192.0.2.7"}, "192.0.2.7"},
        {{"Forwarded: for=\"", "Forwarded: for=192.0.2.7"}, "192.0.2.7"},
        {{"Forwarded: for=unknown, for=192.0.2.7"}, "192.0.2.7"},
        {{"Forwarded: for=\", for=192.0.2.7"}, NULL},
        {{"Forwarded: for=192.0.2.7, for=unknown"}, NULL},
        {{"Forwarded: for=192.0.2.7, for=_hidden"}, NULL},
        {{"Forwarded: for=192.0.2.7, for=\"_gateway:4711\""}, NULL},
        {{"Forwarded: for=192.0.2.7, proto=https"}, NULL},
        {{"Forwarded: for=192.0.2.7, by=10.0.0.1"}, NULL},
        {{"Forwarded: for="}, NULL},
        {{"Forwarded: for"}, NULL},
        {{"Forwarded: 192.0.2.7"}, NULL},
        {{"Forwarded: for=10.0.0.1"}, NULL},

        /* Both: they say the same, or nothing. */
        {{"Forwarded: for=192.0.2.7", "X-Forwarded-For: 192.0.2.7"}, "192.0.2.7"},
        {{"X-Forwarded-For: 198.51.100.1, 192.0.2.7, 10.0.0.1", "Forwarded: for=192.0.2.7"},
         "192.0.2.7"},
        {{"Forwarded: for=198.51.100.1", "X-Forwarded-For: 192.0.2.7"}, NULL},
        {{"Forwarded: for=192.0.2.7", "X-Forwarded-For: unknown"}, NULL},
        {{"Forwarded: for=unknown", "X-Forwarded-For: 192.0.2.7"}, NULL},
        {{"Forwarded: for=10.0.0.1", "X-Forwarded-For: 192.0.2.7"}, "192.0.2.7"},
    };
    struct df_proxies p;
    struct df_err err = DF_ERR_INIT;
    assert_int_equal(df_proxies_parse("10.0.0.0/8,2001:db8:1::/48", &p, &err), DF_OK);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_forwarded f = {0};
        struct df_ip ip;
        char text[DF_IP_TEXT] = "the peer";
        for (size_t k = 0; k < 4 && rows[i].fields[k]; k++) {
            struct df_str name;
            struct df_str value = df_str_cut(df_str_c(rows[i].fields[k]), ':', &name);
            df_forwarded_add(&f, &p, name, df_str_trim(value));
        }
        if (df_forwarded_caller(&f, &ip))
            df_ip_text(&ip, text);
        if (strcmp(text, rows[i].caller ? rows[i].caller : "the peer") != 0)
            fail_msg("row %zu, %s: %s", i, rows[i].fields[0] ? rows[i].fields[0] : "none", text);
    }
    df_proxies_release(&p);
}

static void ipv6_is_limited_by_its_network(void **state)
{
    (void)state;
    static const struct {
        const char *ip;
        const char *network;
        bool loopback;
    } rows[] = {
        {"192.0.2.7", "192.0.2.7", false},
        {"::ffff:192.0.2.7", "192.0.2.7", false},
        {"127.0.0.1", "127.0.0.1", true},
        {"127.9.9.9", "127.9.9.9", true},
        {"::ffff:127.0.0.1", "127.0.0.1", true},
        {"::1", "::/64", true},
        {"2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64", false},
        {"2001:db8::1", "2001:db8::/64", false},
        {"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8:ffff:ffff::/64", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_ip ip;
        char text[DF_NETWORK_TEXT];
        assert_true(df_ip_parse(df_str_c(rows[i].ip), &ip));
        df_ip_network_text(&ip, text);
        assert_string_equal(text, rows[i].network);
        assert_int_equal(df_ip_is_loopback(&ip), rows[i].loopback);
    }
}

static void fields_of_proxies_are_known(void **state)
{
    (void)state;
    static const char *const theirs[] = {"Forwarded",         "FORWARDED",        "X-Forwarded-For",
                                         "x-forwarded-proto", "X-Forwarded-Host", "Via",
                                         "X-Real-IP"};
    static const char *const others[] = {"X-Forwarded-", "Host", "Forwarded-For", "X-Real"};
    for (size_t i = 0; i < COUNT(theirs); i++)
        assert_true(df_field_is_of_proxy(df_str_c(theirs[i])));
    for (size_t i = 0; i < COUNT(others); i++)
        assert_false(df_field_is_of_proxy(df_str_c(others[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_proxies_are_read),
        cmocka_unit_test(lists_that_are_none_are_refused),
        cmocka_unit_test(the_last_address_not_trusted_is_the_caller),
        cmocka_unit_test(ipv6_is_limited_by_its_network),
        cmocka_unit_test(fields_of_proxies_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
