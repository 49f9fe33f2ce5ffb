/*
 * The XML of a workbook's parts as events: tags, ends, pieces of text. Two readers give the same
 * events to the same sink:
 *
 *   df_xml_strict  libxml2, fed in pieces: any XML without a document type (and so with the five
 *                  standard entities only), up to a limited depth; nothing is fetched
 *   df_xml_plain   our own, several times as fast, for the plain XML that spreadsheet programs
 *                  write: UTF-8, one default namespace, no comments, no CDATA. It reports no errors
 *                  of XML: anything it does not know is UNUSUAL, and the caller reads the part
 *                  again from its start with libxml2
 *
 * Names are local names; the namespace of anything but spreadsheets is DF_XML_OTHER. One thread at
 * a time.
 */
#ifndef DF_TABULAR_XLSX_XML_H
#define DF_TABULAR_XLSX_XML_H

#include "tabular/xlsx_zip.h"

#define DF_XML_DEPTH_MAX 100

enum df_xml_ns {
    DF_XML_NONE,  /* an attribute without a prefix */
    DF_XML_MAIN,  /* spreadsheetml, transitional or strict */
    DF_XML_REL,   /* relationships of a document, transitional or strict */
    DF_XML_PKG,   /* content types and relationships of a package */
    DF_XML_OTHER, /* of no interest */
};

struct df_xml_attr {
    struct df_str name;
    struct df_str value;
    enum df_xml_ns ns;
};

struct df_xml_tag {
    struct df_str name;
    enum df_xml_ns ns;
    const struct df_xml_attr *attrs;
    size_t count;
};

/* The value of an attribute, or absent. */
struct df_str df_xml_attr(const struct df_xml_tag *tag, enum df_xml_ns ns, struct df_str name);

/* Arguments are borrowed for the call. An error ends the reading. */
struct df_xml_sink {
    enum df_code (*start)(void *arg, const struct df_xml_tag *tag, struct df_err *err);
    enum df_code (*end)(void *arg, struct df_err *err);
    enum df_code (*text)(void *arg, struct df_str piece, struct df_err *err);
    void *arg;
};

struct df_xml_strict;

struct df_xml_strict *df_xml_strict_new(struct df_xml_sink sink, struct df_zip_reader *part);
void df_xml_strict_free(struct df_xml_strict *x);
/* Reads a few KiB more: DF_ROW, DF_DONE at the end, or an error of the XML, part or sink. */
enum df_code df_xml_strict_step(struct df_xml_strict *x, struct df_err *err) DF_MUST_CHECK;
/* Reads the whole part. */
enum df_code df_xml_strict_read(struct df_xml_sink sink, struct df_zip_reader *part,
                                struct df_err *err) DF_MUST_CHECK;

#define DF_XML_PLAIN_ATTRS  24
#define DF_XML_PLAIN_WINDOW 131072

struct df_xml_plain {
    struct df_zip_reader *part;
    struct df_xml_sink sink;
    char *window;
    const char *p; /* the next token */
    const char *end;
    bool final; /* the part ends with the window */
    bool begun;
    bool had_root;
    unsigned depth;
    size_t names_len;
    uint16_t name_lens[DF_XML_DEPTH_MAX];
    char names[4096]; /* of the open elements, one after the other */
    struct df_xml_attr attrs[DF_XML_PLAIN_ATTRS];
};

enum df_xml_plain_answer {
    DF_PLAIN_GO,
    DF_PLAIN_DONE,
    DF_PLAIN_UNUSUAL,
    DF_PLAIN_ERROR, /* of the part or of the sink: err is set */
};

void df_xml_plain_init(struct df_xml_plain *x, struct df_xml_sink sink, struct df_zip_reader *part);
void df_xml_plain_release(struct df_xml_plain *x);
/* Reads one token. */
enum df_xml_plain_answer df_xml_plain_step(struct df_xml_plain *x, struct df_err *err);

/* For a caller that reads tags from the window itself: tells that an element begins (false:
 * unusual) or that the innermost one ends. The sink is not called. */
bool df_xml_plain_enter(struct df_xml_plain *x, struct df_str name);
void df_xml_plain_leave(struct df_xml_plain *x);

/*
 * The end of the run of plain text at p. The run ends before '<', '&' and '>', controls other than
 * tab and LF, broken UTF-8, characters that XML forbids, and a character that `end` cuts.
 */
const char *df_xml_plain_run(const char *p, const char *end);

#endif
