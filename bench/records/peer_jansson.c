/* The work of `dataflow-bench records FILE --normalise --count` with jansson: the whole file as a
 * tree, an item built of its values, dumped, and remembered by its text. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static const struct {
    const char *name, *field;
} fields[] = {
    {"phonenumber", "PhoneNumber"},
    {"telefone", "PhoneNumber"},
    {"celular", "PhoneNumber"},
    {"origin", "Origin"},
    {"origem", "Origin"},
    {"source", "Origin"},
    {"property", "PropertyContextJson"},
    {"imovel", "PropertyContextJson"},
    {"name", "Name"},
    {"nome", "Name"},
    {"email", "Email"},
    {"city", "City"},
    {"cidade", "City"},
    {"notes", "Notes"},
    {"budget", "Budget"},
};

static const char *field_of(const char *name)
{
    char folded[64];
    size_t n = 0;

    for (; *name && n + 1 < sizeof(folded); name++) {
        char c = *name;
        if (c >= 'A' && c <= 'Z')
            c = (char)(c + 32);
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            folded[n++] = c;
    }
    folded[n] = '\0';
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (strcmp(folded, fields[i].name) == 0)
            return fields[i].field;
    return NULL;
}

static bool is_area(const char *d)
{
    static const char areas[] =
        "11 12 13 14 15 16 17 18 19 21 22 24 27 28 31 32 33 34 35 37 38 41 42 43 44 45 46 "
        "47 48 49 51 53 54 55 61 62 63 64 65 66 67 68 69 71 73 74 75 77 79 81 82 83 84 85 "
        "86 87 88 89 91 92 93 94 95 96 97 98 99 ";
    for (const char *p = areas; *p; p += 3)
        if (p[0] == d[0] && p[1] == d[1])
            return true;
    return false;
}

static bool phone_of(const char *text, char out[17])
{
    char digits[24];
    const char *d = digits;
    size_t n = 0;

    for (; *text && n < 20; text++)
        if (*text >= '0' && *text <= '9')
            digits[n++] = *text;
    digits[n] = '\0';
    if ((n == 12 || n == 13) && d[0] == '5' && d[1] == '5') {
        d += 2;
        n -= 2;
    }
    if ((n != 10 && n != 11) || !is_area(d) || (n == 11 && d[2] != '9') || (n == 10 && d[2] < '2'))
        return false;
    snprintf(out, 17, n == 10 && d[2] >= '6' ? "+55%.2s9%s" : "+55%.2s%s", d, d + 2);
    return true;
}

static json_t *origin_of(const char *text)
{
    char out[512];
    size_t n = 0;

    for (; *text && n + 1 < sizeof(out); text++)
        if ((unsigned char)*text > ' ' || (n > 0 && out[n - 1] != ' '))
            out[n++] = (unsigned char)*text > ' ' ? *text : ' ';
    while (n > 0 && out[n - 1] == ' ')
        n--;
    return n > 0 ? json_stringn(out, n) : json_string("bench");
}

/* What was seen, by two 64-bit hashes of the text. */
#define SLOTS ((size_t)1 << 21)
static struct key {
    uint64_t a, b;
} * seen;

static bool add_seen(const char *text)
{
    uint64_t a = 0xCBF29CE484222325U, b = 0x9E3779B97F4A7C15U;

    for (; *text; text++) {
        a = (a ^ (unsigned char)*text) * 0x100000001B3U;
        b = (b + (unsigned char)*text) * 0xBF58476D1CE4E5B9U;
    }
    for (size_t i = a >> 40;; i++) {
        struct key *k = &seen[i & (SLOTS - 1)];
        if (k->a == a && k->b == b)
            return true;
        if (k->a == 0) {
            *k = (struct key){a, b};
            return false;
        }
    }
}

static long records, sent, bad, skipped;
static size_t bytes;

static void take(json_t *record)
{
    json_t *item = json_object(), *lead = json_object();
    json_t *phone = NULL, *origin = NULL, *property = NULL, *value;
    const char *name;
    char number[17];

    json_object_foreach(record, name, value)
    {
        const char *field = field_of(name);
        if (field && strcmp(field, "PhoneNumber") == 0)
            phone = value;
        else if (field && strcmp(field, "Origin") == 0)
            origin = value;
        else if (field && strcmp(field, "PropertyContextJson") == 0)
            property = value;
        else
            json_object_set(lead, field ? field : name, value);
    }
    bool valid = json_is_string(phone) && phone_of(json_string_value(phone), number);
    json_object_set_new(item, "PhoneNumber", valid ? json_string(number) : json_incref(phone));
    json_object_set_new(item, "Origin",
                        origin_of(json_is_string(origin) ? json_string_value(origin) : ""));
    json_object_set_new(item, "PropertyContextJson",
                        property ? json_incref(property) : json_null());
    json_object_set_new(item, "LeadContextJson", lead);
    char *text = json_dumps(item, JSON_COMPACT);
    bytes += strlen(text);
    records++;
    if (!valid)
        bad++;
    else if (add_seen(text))
        skipped++;
    else
        sent++;
    free(text);
    json_decref(item);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    struct rusage u;
    json_error_t error;
    size_t i;
    json_t *record;

    if (argc != 2)
        return 2;
    seen = calloc(SLOTS, sizeof(*seen));
    double begun = now();
    json_t *root = json_load_file(argv[1], JSON_REJECT_DUPLICATES, &error);
    if (!seen || !root) {
        fprintf(stderr, "%s\n", root ? "memory" : error.text);
        return 1;
    }
    json_array_foreach(root, i, record) take(record);
    double seconds = now() - begun;
    getrusage(RUSAGE_SELF, &u);
    printf("{\"records\":%ld,\"send\":%ld,\"error\":%ld,\"skipped\":%ld,\"bytes\":%zu,\"seconds\":%"
           ".4f,"
           "\"cpuSeconds\":%.4f,\"peakKb\":%ld}\n",
           records, sent, bad, skipped, bytes, seconds,
           (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
               (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6,
           u.ru_maxrss);
    json_decref(root);
    free(seen);
    return 0;
}
