#include "net/language.h"

/* A quality is "0", "1" or these with a point and at most three digits. Returns it in thousandths,
 * or -1. */
static int read_quality(struct df_str s)
{
    static const int worth[] = {100, 10, 1};

    if (s.len == 0 || s.len > 5 || (s.ptr[0] != '0' && s.ptr[0] != '1') ||
        (s.len > 1 && s.ptr[1] != '.'))
        return -1;
    int quality = s.ptr[0] == '1' ? 1000 : 0;
    for (size_t i = 2; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return -1;
        quality += (s.ptr[i] - '0') * worth[i - 2];
    }
    return quality <= 1000 ? quality : -1;
}

/* The weight behind the range: 1000 if there is none, -1 if it is malformed. */
static int read_weight(struct df_str params)
{
    struct df_str name;

    params = df_str_trim(params);
    if (params.len == 0)
        return 1000;
    struct df_str value = df_str_trim(df_str_cut(params, '=', &name));
    return df_str_ieq(df_str_trim(name), DF_STR("q")) ? read_quality(value) : -1;
}

/* How well a range fits the language: 4 its tag, 3 the language alone, 2 the language elsewhere, 1
 * any. A range for another place says nothing about this one when it is refused. */
static int fit_of(enum df_lang lang, struct df_str range, int quality)
{
    struct df_str tag = df_str_c(df_lang_tag(lang));
    struct df_str prefix = df_str_n(tag.ptr, 2);

    if (df_str_eq(range, DF_STR("*")))
        return 1;
    if (df_str_ieq(range, tag))
        return 4;
    if (df_str_ieq(range, prefix))
        return 3;
    bool elsewhere =
        range.len > 3 && range.ptr[2] == '-' && df_str_ieq(df_str_n(range.ptr, 2), prefix);
    return elsewhere && quality > 0 ? 2 : 0;
}

static void read_range(struct df_language_ask *ask, struct df_str element)
{
    struct df_str range;
    int quality = read_weight(df_str_cut(element, ';', &range));

    range = df_str_trim(range);
    if (range.len == 0 || quality < 0)
        return;
    for (int lang = DF_LANG_EN; lang <= DF_LANG_PT; lang++) {
        struct df_language_want *w = &ask->want[lang];
        int fit = fit_of((enum df_lang)lang, range, quality);
        /* Of two other Portugueses, or of a range that stands twice, the better one counts. */
        if (fit > w->fit || (fit > 0 && fit == w->fit && quality > w->quality))
            *w = (struct df_language_want){fit, quality, ask->ranges};
    }
}

void df_language_read(struct df_language_ask *ask, struct df_str value)
{
    struct df_str element;

    while (value.len > 0 && ask->ranges < DF_LANGUAGE_RANGES_MAX) {
        value = df_str_cut(value, ',', &element);
        ask->ranges++;
        read_range(ask, element);
    }
}

enum df_lang df_language_choose(const struct df_language_ask *ask)
{
    const struct df_language_want *en = &ask->want[DF_LANG_EN], *pt = &ask->want[DF_LANG_PT];

    /* "*" alone asks for nothing in particular. */
    if (pt->quality == 0 || (pt->fit == 1 && en->fit == 1))
        return DF_LANG_EN;
    if (pt->quality != en->quality)
        return pt->quality > en->quality ? DF_LANG_PT : DF_LANG_EN;
    return pt->place < en->place ? DF_LANG_PT : DF_LANG_EN;
}
