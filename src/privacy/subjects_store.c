/* The entries of people's documents and items (subjects.h). */
#include "privacy/subjects.h"
#include "privacy/subjects.sql.h"
#include "store/rows.h"

static size_t count_rows(const struct df_subject_doc *docs, size_t n)
{
    size_t rows = 0;

    for (size_t i = 0; i < n; i++)
        rows += docs[i].count;
    return rows;
}

enum df_code df_subjects_write_all(struct df_db *db, const struct df_subject_doc *docs, size_t n,
                                   struct df_arena *a, struct df_err *err)
{
    struct df_rows gone = df_rows_for(a, &df_q_subject_delete, n);
    struct df_rows made = df_rows_for(a, &df_q_subject_insert, count_rows(docs, n));

    for (size_t i = 0; i < n; i++) {
        const struct df_subject_doc *d = &docs[i];
        struct df_value place = df_text(df_str_c(d->place)), row = df_text(d->row);
        if (!d->is_new)
            DF_ROWS_ADD(&gone, subject_delete, .place = place, .row = row);
        for (size_t k = 0; k < d->count; k++)
            DF_ROWS_ADD(&made, subject_insert, .hash = df_int(df_subject_number(&d->subjects[k])),
                        .place = place, .row = row);
    }
    enum df_code code = df_rows_run(db, &gone, NULL, err);
    return code == DF_OK ? df_rows_run(db, &made, NULL, err) : code;
}

enum df_code df_subjects_add_all(struct df_db *db, const struct df_subject_doc *docs, size_t n,
                                 struct df_arena *a, struct df_err *err)
{
    struct df_rows rows = df_rows_for(a, &df_q_subject_add, count_rows(docs, n));

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < docs[i].count; k++)
            DF_ROWS_ADD(&rows, subject_add, .hash = df_int(df_subject_number(&docs[i].subjects[k])),
                        .place = df_text(df_str_c(docs[i].place)), .row = df_text(docs[i].row));
    }
    return df_rows_run(db, &rows, NULL, err);
}

enum df_code df_subjects_write(struct df_db *db, const char *place, struct df_str row,
                               const struct df_subject *s, size_t n, bool is_new,
                               struct df_err *err)
{
    const struct df_subject_doc doc = {
        .place = place, .row = row, .subjects = s, .count = n, .is_new = is_new};
    struct df_arena a;

    df_arena_init(&a);
    enum df_code code = df_subjects_write_all(db, &doc, 1, &a, err);
    df_arena_release(&a);
    return code;
}

/* --- items ------------------------------------------------------------------------------------ */

void df_subjects_add_item(const struct df_keys *k, struct df_str json, int64_t sequence,
                          struct df_buf *out)
{
    struct df_subject found[DF_SUBJECTS_MAX];
    size_t n = df_subjects_of(k, json, found, DF_SUBJECTS_MAX);

    for (size_t i = 0; i < n; i++) {
        char entry[DF_SUBJECT_ENTRY];
        memcpy(entry, found[i].hash, 8);
        entry[8] = (char)found[i].kind;
        for (size_t b = 0; b < 4; b++)
            entry[9 + b] = (char)((uint64_t)sequence >> (24 - 8 * b) & 0xFF);
        df_buf_add(out, entry, sizeof entry);
    }
}

void df_subjects_each_item(struct df_str entries, const struct df_subject *s,
                           void (*each)(void *arg, int64_t sequence), void *arg)
{
    const unsigned char *p = (const unsigned char *)entries.ptr;

    for (size_t left = entries.len; left >= DF_SUBJECT_ENTRY;
         left -= DF_SUBJECT_ENTRY, p += DF_SUBJECT_ENTRY) {
        if (memcmp(p, s->hash, 8) == 0 && p[8] == s->kind)
            each(arg, (int64_t)((uint32_t)p[9] << 24 | (uint32_t)p[10] << 16 |
                                (uint32_t)p[11] << 8 | p[12]));
    }
}

enum df_code df_subjects_write_items(struct df_db *db, const struct df_subject_items *all, size_t n,
                                     struct df_arena *a, struct df_err *err)
{
    struct df_rows rows = df_rows_for(a, &df_q_import_subjects_insert, n);

    for (size_t i = 0; i < n; i++) {
        if (all[i].entries.len > 0)
            DF_ROWS_ADD(&rows, import_subjects_insert, .batch = df_uuid(all[i].batch),
                        .chunk = all[i].chunk < 0 ? df_null(DF_INT) : df_int(all[i].chunk),
                        .entries = df_blob(all[i].entries));
    }
    return df_rows_run(db, &rows, NULL, err);
}
