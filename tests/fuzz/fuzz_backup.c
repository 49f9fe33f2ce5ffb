/*
 * Any bytes as a point of a backup, as the head of a parcel, and as the name of an object: reading
 * ends, gives no page or file that would lie elsewhere, and no more pages than the database has.
 */
#include "backup/parcel.h"
#include "backup/point.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

struct seen {
    const struct df_point_head *head;
    struct df_str left;
    uint64_t pages;
};

static enum df_code read_bytes(void *arg, void *ptr, size_t len, size_t *ret_len,
                               struct df_err *err)
{
    struct seen *s = arg;
    size_t n = len < s->left.len ? len : s->left.len;

    (void)err;
    if (n > 0)
        memcpy(ptr, s->left.ptr, n);
    s->left = df_str_n(s->left.ptr + n, s->left.len - n);
    *ret_len = n;
    return DF_OK;
}

static enum df_code see_file(void *arg, const struct df_point_file *f, struct df_err *err)
{
    struct df_uuid batch;

    (void)arg;
    (void)err;
    CHECK(df_uuid_parse(df_uuid_str(&f->batch), &batch));
    CHECK(f->name[0] && f->name[0] != '.' && !strchr(f->name, '/'));
    CHECK(f->object[0] && f->object[0] != '/' && f->object[0] != '.' && !strstr(f->object, "/."));
    CHECK(strlen(f->name) <= DF_POINT_FILE_MAX && strlen(f->object) < DF_POINT_NAME_MAX);
    return DF_OK;
}

static enum df_code see_page(void *arg, uint32_t number, const void *page, size_t len,
                             struct df_err *err)
{
    struct seen *s = arg;

    (void)page;
    (void)err;
    CHECK(number >= 1 && number <= s->head->page_count && len == s->head->page_size);
    CHECK(++s->pages <= s->head->page_count);
    return DF_OK;
}

static void read_name(const uint8_t *data, size_t size)
{
    char name[128], again[DF_POINT_NAME_MAX];
    struct df_point_name n;

    if (size >= sizeof name)
        return;
    memcpy(name, data, size);
    name[size] = '\0';
    if (!df_point_name_read(name, &n))
        return;
    df_point_name_write(&n, again);
    CHECK(strcmp(name, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_point_head head;
    struct df_parcel_head parcel;
    struct seen s = {.head = &head, .left = df_str_n((const char *)data, size)};
    const struct df_point_source from = {read_bytes, &s};
    const struct df_point_visitor v = {.file = see_file, .page = see_page, .arg = &s};
    unsigned char root[DF_POINT_ROOT_BYTES];
    struct df_err err = DF_ERR_INIT;

    read_name(data, size);
    if (df_parcel_head_read(s.left, &parcel))
        CHECK(parcel.len <= size && parcel.wrapped.len <= DF_WRAPPED_MAX &&
              strlen(parcel.master_id) <= DF_MASTER_ID_MAX);
    if (df_point_read_head(&from, &head, &err) == DF_OK &&
        df_point_read(&from, &head, &v, root, &err) == DF_OK)
        CHECK(s.left.len == 0);
    return 0;
}
