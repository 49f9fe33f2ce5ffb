/*
 * The memory is one block, allocated whole but touched only as it fills. Texts grow upwards in it,
 * their end offsets (32 bits each) grow downwards. When the two meet, the strings that follow go to
 * disk: texts into one file, their ends (64 bits each) into another. A string is found by reading
 * two neighbouring ends and the bytes between them. Strings that repeat most appear early, and so
 * they stay in memory.
 */
#include "tabular/xlsx_strings.h"

#include "base/mem.h"
#include "base/temp.h"
#include "tabular/xlsx_xml.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK_BYTES 4096U
#define CACHE_SLOTS 512U
#define DEFAULT_DIR "/tmp"

struct spill {
    int fd;
    uint64_t size; /* of the file and the buffer together */
    char *buf;     /* while writing: a block that is not in the file yet */
    size_t buf_len;
};

struct slot {
    uint64_t key; /* block number × 2 + which file, + 1; 0: the slot is empty */
    char *data;
};

struct df_strings {
    struct df_strings_options opt;
    uint64_t count;
    char *memory;
    uint64_t memory_count; /* strings in memory; the others are on disk */
    size_t memory_used;    /* by texts */
    struct spill texts, ends;
    struct slot slots[CACHE_SLOTS];
    struct df_buf one; /* the string being parsed, or read from disk */
    unsigned depth;
    unsigned skip; /* depth of the element that is skipped; 0: none */
    bool in_text;
};

uint64_t df_strings_count(const struct df_strings *t)
{
    return t->count;
}

static enum df_code spill_open(struct spill *s, const char *dir, struct df_err *err)
{
    enum df_code code = df_temp_open(dir ? dir : DEFAULT_DIR, &s->fd, err);
    if (code != DF_OK)
        return code;
    s->buf = df_malloc(BLOCK_BYTES);
    return DF_OK;
}

static void spill_close(struct spill *s)
{
    if (s->fd >= 0)
        close(s->fd);
    free(s->buf);
    *s = (struct spill){.fd = -1};
}

static enum df_code spill_flush(struct spill *s, struct df_err *err)
{
    for (size_t done = 0; done < s->buf_len;) {
        ssize_t n = write(s->fd, s->buf + done, s->buf_len - done);
        if (n < 0 && errno != EINTR)
            return df_err_errno(err, "cannot write to a temporary file");
        done += n > 0 ? (size_t)n : 0;
    }
    s->buf_len = 0;
    return DF_OK;
}

static enum df_code spill_add(struct spill *s, const void *ptr, size_t len, struct df_err *err)
{
    const char *p = ptr;
    s->size += len;
    while (len) {
        size_t n = BLOCK_BYTES - s->buf_len < len ? BLOCK_BYTES - s->buf_len : len;
        memcpy(s->buf + s->buf_len, p, n);
        s->buf_len += n;
        p += n;
        len -= n;
        enum df_code code = s->buf_len == BLOCK_BYTES ? spill_flush(s, err) : DF_OK;
        if (code != DF_OK)
            return code;
    }
    return DF_OK;
}

/* The ends stand at the top of the memory; the first one is at the very end. */
static uint32_t memory_end(const struct df_strings *t, uint64_t index)
{
    uint32_t end;
    memcpy(&end, t->memory + t->opt.memory_bytes - (index + 1) * sizeof end, sizeof end);
    return end;
}

static enum df_code add_on_disk(struct df_strings *t, struct df_str s, struct df_err *err)
{
    enum df_code code = DF_OK;
    if (t->texts.fd < 0)
        code = spill_open(&t->texts, t->opt.temp_dir, err);
    if (code == DF_OK && t->ends.fd < 0)
        code = spill_open(&t->ends, t->opt.temp_dir, err);
    if (code == DF_OK)
        code = spill_add(&t->texts, s.ptr, s.len, err);
    return code == DF_OK ? spill_add(&t->ends, &t->texts.size, sizeof t->texts.size, err) : code;
}

static enum df_code add_string(struct df_strings *t, struct df_str s, struct df_err *err)
{
    if (df_cell_is_blank(s))
        s.len = 0;
    size_t ends_bytes = (size_t)(t->memory_count + 1) * sizeof(uint32_t);
    if (t->memory_used + t->texts.size + s.len + (t->count + 1) * 8 > t->opt.max_bytes)
        return df_err_set(err, DF_E_TOO_LARGE,
                          "the workbook's shared strings take more than %llu bytes",
                          (unsigned long long)t->opt.max_bytes);
    t->count++;
    if (t->texts.fd >= 0 || t->memory_used + s.len + ends_bytes > t->opt.memory_bytes)
        return add_on_disk(t, s, err);
    memcpy(t->memory + t->memory_used, s.ptr, s.len);
    t->memory_used += s.len;
    uint32_t end = (uint32_t)t->memory_used;
    memcpy(t->memory + t->opt.memory_bytes - ends_bytes, &end, sizeof end);
    t->memory_count++;
    return DF_OK;
}

static unsigned hex4(const char *p)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return UINT32_MAX;
        v = v << 4 | digit;
    }
    return v;
}

/* The character of the _xHHHH_ at p, or of two of them past U+FFFF; 0: no valid escape. */
static uint32_t escaped_char(const char *p, const char *end, size_t *ret_len)
{
    if (end - p < 7 || p[1] != 'x' || p[6] != '_')
        return 0;
    uint32_t c = hex4(p + 2);
    *ret_len = 7;
    if (c >= 0xD800 && c < 0xDC00 && end - p >= 14 && p[7] == '_' && p[8] == 'x' && p[13] == '_') {
        uint32_t low = hex4(p + 9);
        if (low < 0xDC00 || low > 0xDFFF)
            return 0;
        *ret_len = 14;
        return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    return c > 0xFFFF || (c >= 0xD800 && c < 0xE000) ? 0 : c;
}

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = len; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(lead[len] | c);
    return len;
}

void df_xstring_decode(struct df_buf *b, size_t from)
{
    if (b->len - from < 7)
        return;
    char *end = b->ptr + b->len, *p = memchr(b->ptr + from, '_', b->len - from), *out;
    if (!p)
        return;
    for (out = p; p < end;) {
        size_t len = 0;
        uint32_t c = *p == '_' ? escaped_char(p, end, &len) : 0;
        if (c) {
            out += put_utf8(out, c);
            p += len;
        } else {
            *out++ = *p++;
        }
    }
    b->len = (size_t)(out - b->ptr);
    b->ptr[b->len] = 0;
}

/* Depth 1 is sst, 2 is si, 3 is t, r or rPh, 4 is the t of a run. */
static enum df_code on_strings_start(void *arg, const struct df_xml_tag *tag, struct df_err *err)
{
    struct df_strings *t = arg;
    unsigned depth = ++t->depth;
    bool ours = tag->ns == DF_XML_MAIN;
    if (t->skip)
        return DF_OK;
    if (depth == 1)
        return ours && df_str_eq(tag->name, DF_STR("sst"))
                   ? DF_OK
                   : df_err_set(err, DF_E_VALIDATION,
                                "the workbook's shared strings are something else");
    if (depth == 2 && ours && df_str_eq(tag->name, DF_STR("si")))
        df_buf_reset(&t->one);
    else if ((depth == 3 || depth == 4) && ours && df_str_eq(tag->name, DF_STR("t")))
        t->in_text = true;
    else if (depth != 3 || !ours || !df_str_eq(tag->name, DF_STR("r")))
        t->skip = depth;
    return DF_OK;
}

static enum df_code on_strings_end(void *arg, struct df_err *err)
{
    struct df_strings *t = arg;
    unsigned depth = t->depth--;
    t->in_text = false;
    if (t->skip) {
        if (t->skip == depth)
            t->skip = 0;
        return DF_OK;
    }
    if (depth != 2)
        return DF_OK;
    df_xstring_decode(&t->one, 0);
    return add_string(t, df_buf_str(&t->one), err);
}

static enum df_code on_strings_text(void *arg, struct df_str piece, struct df_err *err)
{
    struct df_strings *t = arg;
    if (!t->in_text || t->skip)
        return DF_OK;
    df_buf_adds(&t->one, piece);
    if (df_buf_failed(&t->one))
        return df_err_set(err, DF_E_TOO_LARGE,
                          "shared string %llu is longer than %zu bytes, which a cell may have",
                          (unsigned long long)t->count, t->opt.max_string_bytes);
    return DF_OK;
}

/* Reads the strings of the usual shape that the window holds. A string that is cut or unusual is
 * left to the plain reader. */
static enum df_code fast_strings(struct df_strings *t, struct df_xml_plain *x, struct df_err *err)
{
    static const char open[] = "<si><t>", preserve[] = "<si><t xml:space=\"preserve\">";
    static const char close[] = "</t></si>";
    enum df_code code = DF_OK;
    while (code == DF_OK && x->end - x->p > 64) {
        const char *p = x->p;
        if (memcmp(p, open, sizeof open - 1) == 0)
            p += sizeof open - 1;
        else if (memcmp(p, preserve, sizeof preserve - 1) == 0)
            p += sizeof preserve - 1;
        else
            break;
        const char *stop = df_xml_plain_run(p, x->end);
        struct df_str s = df_str_n(p, (size_t)(stop - p));
        if ((size_t)(x->end - stop) < sizeof close || memcmp(stop, close, sizeof close - 1) != 0 ||
            s.len > t->opt.max_string_bytes || df_xstring_escaped(s))
            break;
        x->p = stop + sizeof close - 1;
        code = add_string(t, s, err);
    }
    return code;
}

static void forget_strings(struct df_strings *t)
{
    spill_close(&t->texts);
    spill_close(&t->ends);
    t->count = t->memory_count = t->memory_used = 0;
    t->depth = t->skip = 0;
    t->in_text = false;
}

static enum df_code load_strings(struct df_strings *t, const struct df_zip *zip,
                                 const struct df_zip_entry *entry, struct df_err *err)
{
    struct df_xml_sink sink = {
        .start = on_strings_start, .end = on_strings_end, .text = on_strings_text, .arg = t};
    struct df_zip_reader part = {0};
    enum df_xml_plain_answer answer = DF_PLAIN_UNUSUAL;
    enum df_code code = df_zip_reader_open(&part, zip, entry, err);
    if (code == DF_OK && !t->opt.strict) {
        struct df_err wrong = DF_ERR_INIT;
        struct df_xml_plain *x = df_malloc(sizeof *x);
        df_xml_plain_init(x, sink, &part);
        do {
            if (t->depth == 1 && fast_strings(t, x, &wrong) != DF_OK)
                answer = DF_PLAIN_ERROR;
            else
                answer = df_xml_plain_step(x, &wrong);
        } while (answer == DF_PLAIN_GO);
        df_xml_plain_release(x);
        free(x);
        if (answer == DF_PLAIN_ERROR) {
            code = wrong.code;
            *err = wrong;
        }
    }
    if (code == DF_OK && answer == DF_PLAIN_UNUSUAL) {
        forget_strings(t);
        code = df_zip_reader_open(&part, zip, entry, err);
        if (code == DF_OK)
            code = df_xml_strict_read(sink, &part, err);
    }
    df_zip_reader_release(&part);
    return code;
}

enum df_code df_strings_load(const struct df_zip *zip, const struct df_zip_entry *entry,
                             const struct df_strings_options *opt, struct df_strings **ret,
                             struct df_err *err)
{
    struct df_strings *t = df_calloc(1, sizeof *t);
    struct df_err wrong = DF_ERR_INIT;
    t->opt = *opt;
    if (!t->opt.memory_bytes)
        t->opt.memory_bytes = DF_STRINGS_MEMORY;
    t->texts.fd = t->ends.fd = -1;
    t->memory = df_malloc(t->opt.memory_bytes);
    df_buf_init(&t->one, opt->max_string_bytes);
    enum df_code code = load_strings(t, zip, entry, &wrong);
    if (code == DF_OK)
        code = spill_flush(&t->texts, &wrong);
    if (code == DF_OK)
        code = spill_flush(&t->ends, &wrong);
    if (code != DF_OK) {
        df_strings_free(t);
        if (err)
            *err = wrong;
        return code;
    }
    *ret = t;
    return DF_OK;
}

void df_strings_free(struct df_strings *t)
{
    if (!t)
        return;
    spill_close(&t->texts);
    spill_close(&t->ends);
    for (size_t i = 0; i < CACHE_SLOTS; i++)
        free(t->slots[i].data);
    df_buf_release(&t->one);
    free(t->memory);
    free(t);
}

/* A block of one of the files, through the cache. */
static enum df_code read_block(struct df_strings *t, const struct spill *s, uint64_t number,
                               const char **ret, struct df_err *err)
{
    uint64_t key = number * 2 + (s == &t->ends) + 1;
    struct slot *slot = &t->slots[key % CACHE_SLOTS];
    if (slot->key != key) {
        uint64_t at = number * BLOCK_BYTES;
        size_t want = s->size - at < BLOCK_BYTES ? (size_t)(s->size - at) : BLOCK_BYTES;
        if (!slot->data)
            slot->data = df_malloc(BLOCK_BYTES);
        slot->key = 0;
        for (size_t got = 0; got < want;) {
            ssize_t n = pread(s->fd, slot->data + got, want - got, (off_t)(at + got));
            if (n == 0)
                return df_err_set(err, DF_E_IO, "a temporary file became shorter");
            if (n < 0 && errno != EINTR)
                return df_err_errno(err, "cannot read a temporary file");
            got += n > 0 ? (size_t)n : 0;
        }
        slot->key = key;
    }
    *ret = slot->data;
    return DF_OK;
}

static enum df_code disk_end(struct df_strings *t, uint64_t index, uint64_t *ret,
                             struct df_err *err)
{
    const char *data = NULL;
    uint64_t at = index * sizeof *ret;
    enum df_code code = read_block(t, &t->ends, at / BLOCK_BYTES, &data, err);
    if (data)
        memcpy(ret, data + at % BLOCK_BYTES, sizeof *ret);
    return code;
}

static enum df_code disk_get(struct df_strings *t, uint64_t index, struct df_str *ret,
                             struct df_err *err)
{
    uint64_t from = 0, to = 0;
    enum df_code code = disk_end(t, index, &to, err);
    if (code == DF_OK && index)
        code = disk_end(t, index - 1, &from, err);
    df_buf_reset(&t->one);
    while (code == DF_OK && from < to) {
        const char *data = NULL;
        size_t skip = (size_t)(from % BLOCK_BYTES);
        size_t len = BLOCK_BYTES - skip < to - from ? BLOCK_BYTES - skip : (size_t)(to - from);
        code = read_block(t, &t->texts, from / BLOCK_BYTES, &data, err);
        if (data)
            df_buf_add(&t->one, data + skip, len);
        from += len;
    }
    *ret = df_buf_str(&t->one);
    return code;
}

void df_strings_prefetch(const struct df_strings *t, uint64_t index)
{
    if (index < t->memory_count)
        __builtin_prefetch(t->memory + t->opt.memory_bytes - (index + 1) * sizeof(uint32_t));
}

enum df_code df_strings_get(struct df_strings *t, uint64_t index, struct df_str *ret,
                            bool *ret_stays, struct df_err *err)
{
    assert(index < t->count);
    *ret_stays = index < t->memory_count;
    if (!*ret_stays)
        return disk_get(t, index - t->memory_count, ret, err);
    uint32_t from = index ? memory_end(t, index - 1) : 0;
    *ret = df_str_n(t->memory + from, memory_end(t, index) - from);
    __builtin_prefetch(ret->ptr);
    return DF_OK;
}
