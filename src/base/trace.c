#include "base/trace.h"

#define TRACE_AT 3
#define SPAN_AT  36
#define FLAGS_AT 53

/* Random hexadecimal digits that are not all zero. */
static void put_random_id(const struct df_clock *clock, char *out, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[DF_TRACE_ID_LEN / 2];

    df_random(clock, bytes, len / 2);
    bytes[0] |= 1;
    for (size_t i = 0; i < len; i++)
        out[i] = digits[i % 2 == 0 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15];
}

/* Writes s in lower case. False unless s is len hexadecimal digits that are not all zero. */
static bool put_id(struct df_str s, char *out, size_t len)
{
    bool zeros = true;

    if (s.len != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (df_hex_digit(s.ptr[i]) < 0)
            return false;
        out[i] = s.ptr[i] <= '9' ? s.ptr[i] : (char)(s.ptr[i] | 0x20);
        zeros = zeros && out[i] == '0';
    }
    return !zeros;
}

static struct df_trace blank_trace(void)
{
    struct df_trace t = {.text = "00-"};

    t.text[SPAN_AT - 1] = t.text[FLAGS_AT - 1] = '-';
    memcpy(t.text + FLAGS_AT, "01", 2);
    return t;
}

struct df_trace df_trace_new(const struct df_clock *clock)
{
    struct df_trace t = blank_trace();

    put_random_id(clock, t.text + TRACE_AT, DF_TRACE_ID_LEN);
    put_random_id(clock, t.text + SPAN_AT, DF_SPAN_ID_LEN);
    return t;
}

struct df_trace df_trace_child(const struct df_trace *parent, const struct df_clock *clock)
{
    struct df_trace t = *parent;

    put_random_id(clock, t.text + SPAN_AT, DF_SPAN_ID_LEN);
    return t;
}

bool df_trace_parse(struct df_str traceparent, struct df_trace *ret)
{
    const char *s = traceparent.ptr;
    struct df_trace t = blank_trace();

    if (traceparent.len != DF_TRACEPARENT_LEN ||
        !put_id(df_str_n(s + TRACE_AT, DF_TRACE_ID_LEN), t.text + TRACE_AT, DF_TRACE_ID_LEN) ||
        !put_id(df_str_n(s + SPAN_AT, DF_SPAN_ID_LEN), t.text + SPAN_AT, DF_SPAN_ID_LEN))
        return false;
    /* W3C allows only lower case, so a text that differs from its lower-case form is refused. */
    if (memcmp(t.text, s, FLAGS_AT) != 0)
        return false;
    for (size_t i = FLAGS_AT; i < DF_TRACEPARENT_LEN; i++)
        if (df_hex_digit(s[i]) < 0 || (s[i] >= 'A' && s[i] <= 'F'))
            return false;
    if ((df_hex_digit(s[FLAGS_AT + 1]) & 1) == 0)
        t.text[FLAGS_AT + 1] = '0';
    *ret = t;
    return true;
}

bool df_trace_join(struct df_str trace_id, struct df_str span_id, struct df_trace *ret)
{
    struct df_trace t = blank_trace();

    if (!put_id(trace_id, t.text + TRACE_AT, DF_TRACE_ID_LEN) ||
        !put_id(span_id, t.text + SPAN_AT, DF_SPAN_ID_LEN))
        return false;
    *ret = t;
    return true;
}

bool df_trace_resume(struct df_str trace_id, const struct df_clock *clock, struct df_trace *ret)
{
    struct df_trace t = blank_trace();

    if (!put_id(trace_id, t.text + TRACE_AT, DF_TRACE_ID_LEN))
        return false;
    put_random_id(clock, t.text + SPAN_AT, DF_SPAN_ID_LEN);
    *ret = t;
    return true;
}

uint64_t df_trace_randomness(const struct df_trace *t)
{
    uint64_t bits = 0;

    for (size_t i = TRACE_AT + DF_TRACE_ID_LEN - 14; i < TRACE_AT + DF_TRACE_ID_LEN; i++)
        bits = bits << 4 | (uint64_t)df_hex_digit(t->text[i]);
    return bits;
}
