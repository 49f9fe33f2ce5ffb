#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scratch.h"
#include "xlsx_fixture.h"

#include <stdio.h>

#define SHEET(rows)                                                                                \
    XML_HEAD "<worksheet xmlns=\"" MAIN_NS "\" xmlns:r=\"" REL_NS                                  \
             "\"><dimension ref=\"A1\"/><sheetData>" rows                                          \
             "</sheetData><pageMargins left=\"0.7\"/></worksheet>"
#define INLINE(text) "<c t=\"inlineStr\"><is><t>" text "</t></is></c>"
#define HEADER       "<row>" INLINE("a") INLINE("b") INLINE("c") INLINE("d") "</row>"

static struct df_records_options no_options; /* but a directory, set by main() */

/* Every workbook is read in all ways, which must agree. */
static const struct df_xlsx_tuning ways[] = {
    {.strict = false}, {.strict = true}, {.strict = false, .strings_bytes = 16}};

static enum df_code read_all_ways(struct df_str file, const struct df_records_options *opt,
                                  struct df_buf *out, struct df_err *err)
{
    struct df_buf other;
    enum df_code code = DF_OK;
    df_buf_init(out, 256U << 20);
    df_buf_init(&other, 256U << 20);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct df_err one = DF_ERR_INIT;
        struct df_buf *to = i ? &other : out;
        df_buf_reset(&other);
        enum df_code found = read_lines(file, opt, &ways[i], to, &one);
        if (i == 0) {
            code = found;
            *err = one;
            continue;
        }
        if (found != code)
            fail_msg("way %zu: %s: %s; before: %s: %s", i, df_code_name(found), one.detail,
                     df_code_name(code), err->detail);
        assert_string_equal(df_buf_str(out).ptr, df_buf_str(&other).ptr);
        assert_string_equal(err->detail, one.detail);
    }
    df_buf_release(&other);
    return code;
}

static void expect_file(struct df_str take_file, const struct df_records_options *opt,
                        const char *lines)
{
    struct df_buf out;
    struct df_err err = DF_ERR_INIT;
    enum df_code code = read_all_ways(take_file, opt, &out, &err);
    if (code != DF_DONE)
        fail_msg("%s: %s", df_code_name(code), err.detail);
    assert_string_equal(df_buf_str(&out).ptr, lines);
    df_buf_release(&out);
    free((void *)(uintptr_t)take_file.ptr);
}

static void expect_book(const struct book_parts *parts, const char *lines)
{
    expect_file(book_make(parts), &no_options, lines);
}

static void expect_sheet(const char *sheet, const char *lines)
{
    expect_book(&(struct book_parts){.sheet = df_str_c(sheet)}, lines);
    expect_book(&(struct book_parts){.sheet = df_str_c(sheet), .deflated = true}, lines);
}

static void expect_refused_with(struct df_str take_file, const struct df_records_options *opt,
                                enum df_code code, const char *words)
{
    struct df_buf out;
    struct df_err err = DF_ERR_INIT;
    enum df_code found = read_all_ways(take_file, opt, &out, &err);
    if (found != code || !strstr(err.detail, words))
        fail_msg("%s: %s; wanted %s: %s", df_code_name(found), err.detail, df_code_name(code),
                 words);
    df_buf_release(&out);
    free((void *)(uintptr_t)take_file.ptr);
}

static void expect_refused(struct df_str take_file, enum df_code code, const char *words)
{
    expect_refused_with(take_file, &no_options, code, words);
}

static void expect_sheet_refused(const char *sheet, enum df_code code, const char *words)
{
    expect_refused(book_make(&(struct book_parts){.sheet = df_str_c(sheet)}), code, words);
}

/* --- cells and rows --------------------------------------------------------------------------- */

static void cells_of_every_type(void **state)
{
    (void)state;
    expect_book(
        &(struct book_parts){
            .sheet = DF_STR(SHEET(
                "<row r=\"1\"><c r=\"A1\" t=\"s\"><v>0</v></c><c r=\"B1\" t=\"s\"><v>1</v></c>"
                "<c r=\"C1\" t=\"s\"><v>2</v></c></row>"
                "<row r=\"2\"><c r=\"A2\" t=\"str\"><f>A1&amp;B1</f><v>a &amp; b</v></c>"
                "<c r=\"B2\" t=\"b\"><v>1</v></c><c r=\"C2\" t=\"e\"><v>#N/A</v></c></row>"
                "<row r=\"3\"><c r=\"A3\" t=\"inlineStr\"><is><r><rPr><b/><t>no</t></rPr>"
                "<t>ri</t></r><r><t xml:space=\"preserve\">ch </t></r><rPh sb=\"0\" eb=\"1\">"
                "<t>phonetic</t></rPh></is></c><c r=\"B3\" t=\"b\"><v>0</v></c>"
                "<c r=\"C3\" t=\"n\"><v>-12.5</v></c></row>"
                "<row r=\"4\"><c r=\"A4\" t=\"d\"><v>2025-11-20T12:01:00.000Z</v></c>"
                "<c r=\"B4\" t=\"s\"><v>3</v></c><c r=\"C4\" t=\"s\"><v>4</v></c></row>"
                "<row r=\"5\"><c r=\"A5\" t=\"inlineStr\"><is><t xml:space=\"preserve\"> x "
                "</t></is>"
                "</c><c r=\"B5\"><v>7</v></c><c r=\"C5\" t=\"b\"><v>maybe</v></c></row>")),
            .strings = XML_HEAD
            "<sst xmlns=\"" MAIN_NS "\" count=\"5\" uniqueCount=\"5\"><si><t>a</t></si>"
            "<si><t>b</t></si><si><t xml:space=\"preserve\"> c </t></si><si><r><t>one</t></r><r>"
            "<rPr><sz val=\"9\"/></rPr><t>two</t></r><rPh sb=\"0\" eb=\"2\"><t>no</t></rPh>"
            "<phoneticPr fontId=\"1\"/></si><si><t>_x0041__x000A_\xC3\xA9_x005F_x_xD83D__xDE00_"
            "</t></si></sst>"},
        "a=\"a & b|b=?true|c=\"#N/A\n"
        "a=\"rich |b=?false|c=#-12.5\n"
        "a=\"2025-11-20T12:01:00|b=\"onetwo|c=\"A\n\xC3\xA9_x\xF0\x9F\x98\x80\n"
        "a=\" x |b=#7|c=\"maybe\n");
}

static void places_are_counted_when_not_given(void **state)
{
    (void)state;
    expect_sheet(SHEET("<row>" INLINE("a") INLINE(
                     "b") "</row><row><c/><c><v>1</v></c></row>"
                          "<row r=\"9\"><c r=\"B9\"><v>2</v></c><c><v>3</v></c></row>"
                          "<row r=\"4\"><c r=\"B4\"><v>4</v></c><c r=\"A4\"><v>5</v></c></row>"),
                 "b=#1\n\n\n\n\n\n\nb=#2|Column C=#3\nb=#4|a=#5\n");
}

static void headers_are_unique_and_never_empty(void **state)
{
    (void)state;
    expect_sheet(SHEET("<row><c t=\"str\"><v> </v></c></row>"
                       "<row/><row>" INLINE(" x ") "<c/>" INLINE("x") INLINE("x (2)") INLINE(
                           "x") "<c><v>5.0E0</v></c></row>"
                                "<row><c><v>1</v></c><c><v>2</v></c><c><v>3</v></c><c><v>4</v></c>"
                                "<c><v>5</v></c><c><v>6</v></c><c><v>7</v></c></row>"),
                 "x=#1|Column B=#2|x (2)=#3|x (2) (2)=#4|x (3)=#5|5=#6|Column G=#7\n");
    /* What stands there keeps its name, as in a CSV file. */
    expect_sheet(SHEET("<row>" INLINE("a") "<c/>" INLINE(
                     "Column B") "</row><row><c><v>1</v></c><c><v>2</v></c><c><v>3</v></c></row>"),
                 "a=#1|Column B (2)=#2|Column B=#3\n");
}

static void empty_rows_count_only_between_others(void **state)
{
    (void)state;
    expect_sheet(SHEET(HEADER "<row r=\"2\"/><row r=\"3\"><c s=\"1\"/></row>"
                              "<row r=\"1000000\"><c><v>1</v></c></row>"
                              "<row r=\"1000001\"><c s=\"1\"/></row><row/>"),
                 "\n\na=#1\n");
    /* left out, as most programs do with them */
    expect_sheet(
        SHEET("<row r=\"3\">" INLINE("a") "</row><row r=\"5\"><c><v>1</v></c></row>"
                                          "<row r=\"6\"/><row r=\"9\"><c><v>2</v></c></row>"
                                          "<row r=\"12\"><c s=\"1\"/></row>"),
        "\na=#1\n\n\n\na=#2\n");
    expect_sheet(SHEET("<row/><row/>"), "");
    expect_sheet(XML_HEAD "<worksheet xmlns=\"" MAIN_NS "\"><sheetData/></worksheet>", "");
    expect_sheet(XML_HEAD "<worksheet xmlns=\"" MAIN_NS "\"/>", "");
}

static void unusual_xml_gives_the_same(void **state)
{
    (void)state;
    static const char *const sheets[] = {
        /* a prefix */
        "<x:worksheet xmlns:x=\"" MAIN_NS "\"><x:sheetData><x:row><x:c t=\"inlineStr\"><x:is><x:t>"
        "a</x:t></x:is></x:c></x:row><x:row><x:c><x:v>1</x:v></x:c></x:row></x:sheetData>"
        "</x:worksheet>",
        /* strict OOXML */
        "<worksheet xmlns=\"http://purl.oclc.org/ooxml/spreadsheetml/main\"><sheetData>"
        "<row>" INLINE("a") "</row><row><c><v>1</v></c></row></sheetData></worksheet>",
        /* CDATA, comments, processing instructions, single quotes, spaces */
        "<worksheet xmlns=\"" MAIN_NS "\"><!-- x --><sheetData\n><row ><c t='inlineStr' ><is><t>"
        "<![CDATA[a]]></t></is></c ></row><?x y?><row><c><v>1<!-- x --></v></c></row>\r\n"
        "</sheetData></worksheet>",
        /* something of others inside */
        "<worksheet xmlns=\"" MAIN_NS "\" xmlns:o=\"urn:o\"><o:x><sheetData/></o:x><sheetData><row>"
        "<o:c/>" INLINE(
            "a") "<extLst><ext><c/></ext></extLst></row><o:row><c/></o:row>"
                 "<row o:r=\"7\"><c><v>1</v><extLst/></c></row></sheetData></worksheet>",
        /* Latin-1 */
        "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><worksheet xmlns=\"" MAIN_NS
        "\"><sheetData><row>" INLINE("a") INLINE("\xE9") "</row><row><c><v>1</v></c></row>"
                                                         "</sheetData></worksheet>",
        /* it becomes unusual in the midst */
        "<worksheet xmlns=\"" MAIN_NS
        "\"><sheetData><row>" INLINE("a") "</row><row><c><v>1</v></c>"
                                          "</row></sheetData><!-- x --></worksheet>",
        /* references in attributes */
        "<worksheet xmlns=\"" MAIN_NS "\"><sheetPr x=\"&lt;&gt;\"/><sheetData><row>" INLINE(
            "a") "</row><row><c r=\"&#65;2\"><v>1</v></c></row></sheetData></worksheet>"};
    for (size_t i = 0; i < sizeof sheets / sizeof sheets[0]; i++)
        expect_sheet(sheets[i], "a=#1\n");
}

static void text_keeps_its_bytes(void **state)
{
    (void)state;
    expect_sheet(
        SHEET("<row>" INLINE("a") "</row><row>" INLINE(
            "&lt;&amp;&gt;&quot;&apos;&#233;&#"
            "x1F600;") "</row><row>" INLINE("x > y ]] z\n\ttab\r\nlf\rcr&#13;") "</row>"
                                                                                "<row><c "
                                                                                "t=\"str\"><v>"
                                                                                "00123 "
                                                                                "\xC3\xA7\xE2\x82"
                                                                                "\xAC</v></c></row>"
                                                                                "<row>" INLINE(
                                                                                    "_x004_ "
                                                                                    "_x00G1_ "
                                                                                    "_xD800_ "
                                                                                    "_x0000_ "
                                                                                    "_x0041") "</"
                                                                                              "row"
                                                                                              ">"),
        "a=\"<&>\"'\xC3\xA9\xF0\x9F\x98\x80\na=\"x > y ]] z\n\ttab\nlf\ncr\r\n"
        "a=\"00123 \xC3\xA7\xE2\x82\xAC\na=\"_x004_ _x00G1_ _xD800_ _x0000_ _x0041\n");
}

/* Rows across every cut of the plain reader's window, and of libxml2's chunks. */
static void long_sheets_are_read_to_the_end(void **state)
{
    (void)state;
    struct df_buf sheet, lines;
    df_buf_init(&sheet, 64U << 20);
    df_buf_init(&lines, 64U << 20);
    df_buf_addz(&sheet, XML_HEAD "<worksheet xmlns=\"" MAIN_NS "\"><sheetData><row>" INLINE("a")
                            INLINE("b") "</row>");
    for (int i = 0; i < 20000; i++) {
        static const char fill[] = "abcdefghijklmnopqrstuvwxyz\xC3\xA9\xE2\x82\xAC"
                                   "0123456789";
        int len = i % 27;
        df_buf_addf(&sheet,
                    "<row r=\"%d\"><c r=\"A%d\" s=\"0\"><v>%d</v></c><c r=\"B%d\" "
                    "t=\"inlineStr\"><is><t>%.*s\xC3\xA9&amp;\xE2\x82\xAC</t></is></c></row>",
                    i + 2, i + 2, i, i + 2, len, fill);
        df_buf_addf(&lines, "a=#%d|b=\"%.*s\xC3\xA9&\xE2\x82\xAC\n", i, len, fill);
    }
    df_buf_addz(&sheet, "</sheetData></worksheet>");
    expect_book(&(struct book_parts){.sheet = df_buf_str(&sheet), .deflated = true},
                df_buf_str(&lines).ptr);
    df_buf_release(&sheet);
    df_buf_release(&lines);
}

static void shared_strings_come_back_from_disk(void **state)
{
    (void)state;
    struct df_buf strings, sheet, lines;
    df_buf_init(&strings, 64U << 20);
    df_buf_init(&sheet, 64U << 20);
    df_buf_init(&lines, 64U << 20);
    df_buf_addz(&strings, XML_HEAD "<sst xmlns=\"" MAIN_NS "\"><si><t>name</t></si>");
    df_buf_addz(&sheet, XML_HEAD "<worksheet xmlns=\"" MAIN_NS "\"><sheetData><row>"
                                 "<c t=\"s\"><v>0</v></c><c t=\"s\"><v>0</v></c></row>");
    for (unsigned i = 1; i < 20000; i++) {
        unsigned other = i * 7919 % 19999 + 1;
        df_buf_addf(&strings, "<si><t>string %u of the table</t></si>", i);
        df_buf_addf(&sheet, "<row><c t=\"s\"><v>%u</v></c><c t=\"s\"><v>%u</v></c></row>", i,
                    other);
        df_buf_addf(&lines, "name=\"string %u of the table|name (2)=\"string %u of the table\n", i,
                    other);
    }
    df_buf_addz(&strings, "</sst>");
    df_buf_addz(&sheet, "</sheetData></worksheet>");
    expect_book(&(struct book_parts){.sheet = df_buf_str(&sheet),
                                     .strings = df_buf_str(&strings).ptr,
                                     .deflated = true},
                df_buf_str(&lines).ptr);
    df_buf_release(&strings);
    df_buf_release(&sheet);
    df_buf_release(&lines);
}

/* --- numbers and dates ------------------------------------------------------------------------ */

static void numbers_are_what_a_person_sees(void **state)
{
    (void)state;
    static const struct {
        const char *format, *value, *seen;
    } cases[] = {
        {"General", "5.511999998888E12", "#5511999998888"},
        {"General", "5511999998888", "#5511999998888"},
        {"General", "0.30000000000000004", "#0.3"},
        {"General", "1.1000000000000001", "#1.1"},
        {"General", "99.999999999999986", "#100"},
        {"General", "-0", "#0"},
        {"General", "0", "#0"},
        {"General", "-0.5", "#-0.5"},
        {"General", "007", "#7"},
        {"General", "1.50", "#1.5"},
        {"General", "+3", "#3"},
        {"General", ".5", "#0.5"},
        {"General", "1E-5", "#0.00001"},
        {"General", "1.2345E-7", "#0.00000012345"},
        {"General", "1E-10", "#1e-10"},
        {"General", "1.5E+20", "#150000000000000000000"},
        {"General", "1E+100", "#1e100"},
        {"General", "12345678901234567", "#12345678901234567"},
        {"General", "123456789012345.67", "#123456789012346"},
        {"General", "1E999", "\"1E999"},
        {"General", "abc", "\"abc"},
        {"General", "NaN", "\"NaN"},
        {"General", "0x10", "\"0x10"},
        {"General", "1-2", "\"1-2"},
        {"0", "3.7", "#3.7"},
        {"0.00", "3.14159", "#3.14159"},
        {"0%", "0.25", "#0.25"},
        {"\"R$\" #,##0.00", "1234.5", "#1234.5"},
        {"# ##0", "1234567", "#1234567"},
        {"@", "42", "#42"},
        {"0.00E+00", "12345", "#12345"},
        {"00000", "1310", "\"01310"},
        {"00000", "1234567", "\"1234567"},
        {"00000", "1.5", "#1.5"},
        {"00000-000", "1310100", "\"01310-100"},
        {"00000\\-000", "1310100", "\"01310-100"},
        {"(00) 00000-0000", "11999998888", "\"(11) 99999-8888"},
        {"\\(00\\)\\ 00000\\-0000", "1.1999998888E10", "\"(11) 99999-8888"},
        {"+00 (00) 00000-0000", "5511999998888", "\"+55 (11) 99999-8888"},
        {"000\\.000\\.000\\-00", "1234567890", "\"012.345.678-90"},
        {"00\".\"000\".\"000\"/\"0000\"-\"00", "11222333000181", "\"11.222.333/0001-81"},
        {"[<=9999999]###-####;(###) ###-####", "5551234", "\"555-1234"},
        {"[<=9999999]###-####;(###) ###-####", "8005551234", "\"(800) 555-1234"},
        {"000", "-7", "\"-007"},
        {"000;(000)", "-7", "\"(007)"},
        {"[$-416]00000", "12", "\"00012"},
        {"dd/mm/yyyy", "45981", "\"2025-11-20"},
        {"dd/mm/yyyy", "45981.75", "\"2025-11-20"},
        {"dd/mm/yyyy hh:mm", "45981.500694444447", "\"2025-11-20T12:01:00"},
        {"dd/mm/yyyy hh:mm", "45981.999999999", "\"2025-11-21T00:00:00"},
        {"yyyy\\-mm\\-dd\\Thh:mm:ss.000", "45981.500694456", "\"2025-11-20T12:01:00.001"},
        {"hh:mm:ss", "0.50069444444444444", "\"12:01:00"},
        {"h:mm AM/PM", "45981.25", "\"06:00:00"},
        {"mm:ss.0", "0.00001", "\"00:00:00.9"},
        {"[h]:mm:ss", "1.1041666666666667", "\"26:30:00"},
        {"[Red]dd/mm/yyyy;@", "1", "\"1900-01-01"},
        {"d", "59", "\"1900-02-28"},
        {"d", "60", "\"1900-02-28"},
        {"d", "61", "\"1900-03-01"},
        {"d", "2958465", "\"9999-12-31"},
        {"d", "2958466", "#2958466"},
        {"d", "-1", "#-1"},
        {"d", "36585", "\"2000-02-29"},
        {"mmm/yy", "45981", "\"2025-11-20"},
        {"[$-F800]dddd, mmmm dd, yyyy", "45981", "\"2025-11-20"},
        {"\"day\" 0", "5", "#5"},
        {"\"Total:\" General", "5", "#5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct df_buf code, styles, sheet, lines;
        df_buf_init(&code, 4096);
        df_buf_init(&styles, 4096);
        df_buf_init(&sheet, 4096);
        df_buf_init(&lines, 4096);
        for (const char *p = cases[i].format; *p; p++)
            *p == '"'   ? df_buf_addz(&code, "&quot;")
            : *p == '<' ? df_buf_addz(&code, "&lt;")
                        : df_buf_addc(&code, *p);
        df_buf_addf(&styles,
                    "<styleSheet xmlns=\"" MAIN_NS "\"><numFmts><numFmt numFmtId=\"164\" "
                    "formatCode=\"%s\"/></numFmts><cellXfs><xf numFmtId=\"0\"/>"
                    "<xf numFmtId=\"164\" xfId=\"0\"><alignment/></xf></cellXfs></styleSheet>",
                    df_buf_str(&code).ptr);
        df_buf_addf(&sheet,
                    SHEET("<row r=\"1\"><c r=\"A1\" t=\"str\"><v>a</v></c></row>"
                          "<row r=\"2\"><c r=\"A2\" s=\"1\"><v>%s</v></c></row>"),
                    cases[i].value);
        df_buf_addf(&lines, "a=%s\n", cases[i].seen);
        expect_book(
            &(struct book_parts){.sheet = df_buf_str(&sheet), .styles = df_buf_str(&styles).ptr},
            df_buf_str(&lines).ptr);
        df_buf_release(&code);
        df_buf_release(&styles);
        df_buf_release(&sheet);
        df_buf_release(&lines);
    }
}

static void built_in_formats_and_both_calendars(void **state)
{
    (void)state;
    static const char styles[] =
        "<styleSheet xmlns=\"" MAIN_NS "\"><cellStyleXfs><xf numFmtId=\"9\"/></cellStyleXfs>"
        "<cellXfs><xf numFmtId=\"14\"/><xf numFmtId=\"22\"/><xf numFmtId=\"20\"/>"
        "<xf numFmtId=\"46\"/><xf/></cellXfs><cellStyles/></styleSheet>";
    static const char sheet[] =
        SHEET(HEADER "<row><c s=\"0\"><v>100.5</v></c><c s=\"1\"><v>100.5</v></c><c s=\"2\">"
                     "<v>100.5</v></c><c s=\"3\"><v>100.5</v></c><c s=\"4\"><v>1</v></c>"
                     "<c s=\"99\"><v>2</v></c><c t=\"d\" s=\"0\"><v>2025-11-20T00:00:00</v></c>"
                     "<c t=\"d\"><v>soon</v></c></row>");
    expect_book(&(struct book_parts){.sheet = df_str_c(sheet), .styles = styles},
                "a=\"1900-04-09|b=\"1900-04-09T12:00:00|c=\"12:00:00|d=\"2412:00:00|Column E=#1|"
                "Column F=#2|Column G=\"2025-11-20|Column H=\"soon\n");
    expect_book(
        &(struct book_parts){.sheet = df_str_c(sheet),
                             .styles = styles,
                             .workbook = WORKBOOK("<workbookPr date1904=\"1\"/>", ONE_SHEET)},
        "a=\"1904-04-10|b=\"1904-04-10T12:00:00|c=\"12:00:00|d=\"2412:00:00|Column E=#1|"
        "Column F=#2|Column G=\"2025-11-20|Column H=\"soon\n");
}

/* As Excel saves "Strict Open XML": the digits go further than anybody has seen. */
static void iso_dates_are_rounded_as_numbers_are(void **state)
{
    (void)state;
    static const struct {
        const char *format, *value, *seen;
    } cases[] = {
        {"dd/mm/yyyy hh:mm", "2014-01-16T15:59:59.99999979045242400", "2014-01-16T16:00:00"},
        {"dd/mm/yyyy hh:mm:ss.000", "2014-01-16T15:59:59.25", "2014-01-16T15:59:59.250"},
        {"dd/mm/yyyy", "2014-12-31T23:59:59.99999979045242400", "2015-01-01"},
        {"General", "2014-01-16T15:59:59.99999979045242400Z", "2014-01-16T16:00:00"},
        {"General", "2014-01-16T00:00:00", "2014-01-16"},
        {"General", "1899-12-30", "1899-12-30"},
        {"h:mm", "01:34:00.00000000000154875", "01:34:00"},
        {"h:mm", "1899-12-31T10:59:59.9999999999984025", "11:00:00"},
        {"[h]:mm", "PT0H11M0.000S", "00:11:00"},
        {"[h]:mm", "PT1512H0M59.9999S", "1512:01:00"},
        {"[h]:mm", "PT", "PT"},
        {"[h]:mm", "PT9X", "PT9X"},
        {"[h]:mm", "PT999999999H999999999H", "PT999999999H999999999H"},
        {"dd/mm/yyyy", "2014-02-30", "2014-02-30"},
        {"dd/mm/yyyy", "0000-01-01", "0000-01-01"},
        {"dd/mm/yyyy", "2014-01-16T99:00:00", "2014-01-16T99:00:00"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char styles[512], sheet[1024], line[128];
        snprintf(styles, sizeof styles,
                 "<styleSheet xmlns=\"" MAIN_NS "\"><numFmts><numFmt numFmtId=\"164\" "
                 "formatCode=\"%s\"/></numFmts><cellXfs><xf numFmtId=\"164\"/></cellXfs>"
                 "</styleSheet>",
                 cases[i].format);
        snprintf(sheet, sizeof sheet,
                 SHEET("<row>" INLINE("a") "</row><row><c t=\"d\" s=\"0\"><v>%s</v></c></row>"),
                 cases[i].value);
        snprintf(line, sizeof line, "a=\"%s\n", cases[i].seen);
        expect_book(&(struct book_parts){.sheet = df_str_c(sheet), .styles = styles}, line);
    }
}

static void what_some_programs_write_is_read(void **state)
{
    (void)state;
    /* an empty style; a value beside the text that it repeats */
    expect_sheet(SHEET("<row>" INLINE("a")
                           INLINE("b") "</row><row><c s=\"\"><v>1</v></c>"
                                       "<c t=\"inlineStr\"><v>1.0</v><is><t>1.</t></is></c></row>"),
                 "a=#1|b=\"1.\n");
    /* values indented */
    expect_sheet(SHEET("<row>" INLINE("a") INLINE("b") INLINE("c") INLINE(
                     "d") "</row><row><c><v>\n 12 </v></c><c t=\"b\"><v> 1\n</v></c>"
                          "<c t=\"d\"><v> 2025-11-20 </v></c><c t=\"e\"><v> #N/A </v></c></row>"),
                 "a=#12|b=?true|c=\"2025-11-20|d=\"#N/A\n");
}

/* --- the workbook ----------------------------------------------------------------------------- */

#define GOOD_SHEET DF_STR(SHEET("<row>" INLINE("a") "</row><row><c><v>1</v></c></row>"))
#define SHEETS                                                                                     \
    "<sheet name=\"Gr\xC3\xA1"                                                                     \
    "fico\" r:id=\"rId4\"/><sheet name=\"Velho\" state=\"hidden\" "                                \
    "r:id=\"rId5\"/><sheet name=\"Opera\xC3\xA7\xC3\xA3o\" r:id=\"rId1\"/><sheet name=\"Nada\" "   \
    "r:id=\"rId5\"/>"

static struct df_str book_of_sheets(void)
{
    return book_make(&(struct book_parts){.sheet = GOOD_SHEET, .workbook = WORKBOOK("", SHEETS)});
}

static void a_sheet_is_found_by_name_or_is_the_first_visible(void **state)
{
    (void)state;
    struct df_records_options opt = no_options;
    expect_file(book_of_sheets(), &opt, "a=#1\n");
    opt.sheet = DF_STR("opera\xC3\x87\xC3\x83O");
    expect_file(book_of_sheets(), &opt, "a=#1\n");
    opt.sheet = DF_STR("3");
    expect_file(book_of_sheets(), &opt, "a=#1\n");
    opt.sheet = DF_STR("5");
    expect_refused_with(book_of_sheets(), &opt, DF_E_VALIDATION, "there is no sheet \"5\"");
    opt.sheet = DF_STR("0");
    expect_refused_with(book_of_sheets(), &opt, DF_E_VALIDATION, "there is no sheet \"0\"");
    opt.sheet = DF_STR("Outra");
    expect_refused_with(book_of_sheets(), &opt, DF_E_VALIDATION,
                        "there is no sheet \"Outra\"; the workbook has \"Gr\xC3\xA1"
                        "fico\", "
                        "\"Velho\", \"Opera\xC3\xA7\xC3\xA3o\", \"Nada\"");
    opt.sheet = DF_STR("GR\xC3\x81"
                       "FICO");
    expect_refused_with(book_of_sheets(), &opt, DF_E_VALIDATION, "is a chart");
    opt.sheet = DF_STR("nada");
    expect_refused_with(book_of_sheets(), &opt, DF_E_VALIDATION, "\"Nada\" is not there");
    opt.sheet = DF_STR("A & B <\"c'>");
    expect_file(book_make(&(struct book_parts){
                    .sheet = GOOD_SHEET,
                    .workbook = WORKBOOK("", "<sheet name=\"A &amp; B &lt;&quot;c&apos;&#62;\" "
                                             "r:id=\"rId1\"/>")}),
                &opt, "a=#1\n");
}

static void parts_are_found_however_they_are_named(void **state)
{
    (void)state;
    static const char *const targets[] = {
        BOOK_RELS("worksheets/sheet1.xml", "x", "x"),
        BOOK_RELS("/xl/worksheets/sheet1.xml", "x", "x"),
        BOOK_RELS("./worksheets/../worksheets/sheet1.xml", "x", "x"),
        BOOK_RELS("worksheets\\sheet1.xml", "x", "x"),
        BOOK_RELS("\\XL\\worksheets\\Sheet1.XML", "x", "x"),
        BOOK_RELS("../../../xl/worksheets/sheet1.xml", "x", "x"),
    };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        expect_book(&(struct book_parts){.sheet = GOOD_SHEET, .rels = targets[i]}, "a=#1\n");

    struct zip_maker z = {.prefix = "something else stands here"};
    zip_add(&z, "\\[Content_Types].xml", DF_STR(BOOK_TYPES))->descriptor = true;
    zip_add(&z, "_rels\\.rels", DF_STR(ROOT_RELS("/other/main.xml")))->deflated = true;
    zip_add(&z, "../../etc/passwd", DF_STR("x"));
    zip_add(&z, "other/main.xml", DF_STR(WORKBOOK("", ONE_SHEET)))->deflated = true;
    zip_add(&z, "other/_rels/main.xml.rels", DF_STR(BOOK_RELS("../s.xml", "t.xml", "u.xml")));
    struct zip_part *sheet = zip_add(&z, "s.xml", GOOD_SHEET);
    sheet->deflated = sheet->descriptor = true;
    expect_file(zip_make(&z), &no_options, "a=#1\n");
    z.prefix = NULL;
    z.suffix = "\r\n";
    expect_file(zip_make(&z), &no_options, "a=#1\n");
    z.suffix = "PK\5\6<!-- what a page adds -->";
    expect_file(zip_make(&z), &no_options, "a=#1\n");
    z.zip64 = true;
    expect_file(zip_make(&z), &no_options, "a=#1\n");
}

static void a_part_without_a_content_type_may_be_a_workbook(void **state)
{
    (void)state;
    struct zip_maker z = {.count = 0};
    book_zip(&(struct book_parts){.sheet = GOOD_SHEET}, &z);
    z.parts[0].content = DF_STR("<Types xmlns=\"" PKG_NS "content-types\">"
                                "<Override PartName=\"/xl/workbook.xml\"/></Types>");
    expect_file(zip_make(&z), &no_options, "a=#1\n");
}

/* --- what is refused -------------------------------------------------------------------------- */

static void sheets_that_are_wrong_are_refused_with_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *sheet;
        enum df_code code;
        const char *words;
    } cases[] = {
        {"", DF_E_VALIDATION, "xl/worksheets/sheet1.xml is not well-formed XML"},
        {"<worksheet xmlns=\"" MAIN_NS "\">", DF_E_VALIDATION, "not well-formed"},
        {"<other xmlns=\"" MAIN_NS "\"/>", DF_E_VALIDATION, "is not a sheet of cells"},
        {"<worksheet/>", DF_E_VALIDATION, "is not a sheet of cells"},
        {SHEET("<row><c></row>"), DF_E_VALIDATION, "not well-formed"},
        {SHEET("<row><c r=\"A1\" r=\"A1\"/></row>"), DF_E_VALIDATION, "not well-formed"},
        {SHEET("<row>" INLINE("a]]>") "</row>"), DF_E_VALIDATION, "not well-formed"},
        {SHEET("<row>" INLINE("&nbsp;") "</row>"), DF_E_VALIDATION, "not well-formed"},
        {SHEET("<row>" INLINE("&#0;") "</row>"), DF_E_VALIDATION, "not well-formed"},
        {SHEET("<row>" INLINE("\xC3(") "</row>"), DF_E_VALIDATION, "not well-formed"},
        {SHEET("<row>" INLINE("\xED\xA0\x80") "</row>"), DF_E_VALIDATION, "not well-formed"},
        {SHEET("<row>" INLINE("\1") "</row>"), DF_E_VALIDATION, "not well-formed"},
        {SHEET("<row>" INLINE("\xEF\xBF\xBF") "</row>"), DF_E_VALIDATION, "not well-formed"},
        {SHEET("") "<x/>", DF_E_VALIDATION, "not well-formed"},
        {"<!DOCTYPE x [<!ENTITY a \"b\">]><worksheet xmlns=\"" MAIN_NS "\"/>", DF_E_VALIDATION,
         "has a document type"},
        {"<!DOCTYPE l [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;\"><!ENTITY c \"&b;&b;&b;&b;\">]>"
         "<worksheet xmlns=\"" MAIN_NS
         "\"><sheetData><row>" INLINE("&c;") "</row></sheetData></worksheet>",
         DF_E_VALIDATION, "has a document type"},
        {SHEET(HEADER "<row r=\"17\"><c t=\"s\"><v>5</v></c></row>"), DF_E_VALIDATION,
         "cell A17: the workbook has no shared string 5"},
        {SHEET(HEADER "<row r=\"17\"><c t=\"s\"><v>x</v></c></row>"), DF_E_VALIDATION, "row 17"},
        {SHEET("<row r=\"0\"/>"), DF_E_VALIDATION, "wrong number"},
        {SHEET("<row r=\"2\"><c r=\"5\"><v>1</v></c></row>"), DF_E_VALIDATION, "row 2"},
        {SHEET("<row r=\"2\"><c r=\"B2\"><v>1</v></c><c r=\"B2\"><v>1</v></c></row>"),
         DF_E_VALIDATION, "row 2 has two cells in column B"},
        {SHEET("<row r=\"3\"><c r=\"XFD3\"><v>1</v></c><c><v>2</v></c></row>"), DF_E_TOO_LARGE,
         "row 3 goes past the last column"},
        {SHEET("<row r=\"3\"><c r=\"XFE3\"><v>1</v></c></row>"), DF_E_TOO_LARGE, "row 3"},
        {SHEET("<row r=\"3\"><c r=\"ZZZZZZZZZZ3\"><v>1</v></c></row>"), DF_E_TOO_LARGE, "row 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_sheet_refused(cases[i].sheet, cases[i].code, cases[i].words);
}

static struct df_str repeated(const char *before, const char *unit, size_t times, const char *after)
{
    struct df_buf b;
    size_t len;
    df_buf_init(&b, 1U << 30);
    df_buf_addz(&b, before);
    for (size_t i = 0; i < times; i++)
        df_buf_addz(&b, unit);
    df_buf_addz(&b, after);
    char *ptr = df_buf_take(&b, &len);
    return df_str_n(ptr, len);
}

#define BEFORE XML_HEAD "<worksheet xmlns=\"" MAIN_NS "\"><sheetData>"
#define AFTER  "</sheetData></worksheet>"

static void what_is_too_large_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *before, *unit, *after;
        size_t times;
        enum df_code code;
        const char *words;
    } cases[] = {
        {BEFORE "<row>", "<a>", "", 10000, DF_E_TOO_DEEP, "nested too deeply"},
        {BEFORE "<row>", "<c><v>1</v></c>", "</row>" AFTER, 4097, DF_E_TOO_LARGE, "4096"},
        {BEFORE "<row>", "<c/>", "</row>" AFTER, 16385, DF_E_TOO_LARGE, "XFD"},
        {BEFORE "<row><c t=\"str\"><v>", "aaaaaaaaaaaaaaaa", "</v></c></row>" AFTER, 65537,
         DF_E_TOO_LARGE, "row 1 has a cell with too many bytes"},
        {BEFORE "<row><c t=\"inlineStr\"><is><r><t>", "aaaaaaaa</t></r><r><t>aaaaaaaa",
         "</t></r></is></c></row>" AFTER, 65537, DF_E_TOO_LARGE,
         "row 1 has a cell with too many bytes"},
        {BEFORE "<row>",
         "<c t=\"str\"><v>0123456789012345678901234567890123456789012345678901234567"
         "890123456789012345678901234567890123456789012345678901234567890123456789"
         "012345678901234567890123456789012345678901234567890123456789012345678901"
         "2345678901234567890123456789012345678901234567890123456789</v></c>",
         "</row>" AFTER, 4096, DF_E_TOO_LARGE, "row 1 has"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct df_str sheet =
            repeated(cases[i].before, cases[i].unit, cases[i].times, cases[i].after);
        expect_refused(book_make(&(struct book_parts){.sheet = sheet}), cases[i].code,
                       cases[i].words);
        free((void *)(uintptr_t)sheet.ptr);
    }
}

/* Also where a window of the plain reader ends between two tokens. */
static void what_stands_behind_the_sheet_is_looked_at(void **state)
{
    (void)state;
    static const char *const behind[] = {"x", "<x/>", "<worksheet xmlns=\"" MAIN_NS "\"/>", "]]>"};
    for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
        for (size_t more = 0; more < 300; more += 100) {
            struct df_str sheet = repeated(BEFORE AFTER, " ", 131072 - 200 + more, behind[i]);
            expect_refused(book_make(&(struct book_parts){.sheet = sheet}), DF_E_VALIDATION,
                           "not well-formed");
            free((void *)(uintptr_t)sheet.ptr);
        }
    }
}

static void every_limit_holds(void **state)
{
    (void)state;
    static const char strings[] = XML_HEAD "<sst xmlns=\"" MAIN_NS "\"><si><t>0123456789</t></si>"
                                           "<si><t>0123456789</t></si></sst>";
    const struct book_parts parts = {
        .sheet = DF_STR(SHEET(HEADER "<row><c t=\"s\"><v>0</v></c><c t=\"s\"><v>1</v></c></row>"
                                     "<row><c t=\"s\"><v>0</v></c></row>")),
        .strings = strings};
    const struct {
        struct df_record_limits limits;
        const char *words;
    } cases[] = {
        {{.max_records = 1}, "more than 1 rows"},
        {{.max_record_bytes = 21}, "bytes"},
        {{.max_fields = 1}, "cells"},
        {{.max_inflated = 100}, "bytes"},
        {{.max_entries = 5}, "entries"},
        {{.max_string_bytes = 9}, "shared string 0 is longer than 9 bytes"},
        {{.max_shared_bytes = 35}, "shared strings take more than 35 bytes"},
        {{.max_rows = 2}, "row 3 is past the last row of a sheet, 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct df_records_options opt = {.temp_dir = scratch_dir(), .limits = cases[i].limits};
        expect_refused_with(book_make(&parts), &opt, DF_E_TOO_LARGE, cases[i].words);
    }
}

/* However the row's number is come by. What was begun before there was a limit is read on. */
static void rows_past_excels_last_are_refused(void **state)
{
    (void)state;
    const struct df_records_options any = {.temp_dir = scratch_dir(),
                                           .limits = {.max_rows = UINT64_MAX}};
    static const char over[] = SHEET(HEADER "<row r=\"1048577\"><c t=\"str\"><v>x</v></c></row>");

    expect_sheet_refused(over, DF_E_TOO_LARGE, "row 1048577 is past the last row of a sheet");
    expect_sheet_refused(SHEET(HEADER "<row r=\"1048576\"/><row><c t=\"str\"><v>x</v></c></row>"),
                         DF_E_TOO_LARGE, "row 1048577 is past");
    expect_sheet_refused(SHEET(HEADER "<row r=\"9223372036854775807\"/>"), DF_E_TOO_LARGE,
                         "is past the last row");
    expect_sheet(SHEET(HEADER "<row r=\"1048576\"><c t=\"str\"><v>x</v></c></row>"), "a=\"x\n");
    expect_file(book_make(&(struct book_parts){.sheet = df_str_c(over)}), &any, "a=\"x\n");
}

static void bombs_are_refused_before_they_go_off(void **state)
{
    (void)state;
    /* 64 MiB of one cell, packed to 64 KiB. */
    struct df_str sheet = repeated(BEFORE "<row><c t=\"str\"><v>", "aaaaaaaaaaaaaaaa", 4U << 20,
                                   "</v></c></row>" AFTER);
    struct zip_maker z = {.count = 0};
    book_zip(&(struct book_parts){.sheet = sheet, .deflated = true}, &z);
    expect_refused(zip_make(&z), DF_E_TOO_LARGE, "times its size");
    z.parts[4].size = 1 << 20; /* as if it were small */
    expect_refused(zip_make(&z), DF_E_VALIDATION, "longer than the directory says");
    free((void *)(uintptr_t)sheet.ptr);
}

static void archives_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct zip_part lie;
        const char *words;
    } cases[] = {
        {{.crc = 1}, "sheet1.xml is broken: its checksum is wrong"},
        {{.size = 1}, "longer than the directory says"},
        {{.size = 5000}, "shorter than the directory says"},
        {{.packed = 20}, "is broken"},
        {{.packed = 100000}, "overlaps"},
        {{.offset = 1}, "overlaps"},
        {{.method = 12}, "method"},
        {{.flags = 1}, "encrypted"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zip_maker z = {.count = 0};
        book_zip(&(struct book_parts){.sheet = GOOD_SHEET, .deflated = true}, &z);
        struct zip_part *p = &z.parts[4];
        p->crc = cases[i].lie.crc;
        p->size = cases[i].lie.size;
        p->packed = cases[i].lie.packed;
        p->offset = cases[i].lie.offset;
        p->method = cases[i].lie.method;
        p->flags = cases[i].lie.flags;
        expect_refused(zip_make(&z), DF_E_VALIDATION, cases[i].words);
    }
    struct zip_maker z = {.count = 0};
    book_zip(&(struct book_parts){.sheet = GOOD_SHEET}, &z);
    zip_add(&z, "XL/worksheets/SHEET1.xml", DF_STR("x"));
    expect_refused(zip_make(&z), DF_E_VALIDATION, "two of that name");
    z.count--;
    z.entries_lie = 3;
    expect_refused(zip_make(&z), DF_E_VALIDATION, "more entries than it says");
    z.entries_lie = 60000;
    expect_refused(zip_make(&z), DF_E_TOO_LARGE, "60000 entries");
}

static void a_workbook_cut_anywhere_is_refused(void **state)
{
    (void)state;
    struct df_str file = book_make(&(struct book_parts){.sheet = GOOD_SHEET, .deflated = true});
    for (size_t len = 0; len < file.len; len++) {
        struct df_buf out;
        struct df_err err = DF_ERR_INIT;
        enum df_code code = read_all_ways(df_str_n(file.ptr, len), &no_options, &out, &err);
        assert_int_equal(code, DF_E_VALIDATION);
        assert_true(err.detail[0]);
        df_buf_release(&out);
    }
    free((void *)(uintptr_t)file.ptr);
}

static void relations_that_lead_nowhere_are_refused(void **state)
{
    (void)state;
    struct zip_maker z = {.count = 0};
    book_zip(&(struct book_parts){.sheet = GOOD_SHEET}, &z);
    z.parts[1].content = DF_STR(ROOT_RELS("_rels/.rels")); /* to itself */
    expect_refused(zip_make(&z), DF_E_VALIDATION, "main part is something else");
    z.parts[1].content = DF_STR(ROOT_RELS("none.xml"));
    expect_refused(zip_make(&z), DF_E_VALIDATION, "none.xml, is not there");
    z.parts[1].content = DF_STR("<Relationships xmlns=\"" PKG_NS "relationships\"/>");
    expect_refused(zip_make(&z), DF_E_MEDIA_TYPE, "no workbook");
    expect_refused(book_make(&(struct book_parts){
                       .sheet = GOOD_SHEET,
                       .rels = BOOK_RELS("workbook.xml", "sharedStrings.xml", "styles.xml")}),
                   DF_E_VALIDATION, "xl/workbook.xml is not a sheet of cells");
    expect_refused(
        book_make(&(struct book_parts){.sheet = GOOD_SHEET, .workbook = WORKBOOK("", "")}),
        DF_E_VALIDATION, "no sheet of cells");
}

/* --- which format it is ----------------------------------------------------------------------- */

static void detect(struct df_str content, enum df_code code, int type, const char *words)
{
    struct df_bytes file = bytes_of(&content);
    struct df_err err = DF_ERR_INIT;
    enum df_file_type found = DF_FILE_TYPES;
    enum df_code got = df_file_type_detect(&file, &found, &err);
    if (got != code || (code == DF_OK && (int)found != type) || !strstr(err.detail, words))
        fail_msg("%s, %d: %s; wanted %s", df_code_name(got), (int)found, err.detail, words);
    if (code != DF_OK)
        assert_false(df_xlsx_is_workbook(&file));
}

static void the_content_decides(void **state)
{
    (void)state;
    detect(DF_STR(" \r\n[{}]"), DF_OK, DF_FILE_JSON, "");
    detect(DF_STR("\xEF\xBB\xBF{\"a\":1}"), DF_OK, DF_FILE_JSON, "");
    detect(DF_STR("a;b\n1;2\n"), DF_OK, DF_FILE_CSV, "");
    detect(DF_STR("nome\n\xE9\n"), DF_OK, DF_FILE_CSV, "");
    detect(DF_STR("\xFF\xFE"
                  "a\0;\0b\0\n\0"),
           DF_OK, DF_FILE_CSV, "");
    detect(DF_STR("\xFE\xFF\0a\0;\0b\0\n"), DF_OK, DF_FILE_CSV, "");
    detect(DF_STR("\xFF\xFE[\0]\0"), DF_OK, DF_FILE_JSON, "");
    detect(DF_STR(""), DF_E_MEDIA_TYPE, 0, "empty");
    detect(DF_STR(" \n"), DF_E_MEDIA_TYPE, 0, "empty");
    detect(DF_STR("<html>"), DF_E_MEDIA_TYPE, 0, "HTML");
    detect(DF_STR("%PDF-1.7"), DF_E_MEDIA_TYPE, 0, "document");
    detect(DF_STR("\x89PNG\r\n\x1A\n\0\0"), DF_E_MEDIA_TYPE, 0, "neither");
    detect(DF_STR("PK\3\4 cut off"), DF_E_VALIDATION, 0, "archive is broken");

    char ole[2048] = "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1";
    detect(df_str_n(ole, sizeof ole), DF_E_MEDIA_TYPE, 0, "save it as .xlsx");
    memcpy(ole + 512 + 128, "E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e", 32);
    detect(df_str_n(ole, sizeof ole), DF_E_MEDIA_TYPE, 0, "has a password");

    struct zip_maker z = {.count = 0};
    zip_add(&z, "mimetype", DF_STR("application/vnd.oasis.opendocument.spreadsheet"));
    struct df_str file = zip_make(&z);
    detect(file, DF_E_MEDIA_TYPE, 0, ".ods");
    free((void *)(uintptr_t)file.ptr);
    z.parts[0].name = "a.txt";
    file = zip_make(&z);
    detect(file, DF_E_MEDIA_TYPE, 0, "no workbook");
    free((void *)(uintptr_t)file.ptr);

    z.count = 0;
    book_zip(&(struct book_parts){.sheet = GOOD_SHEET}, &z);
    z.prefix = "\1\2\3";
    file = zip_make(&z);
    detect(file, DF_OK, DF_FILE_EXCEL, "");
    free((void *)(uintptr_t)file.ptr);
    z.prefix = NULL;
    z.parts[0].content =
        DF_STR("<Types xmlns=\"" PKG_NS "content-types\"><Override PartName=\"/xl/workbook.xml\" "
               "ContentType=\"application/vnd.ms-excel.sheet.binary.macroEnabled.main\"/></Types>");
    file = zip_make(&z);
    detect(file, DF_E_MEDIA_TYPE, 0, ".xlsb");
    free((void *)(uintptr_t)file.ptr);
}

int main(void)
{
    no_options.temp_dir = scratch_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_of_every_type),
        cmocka_unit_test(places_are_counted_when_not_given),
        cmocka_unit_test(headers_are_unique_and_never_empty),
        cmocka_unit_test(empty_rows_count_only_between_others),
        cmocka_unit_test(unusual_xml_gives_the_same),
        cmocka_unit_test(text_keeps_its_bytes),
        cmocka_unit_test(long_sheets_are_read_to_the_end),
        cmocka_unit_test(shared_strings_come_back_from_disk),
        cmocka_unit_test(numbers_are_what_a_person_sees),
        cmocka_unit_test(built_in_formats_and_both_calendars),
        cmocka_unit_test(iso_dates_are_rounded_as_numbers_are),
        cmocka_unit_test(what_some_programs_write_is_read),
        cmocka_unit_test(a_sheet_is_found_by_name_or_is_the_first_visible),
        cmocka_unit_test(parts_are_found_however_they_are_named),
        cmocka_unit_test(a_part_without_a_content_type_may_be_a_workbook),
        cmocka_unit_test(sheets_that_are_wrong_are_refused_with_the_place),
        cmocka_unit_test(what_is_too_large_is_refused),
        cmocka_unit_test(what_stands_behind_the_sheet_is_looked_at),
        cmocka_unit_test(every_limit_holds),
        cmocka_unit_test(rows_past_excels_last_are_refused),
        cmocka_unit_test(bombs_are_refused_before_they_go_off),
        cmocka_unit_test(archives_that_lie_are_refused),
        cmocka_unit_test(a_workbook_cut_anywhere_is_refused),
        cmocka_unit_test(relations_that_lead_nowhere_are_refused),
        cmocka_unit_test(the_content_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
