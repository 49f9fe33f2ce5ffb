#include "net/h1.h"

#include <assert.h>

#define LENGTH_MAX     INT64_MAX
#define CHUNK_LINE_MAX 4096

void df_h1_init(struct df_h1 *h)
{
    *h = (struct df_h1){0};
    df_buf_init(&h->head, DF_H1_HEAD_MAX);
    df_h1_reset(h, false);
}

void df_h1_release(struct df_h1 *h)
{
    df_buf_release(&h->head);
}

void df_h1_reset(struct df_h1 *h, bool of_head)
{
    struct df_buf head = h->head;

    df_buf_reset(&head);
    *h = (struct df_h1){.state = DF_H1_HEAD, .of_head = of_head, .head = head};
}

static void refuse(struct df_h1 *h, const char *why)
{
    h->state = DF_H1_BAD;
    h->why = why;
}

/* --- the head --- */

/* The line that begins at *at, without its end; moves *at behind it. */
static struct df_str next_line(struct df_str text, size_t *at)
{
    const char *begin = text.ptr + *at;
    const char *end = memchr(begin, '\n', text.len - *at);

    if (!end)
        end = text.ptr + text.len - 1;
    *at = (size_t)(end - text.ptr) + 1;
    size_t len = (size_t)(end - begin);
    if (len > 0 && begin[len - 1] == '\r')
        len--;
    return df_str_n(begin, len);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "HTTP/1.1 200 OK"; the reason may be missing. */
static bool read_status_line(struct df_h1 *h, struct df_str line)
{
    const char *p = line.ptr;

    if (line.len < 12 || memcmp(p, "HTTP/1.", 7) != 0 || !is_digit(p[7]) || p[8] != ' ' ||
        p[9] < '1' || p[9] > '9' || !is_digit(p[10]) || !is_digit(p[11]) ||
        (line.len > 12 && p[12] != ' '))
        return false;
    h->keep_alive = p[7] != '0';
    h->status =
        (unsigned)(p[9] - '0') * 100 + (unsigned)(p[10] - '0') * 10 + (unsigned)(p[11] - '0');
    return true;
}

/* A line that begins with white space goes on with the one before. */
static void unfold(struct df_buf *head)
{
    for (size_t i = 1; i + 1 < head->len; i++)
        if (head->ptr[i] == '\n' && (head->ptr[i + 1] == ' ' || head->ptr[i + 1] == '\t')) {
            head->ptr[i] = ' ';
            if (head->ptr[i - 1] == '\r')
                head->ptr[i - 1] = ' ';
        }
}

bool df_h1_field(const struct df_h1 *h, size_t *at, struct df_str *ret_name,
                 struct df_str *ret_value)
{
    struct df_str text = df_buf_str(&h->head);

    if (*at == 0)
        (void)next_line(text, at);
    if (*at >= text.len)
        return false;
    struct df_str line = next_line(text, at);
    const char *colon = memchr(line.ptr, ':', line.len);
    if (!colon)
        return false; /* the empty line */
    size_t name = (size_t)(colon - line.ptr);
    *ret_name = df_str_n(line.ptr, name); /* as it came: a blank at its end makes it no token */
    *ret_value = df_str_trim(df_str_n(colon + 1, line.len - name - 1));
    return true;
}

/* What the head's fields say of the body. */
struct framing {
    bool has_length;
    bool is_chunked;
    bool closes;
    bool keeps;
    uint64_t length;
};

static bool read_length(struct framing *f, struct df_str value)
{
    int64_t n;

    /* "5, 5" is two fields that somebody joined. */
    while (value.len > 0) {
        const char *comma = memchr(value.ptr, ',', value.len);
        size_t len = comma ? (size_t)(comma - value.ptr) : value.len;
        struct df_str one = df_str_trim(df_str_n(value.ptr, len));
        if (one.len == 0 || !is_digit(one.ptr[0]) || !df_str_to_i64(one, &n) ||
            (f->has_length && f->length != (uint64_t)n))
            return false;
        f->has_length = true;
        f->length = (uint64_t)n;
        value = comma ? df_str_n(comma + 1, value.len - len - 1) : DF_STR("");
    }
    return f->has_length;
}

static void read_connection(struct framing *f, struct df_str value)
{
    while (value.len > 0) {
        const char *comma = memchr(value.ptr, ',', value.len);
        size_t len = comma ? (size_t)(comma - value.ptr) : value.len;
        struct df_str one = df_str_trim(df_str_n(value.ptr, len));
        f->closes = f->closes || df_str_ieq(one, DF_STR("close"));
        f->keeps = f->keeps || df_str_ieq(one, DF_STR("keep-alive"));
        value = comma ? df_str_n(comma + 1, value.len - len - 1) : DF_STR("");
    }
}

static bool read_field(struct df_h1 *h, struct framing *f, struct df_str name, struct df_str value)
{
    switch (name.len) {
    case 14:
        return !df_str_ieq(name, DF_STR("Content-Length")) || read_length(f, value);
    case 17:
        if (!df_str_ieq(name, DF_STR("Transfer-Encoding")))
            return true;
        if (f->is_chunked || !df_str_ieq(value, DF_STR("chunked")))
            return false;
        f->is_chunked = true;
        return true;
    case 10:
        if (df_str_ieq(name, DF_STR("Connection")))
            read_connection(f, value);
        return true;
    case 12:
        if (df_str_ieq(name, DF_STR("Content-Type")))
            h->content_type = value;
        return true;
    case 11:
        if (df_str_ieq(name, DF_STR("Retry-After")) && !h->retry_after.ptr)
            h->retry_after = value;
        return true;
    default:
        return true;
    }
}

static bool read_fields(struct df_h1 *h, struct framing *f)
{
    struct df_str text = df_buf_str(&h->head), name, value;
    size_t at = 0, fields = 0;

    if (!read_status_line(h, next_line(text, &at)))
        return false;
    while (df_h1_field(h, &at, &name, &value)) {
        struct df_str plain = df_str_trim(name);
        /* "Content-Length : 5" is a length to some readers and none to others. */
        if (++fields > DF_H1_FIELDS_MAX || !read_field(h, f, plain, value) ||
            (plain.len != name.len && (f->has_length || f->is_chunked)))
            return false;
    }
    return at >= text.len; /* else there is a line without a colon */
}

static void begin_body(struct df_h1 *h, const struct framing *f)
{
    h->keep_alive = (h->keep_alive || f->keeps) && !f->closes;
    if (f->is_chunked && f->has_length)
        h->keep_alive = false; /* somebody between may have counted otherwise */
    if (h->of_head || h->status == 204 || h->status == 304)
        h->state = DF_H1_DONE;
    else if (f->is_chunked)
        h->state = DF_H1_CHUNK_SIZE;
    else if (!f->has_length) {
        h->state = DF_H1_UNTIL_CLOSE;
        h->keep_alive = false;
    } else {
        h->left = f->length;
        h->state = h->left > 0 ? DF_H1_BODY : DF_H1_DONE;
    }
    h->line_bytes = 0;
}

/* Readers disagree about where such a line ends. */
static bool has_stray(struct df_str text)
{
    const char *end = text.ptr + text.len;

    for (const char *p = text.ptr; (p = memchr(p, '\r', (size_t)(end - p))); p++)
        if (p + 1 == end || p[1] != '\n')
            return true;
    return memchr(text.ptr, '\0', text.len);
}

static void read_head(struct df_h1 *h)
{
    struct framing f = {0};

    bool strays = has_stray(df_buf_str(&h->head));
    unfold(&h->head);
    if (strays || !read_fields(h, &f))
        refuse(h, "the answer's head is not HTTP/1.1");
    else if (h->status == 101)
        refuse(h, "the answer changes to another protocol");
    else if (h->status < 200) {
        size_t spent = h->spent_bytes;
        df_h1_reset(h, h->of_head);
        h->spent_bytes = spent;
    } else
        begin_body(h, &f);
}

/* The number of bytes up to the head's end, an empty line; 0: it is not among them. line_bytes is
 * the length of the line in work, over all pieces. */
static size_t head_end(struct df_h1 *h, const char *data, size_t len)
{
    for (size_t i = 0; i < len;) {
        const char *end = memchr(data + i, '\n', len - i);
        if (!end) {
            h->line_bytes += len - i;
            return 0;
        }
        size_t at = (size_t)(end - data);
        size_t line = h->line_bytes + (at - i);
        char before = at > 0 ? data[at - 1] : h->head.len > 0 ? h->head.ptr[h->head.len - 1] : '\n';
        h->line_bytes = 0;
        i = at + 1;
        if (line == 0 || (line == 1 && before == '\r'))
            return i;
    }
    return 0;
}

static bool spend(struct df_h1 *h, size_t bytes)
{
    h->spent_bytes += bytes;
    if (h->spent_bytes <= DF_H1_HEAD_MAX)
        return true;
    refuse(h, "the answer's head is too long");
    return false;
}

static size_t feed_head(struct df_h1 *h, const char *data, size_t len)
{
    size_t end = head_end(h, data, len);
    size_t taken = end ? end : len;

    if (!spend(h, taken))
        return 0;
    df_buf_add(&h->head, data, taken);
    /* Whatever is no HTTP is told at once, not when the time is up. */
    size_t n = h->head.len < 7 ? h->head.len : 7;
    if (memcmp(h->head.ptr, "HTTP/1.", n) != 0)
        refuse(h, "the answer is not HTTP/1.1");
    else if (end)
        read_head(h);
    return taken;
}

/* --- chunks --- */

/* "1a;extension" and the line's end. line_bytes counts the digits, with a high bit once they are
 * over. */
#define DIGITS_OVER ((size_t)1 << 32)

static size_t feed_chunk_size(struct df_h1 *h, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        int digit = df_hex_digit(c);
        if (++h->chunk_line_bytes > CHUNK_LINE_MAX) {
            refuse(h, "a chunk of the answer has too long a size");
            return i;
        }
        if (c == '\n') {
            h->chunk_line_bytes = 0;
            if ((h->line_bytes & ~DIGITS_OVER) == 0) {
                refuse(h, "a chunk of the answer has no size");
                return i;
            }
            h->state = h->left > 0 ? DF_H1_CHUNK : DF_H1_TRAILER;
            h->line_bytes = 0;
            return i + 1;
        }
        if (h->line_bytes & DIGITS_OVER)
            continue;
        if (digit >= 0 && h->left <= (LENGTH_MAX >> 4)) {
            h->left = h->left << 4 | (uint64_t)digit;
            h->line_bytes++;
        } else if (c == '\r' || c == ';' || c == ' ' || c == '\t')
            h->line_bytes |= DIGITS_OVER;
        else {
            refuse(h, "a chunk of the answer has no valid size");
            return i;
        }
    }
    return len;
}

static size_t feed_chunk_end(struct df_h1 *h, const char *data)
{
    if (*data == '\n') {
        h->state = DF_H1_CHUNK_SIZE;
        h->line_bytes = 0;
    } else if (*data != '\r' || h->line_bytes++ > 0)
        refuse(h, "a chunk of the answer is longer than its size");
    return 1;
}

/* Lines up to an empty one; nobody wants their content. */
static size_t feed_trailer(struct df_h1 *h, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!spend(h, 1))
            return i;
        if (data[i] == '\n') {
            if (h->line_bytes == 0) {
                h->state = DF_H1_DONE;
                return i + 1;
            }
            h->line_bytes = 0;
        } else if (data[i] != '\r')
            h->line_bytes++;
    }
    return len;
}

/* --- the body --- */

static size_t feed_body(struct df_h1 *h, const char *data, size_t len,
                        bool (*take)(void *arg, const char *data, size_t len), void *arg,
                        bool *ret_enough)
{
    size_t n = h->state == DF_H1_UNTIL_CLOSE || len < h->left ? len : (size_t)h->left;

    if (h->state != DF_H1_UNTIL_CLOSE)
        h->left -= n;
    *ret_enough = !take(arg, data, n);
    if (h->state == DF_H1_BODY && h->left == 0)
        h->state = DF_H1_DONE;
    else if (h->state == DF_H1_CHUNK && h->left == 0)
        h->state = DF_H1_CHUNK_END;
    return n;
}

size_t df_h1_feed(struct df_h1 *h, const char *data, size_t len,
                  bool (*take)(void *arg, const char *data, size_t len), void *arg)
{
    bool enough = false;
    size_t at = 0;

    while (at < len && !enough)
        switch (h->state) {
        case DF_H1_HEAD:
            at += feed_head(h, data + at, len - at);
            break;
        case DF_H1_CHUNK_SIZE:
            at += feed_chunk_size(h, data + at, len - at);
            break;
        case DF_H1_CHUNK_END:
            at += feed_chunk_end(h, data + at);
            break;
        case DF_H1_TRAILER:
            at += feed_trailer(h, data + at, len - at);
            break;
        case DF_H1_BODY:
        case DF_H1_CHUNK:
        case DF_H1_UNTIL_CLOSE:
            at += feed_body(h, data + at, len - at, take, arg, &enough);
            break;
        case DF_H1_DONE:
        case DF_H1_BAD:
            return at;
        }
    return at;
}

void df_h1_end(struct df_h1 *h)
{
    assert(h->state != DF_H1_DONE);
    if (h->state == DF_H1_UNTIL_CLOSE)
        h->state = DF_H1_DONE;
    else if (h->state == DF_H1_HEAD)
        refuse(h, h->head.len > 0 ? "the connection was closed in the answer's head"
                                  : "the connection was closed before an answer came");
    else if (h->state != DF_H1_BAD)
        refuse(h, "the connection was closed in the middle of the answer");
}
