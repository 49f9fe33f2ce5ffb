/*
 * Where lines are sent, and how its protocol writes a batch and answers to it.
 *
 *   loki://host[:3100][/prefix][?tenant=NAME]      POST {prefix}/loki/api/v1/push
 *   elastic://host[:9200][/prefix…][/index]        POST {prefix}/{index}/_bulk
 *   otlp://host[:4318][/prefix]                    POST {prefix}/v1/logs
 *
 * With an s (lokis://) over TLS, on the same port unless another is given. Credentials in the URL
 * are sent as Basic; the token as Bearer, or to Elasticsearch as ApiKey.
 *
 * Read-only once made; shared by all threads.
 */
#ifndef DF_SHIP_TARGET_H
#define DF_SHIP_TARGET_H

#include "outbound/outbound.h"
#include "ship/batch.h"
#include "ship/settings.h"
#include "json/doc.h"

#define DF_SHIP_LABELS_MAX 8
#define DF_SHIP_SERVICE    "dataflow"

struct df_ship_target;

enum df_ship_answer {
    DF_SHIP_ALL_SETTLED, /* every line of the piece has a state */
    DF_SHIP_SOME_WAIT,   /* those without are worth another try */
    DF_SHIP_UNREADABLE,  /* nobody knows; the same again is harmless */
};

struct df_ship_protocol {
    const char *scheme;
    unsigned port;
    const char *path;       /* behind the prefix */
    const char *auth;       /* of the token */
    const char *media_type; /* of what is sent */
    void (*encode)(const struct df_ship_target *t, struct df_ship_batch *b,
                   const struct df_ship_piece *p, struct df_buf *out);
    /* What a status means; 2xx are OK. */
    struct df_out_judgement (*classify)(unsigned status);
    /* Reads a 2xx answer and sets the state of the piece's lines. */
    enum df_ship_answer (*settle)(struct df_ship_batch *b, const struct df_ship_piece *p,
                                  struct df_str answer);
};

extern const struct df_ship_protocol df_ship_loki, df_ship_elastic, df_ship_otlp;

struct df_ship_label {
    struct df_str name, value;
};

struct df_ship_target {
    const struct df_ship_protocol *protocol;
    char *url;        /* http or https, with the path and with credentials: a secret */
    char *tenant;     /* X-Scope-OrgID; NULL: none */
    char *authorized; /* Authorization; NULL: none, or of the URL */
    char *label_text; /* what the labels point into */
    struct df_ship_label labels[DF_SHIP_LABELS_MAX];
    size_t label_count;
};

/* DF_E_CONFIG: the error begins with the setting's name, and holds no secret. */
enum df_code df_ship_target_new(const struct df_ship_settings *s, struct df_ship_target **ret,
                                struct df_err *err) DF_MUST_CHECK;
/* NULL is fine. */
void df_ship_target_free(struct df_ship_target *t);

/* 400, 413 and 422 are about the lines: in smaller pieces the good ones may pass. */
bool df_ship_status_is_of_lines(unsigned status);

/* --- lines, for encoders --- */

/* A field of a line. */
struct df_ship_field {
    struct df_str name;
    struct df_str text; /* of a text, unescaped; of a number as written */
    enum df_json_type type;
};

/* What every line has; a line that is no JSON has only its text, as `message`. */
struct df_ship_parts {
    struct df_str time, event, message, trace_id, span_id, ip; /* absent: none, or invalid */
};

/*
 * Takes a line apart. `each` is called for every other field that is a text, a number or a boolean.
 * trace_id and span_id are hexadecimal of their length and not zero, ip is an address; others count
 * as ordinary fields. The texts live in the arena.
 */
struct df_ship_parts df_ship_take_apart(struct df_arena *a, struct df_str line,
                                        void (*each)(void *arg, const struct df_ship_field *f),
                                        void *arg);
const char *df_ship_level(enum df_log_level level);

#endif
