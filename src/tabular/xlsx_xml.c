#include "tabular/xlsx_xml.h"

#include "base/mem.h"

#include <libxml/parser.h>
#include <pthread.h>
#include <stdlib.h>

#define ATTRS_MAX   256
#define CHUNK_BYTES 8192

struct df_xml_strict {
    struct df_xml_sink sink;
    struct df_zip_reader *part;
    xmlParserCtxtPtr ctxt;
    struct df_xml_attr *attrs;
    unsigned depth;
    enum df_code code; /* the sink's error, or our refusal; DF_OK: none */
    struct df_err err;
    char chunk[CHUNK_BYTES];
};

struct df_str df_xml_attr(const struct df_xml_tag *tag, enum df_xml_ns ns, struct df_str name)
{
    for (size_t i = 0; i < tag->count; i++)
        if (tag->attrs[i].ns == ns && df_str_eq(tag->attrs[i].name, name))
            return tag->attrs[i].value;
    return DF_STR_NULL;
}

static enum df_xml_ns namespace_of(const xmlChar *uri)
{
    static const struct {
        const char *uri;
        enum df_xml_ns ns;
    } known[] = {
        {"http://schemas.openxmlformats.org/spreadsheetml/2006/main", DF_XML_MAIN},
        {"http://purl.oclc.org/ooxml/spreadsheetml/main", DF_XML_MAIN},
        {"http://schemas.openxmlformats.org/officeDocument/2006/relationships", DF_XML_REL},
        {"http://purl.oclc.org/ooxml/officeDocument/relationships", DF_XML_REL},
        {"http://schemas.openxmlformats.org/package/2006/relationships", DF_XML_PKG},
        {"http://schemas.openxmlformats.org/package/2006/content-types", DF_XML_PKG},
    };
    for (size_t i = 0; uri && i < sizeof known / sizeof known[0]; i++)
        if (strcmp((const char *)uri, known[i].uri) == 0)
            return known[i].ns;
    return DF_XML_OTHER;
}

static void stop_parser(struct df_xml_strict *x, enum df_code code)
{
    x->code = code;
    xmlStopParser(x->ctxt);
}

static struct df_str part_name(const struct df_xml_strict *x)
{
    return x->part->entry->name;
}

static void on_xml_start(void *arg, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri,
                         int ns_count, const xmlChar **namespaces, int count, int defaulted,
                         const xmlChar **attributes)
{
    struct df_xml_strict *x = arg;
    struct df_xml_tag tag = {.name = df_str_c((const char *)name), .ns = namespace_of(uri)};
    (void)prefix, (void)ns_count, (void)namespaces, (void)defaulted;
    if (x->code != DF_OK)
        return;
    if (++x->depth > DF_XML_DEPTH_MAX) {
        stop_parser(x, df_err_set(&x->err, DF_E_TOO_DEEP,
                                  "the workbook's part " DF_STR_FMT
                                  " is nested too deeply; %d levels are allowed",
                                  DF_STR_ARG(part_name(x)), DF_XML_DEPTH_MAX));
        return;
    }
    for (int i = 0; i < count && tag.count < ATTRS_MAX; i++, attributes += 5) {
        const char *value = (const char *)attributes[3];
        x->attrs[tag.count++] = (struct df_xml_attr){
            .name = df_str_c((const char *)attributes[0]),
            .ns = attributes[1] ? namespace_of(attributes[2]) : DF_XML_NONE,
            .value = df_str_n(value, (size_t)((const char *)attributes[4] - value)),
        };
    }
    tag.attrs = x->attrs;
    enum df_code code = x->sink.start(x->sink.arg, &tag, &x->err);
    if (code != DF_OK)
        stop_parser(x, code);
}

static void on_xml_end(void *arg, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri)
{
    struct df_xml_strict *x = arg;
    (void)name, (void)prefix, (void)uri;
    if (x->code != DF_OK)
        return;
    x->depth--;
    enum df_code code = x->sink.end(x->sink.arg, &x->err);
    if (code != DF_OK)
        stop_parser(x, code);
}

static void on_xml_text(void *arg, const xmlChar *text, int len)
{
    struct df_xml_strict *x = arg;
    if (x->code != DF_OK)
        return;
    enum df_code code =
        x->sink.text(x->sink.arg, df_str_n((const char *)text, (size_t)len), &x->err);
    if (code != DF_OK)
        stop_parser(x, code);
}

/* No part of a workbook has a document type. A file with one is an attack by its entities. */
static void on_doctype(void *arg, const xmlChar *name, const xmlChar *id, const xmlChar *system)
{
    struct df_xml_strict *x = arg;
    (void)name, (void)id, (void)system;
    if (x->code == DF_OK)
        stop_parser(x, df_err_set(&x->err, DF_E_VALIDATION,
                                  "the workbook's part " DF_STR_FMT
                                  " has a document type, which no workbook may have",
                                  DF_STR_ARG(part_name(x))));
}

static xmlEntityPtr on_entity(void *arg, const xmlChar *name)
{
    (void)arg;
    return xmlGetPredefinedEntity(name);
}

/* Keeps libxml2 from printing; the context keeps the last error. */
static void on_error(void *arg, xmlErrorPtr error)
{
    (void)arg, (void)error;
}

/* libxml2 must be initialised before several threads use it. */
static void init_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, xmlInitParser);
}

struct df_xml_strict *df_xml_strict_new(struct df_xml_sink sink, struct df_zip_reader *part)
{
    struct df_xml_strict *x = df_calloc(1, sizeof *x);
    xmlSAXHandler sax = {.initialized = XML_SAX2_MAGIC,
                         .startElementNs = on_xml_start,
                         .endElementNs = on_xml_end,
                         .characters = on_xml_text,
                         .ignorableWhitespace = on_xml_text,
                         .cdataBlock = on_xml_text,
                         .internalSubset = on_doctype,
                         .externalSubset = on_doctype,
                         .getEntity = on_entity,
                         .serror = on_error};
    x->sink = sink;
    x->part = part;
    x->err = DF_ERR_INIT;
    x->attrs = df_calloc(ATTRS_MAX, sizeof *x->attrs);
    init_library();
    x->ctxt = xmlCreatePushParserCtxt(&sax, x, NULL, 0, NULL);
    if (!x->ctxt)
        df_oom();
    /* Without NOENT, "&amp;" in an attribute comes as "&#38;". Only the five entities exist. */
    xmlCtxtUseOptions(x->ctxt, XML_PARSE_NONET | XML_PARSE_NOENT);
    return x;
}

void df_xml_strict_free(struct df_xml_strict *x)
{
    if (!x)
        return;
    if (x->ctxt && x->ctxt->myDoc)
        xmlFreeDoc(x->ctxt->myDoc);
    xmlFreeParserCtxt(x->ctxt);
    free(x->attrs);
    free(x);
}

static enum df_code xml_error(struct df_xml_strict *x, struct df_err *err)
{
    const xmlError *last = xmlCtxtGetLastError(x->ctxt);
    struct df_str why = df_str_trim(df_str_c(last ? last->message : NULL));
    if (!why.len)
        why = DF_STR("it ends too early");
    if (last && last->code == XML_ERR_NO_MEMORY)
        df_oom();
    return df_err_set(err, DF_E_VALIDATION,
                      "the workbook's part " DF_STR_FMT " is not well-formed XML, line %d: %.*s",
                      DF_STR_ARG(part_name(x)), last ? last->line : 1,
                      (int)(why.len < 200 ? why.len : 200), why.ptr);
}

enum df_code df_xml_strict_step(struct df_xml_strict *x, struct df_err *err)
{
    size_t len = 0;
    enum df_code code = df_zip_read(x->part, x->chunk, sizeof x->chunk, &len, err);
    if (code != DF_OK)
        return code;
    xmlParseChunk(x->ctxt, x->chunk, (int)len, len == 0);
    if (x->code != DF_OK) {
        if (err)
            *err = x->err;
        return x->code;
    }
    /* wellFormed stays true for undeclared namespaces: their names are ignored, not refused. */
    if (!x->ctxt->wellFormed || x->ctxt->disableSAX)
        return xml_error(x, err);
    return len ? DF_ROW : DF_DONE;
}

enum df_code df_xml_strict_read(struct df_xml_sink sink, struct df_zip_reader *part,
                                struct df_err *err)
{
    struct df_xml_strict *x = df_xml_strict_new(sink, part);
    enum df_code code;
    do {
        code = df_xml_strict_step(x, err);
    } while (code == DF_ROW);
    df_xml_strict_free(x);
    return code == DF_DONE ? DF_OK : code;
}
