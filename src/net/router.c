#include "net/router.h"

#include "base/mem.h"
#include "net/field.h"

#include <stdlib.h>
#include <string.h>

static const char *const method_names[] = {
    [DF_GET] = "GET",         [DF_HEAD] = "HEAD",          [DF_POST] = "POST",
    [DF_PUT] = "PUT",         [DF_PATCH] = "PATCH",        [DF_DELETE] = "DELETE",
    [DF_OPTIONS] = "OPTIONS", [DF_METHOD_OTHER] = "other",
};

enum kind { LITERAL, ENDING, PARAM, REST };

/* One segment of one or more patterns. Siblings are in the order in which they are tried. */
struct node {
    enum kind kind;
    struct df_str text; /* LITERAL; ENDING: what follows the parameter, ".csv" */
    struct node *child;
    struct node *sibling;
    size_t routes[DF_METHOD_OTHER]; /* index + 1 */
};

struct entry {
    const struct df_route *route;
    void *arg;
};

struct df_router {
    struct node *root;
    struct entry *entries;
    size_t count;
};

enum df_method df_method_of(struct df_str name)
{
    for (int m = 0; m < DF_METHOD_OTHER; m++) {
        if (df_str_eq(name, df_str_c(method_names[m])))
            return (enum df_method)m;
    }
    return DF_METHOD_OTHER;
}

const char *df_method_name(enum df_method m)
{
    return method_names[m];
}

/* --- patterns --------------------------------------------------------------------------------- */

/* The text between the braces, without "..."; the whole segment if there are no braces. What
 * follows the braces begins with a point: *ret_ending. */
static enum df_code parse_segment(struct df_str s, enum kind *ret_kind, struct df_str *ret_text,
                                  struct df_str *ret_ending)
{
    bool opens = s.len > 0 && s.ptr[0] == '{';
    const char *end = opens ? memchr(s.ptr, '}', s.len) : NULL;

    *ret_kind = LITERAL;
    *ret_text = s;
    *ret_ending = DF_STR_NULL;
    if (end && end + 1 < s.ptr + s.len) {
        *ret_ending = df_str_n(end + 1, (size_t)(s.ptr + s.len - end - 1));
        s.len = (size_t)(end + 1 - s.ptr);
        if (ret_ending->len < 2 || ret_ending->ptr[0] != '.' ||
            memchr(ret_ending->ptr, '{', ret_ending->len) ||
            memchr(ret_ending->ptr, '}', ret_ending->len))
            return DF_E_CONFIG;
    }
    bool closes = s.len > 0 && s.ptr[s.len - 1] == '}';
    if (s.len == 0 || opens != closes)
        return DF_E_CONFIG;
    if (opens) {
        struct df_str name = df_str_n(s.ptr + 1, s.len - 2);
        *ret_kind = ret_ending->ptr ? ENDING : PARAM;
        if (!ret_ending->ptr && df_str_ends(name, DF_STR("..."))) {
            *ret_kind = REST;
            name.len -= 3;
        }
        *ret_text = name;
        s = name;
    }
    bool braces = s.len > 0 && (memchr(s.ptr, '{', s.len) || memchr(s.ptr, '}', s.len));
    return s.len == 0 || braces ? DF_E_CONFIG : DF_OK;
}

static struct node *child_of(struct node *parent, enum kind kind, struct df_str text)
{
    struct node **at = &parent->child;

    for (; *at && (*at)->kind <= kind; at = &(*at)->sibling) {
        if ((*at)->kind == kind && (kind > ENDING || df_str_eq((*at)->text, text)))
            return *at;
    }
    struct node *n = df_calloc(1, sizeof(*n));
    n->kind = kind;
    n->text = text;
    n->sibling = *at;
    *at = n;
    return n;
}

/* Adds the pattern's nodes and returns the last one; NULL and err for a bad pattern. */
static struct node *add_pattern(struct df_router *r, const char *pattern, struct df_err *err)
{
    struct node *n = r->root;
    struct df_str rest = df_str_c(pattern);
    const char *wrong = NULL;
    size_t params = 0;

    if (rest.len == 0 || rest.ptr[0] != '/')
        wrong = "does not begin with a slash";
    rest = rest.len <= 1 ? DF_STR_NULL : df_str_n(rest.ptr + 1, rest.len - 1);
    while (rest.ptr && !wrong) {
        struct df_str part, ending;
        enum kind kind;
        rest = df_str_cut(rest, '/', &part);
        if (parse_segment(part, &kind, &part, &ending) != DF_OK)
            wrong = "has a bad segment";
        else if (kind == REST && rest.ptr)
            wrong = "goes on after {...}";
        else if (kind != LITERAL && ++params > DF_ROUTE_PARAMS_MAX)
            wrong = "has too many parameters";
        else
            n = child_of(n, kind, kind == ENDING ? ending : part);
    }
    if (!wrong)
        return n;
    (void)df_err_set(err, DF_E_CONFIG, "the pattern \"%s\" %s", pattern, wrong);
    return NULL;
}

/* So that an answer need not: the texts are constants of the program. */
static bool is_deprecation_ok(const struct df_deprecation *d)
{
    int64_t since_ms, sunset_ms;
    struct df_str link = df_str_c(d->link ? d->link : "");

    return d->since && df_time_parse(df_str_c(d->since), &since_ms) &&
           (!d->sunset ||
            (df_time_parse(df_str_c(d->sunset), &sunset_ms) && sunset_ms > since_ms)) &&
           link.len > 0 && link.len <= DF_DEPRECATION_LINK_MAX && df_field_value_ok(link) &&
           !strpbrk(d->link, "<> \t");
}

static enum df_code add_route(struct df_router *r, const struct df_route *route, void *arg,
                              struct df_err *err)
{
    enum df_method m = df_method_of(df_str_c(route->method));

    if (m == DF_METHOD_OTHER)
        return df_err_set(err, DF_E_CONFIG, "no route can have the method \"%s\"", route->method);
    if (route->deprecated && !is_deprecation_ok(route->deprecated))
        return df_err_set(err, DF_E_CONFIG, "the deprecation of %s %s is not valid", route->method,
                          route->pattern);
    struct node *n = add_pattern(r, route->pattern, err);
    if (!n)
        return DF_E_CONFIG;
    if (n->routes[m])
        return df_err_set(err, DF_E_CONFIG, "the route %s %s is there twice", route->method,
                          route->pattern);
    r->entries[r->count++] = (struct entry){route, arg};
    n->routes[m] = r->count;
    return DF_OK;
}

enum df_code df_router_new(const struct df_route_table *tables, unsigned absent,
                           struct df_router **ret, struct df_err *err)
{
    struct df_router *r = df_calloc(1, sizeof(*r));
    enum df_code rc = DF_OK;
    size_t total = 0;

    for (const struct df_route_table *t = tables; t && t->routes; t++) {
        for (const struct df_route *route = t->routes; route->method; route++)
            total++;
    }
    r->root = df_calloc(1, sizeof(*r->root));
    r->entries = df_calloc(total + 1, sizeof(*r->entries));
    for (const struct df_route_table *t = tables; t && t->routes; t++) {
        for (const struct df_route *route = t->routes; rc == DF_OK && route->method; route++) {
            if (!(absent & 1u << route->access))
                rc = add_route(r, route, t->arg, err);
        }
    }
    if (rc != DF_OK) {
        df_router_free(r);
        return rc;
    }
    *ret = r;
    return DF_OK;
}

static void free_node(struct node *n)
{
    while (n) {
        struct node *next = n->sibling;
        free_node(n->child); /* recursion is as deep as the deepest pattern */
        free(n);
        n = next;
    }
}

void df_router_free(struct df_router *r)
{
    if (!r)
        return;
    free_node(r->root);
    free(r->entries);
    free(r);
}

size_t df_router_count(const struct df_router *r)
{
    return r->count;
}

/* --- matching --------------------------------------------------------------------------------- */

struct search {
    const struct df_router *router;
    enum df_method method;
    const struct df_target *target;
    struct df_match *match;
};

static bool take_route(struct search *s, const struct node *n)
{
    size_t found = s->method < DF_METHOD_OTHER ? n->routes[s->method] : 0;

    if (!found && s->method == DF_HEAD)
        found = n->routes[DF_GET];
    if (found) {
        s->match->index = found - 1;
        s->match->route = s->router->entries[found - 1].route;
        s->match->arg = s->router->entries[found - 1].arg;
        return true;
    }
    for (int m = 0; m < DF_METHOD_OTHER; m++) {
        if (n->routes[m])
            s->match->allowed |= 1U << m;
    }
    if (n->routes[DF_GET])
        s->match->allowed |= 1U << DF_HEAD;
    return false;
}

static struct df_str rest_of_path(const struct df_target *t, size_t from)
{
    const char *start = t->segments[from].ptr;
    return df_str_n(start, (size_t)(t->path.ptr + t->path.len - start));
}

static bool search_node(struct search *s, const struct node *n, size_t depth, size_t params)
{
    const struct df_target *t = s->target;

    if (depth == t->segment_count)
        return !t->trailing_slash && take_route(s, n);
    for (const struct node *c = n->child; c; c = c->sibling) {
        bool found = false;
        switch (c->kind) {
        case LITERAL:
            found = df_str_eq(c->text, t->segments[depth]) && search_node(s, c, depth + 1, params);
            break;
        case ENDING:
            if (!df_str_ends(t->segments[depth], c->text) || t->segments[depth].len == c->text.len)
                break;
            s->match->params[params] =
                df_str_n(t->segments[depth].ptr, t->segments[depth].len - c->text.len);
            found = search_node(s, c, depth + 1, params + 1);
            break;
        case PARAM:
            s->match->params[params] = t->segments[depth];
            found = search_node(s, c, depth + 1, params + 1);
            break;
        case REST:
            s->match->params[params] = rest_of_path(t, depth);
            found = take_route(s, c);
            break;
        }
        if (found)
            return true;
    }
    return false;
}

void df_router_find(const struct df_router *r, enum df_method method, const struct df_target *t,
                    struct df_match *ret)
{
    struct search s = {.router = r, .method = method, .target = t, .match = ret};

    ret->route = NULL;
    ret->allowed = 0;
    if (!t->unroutable)
        (void)search_node(&s, r->root, 0, 0);
}

struct df_str df_match_param(const struct df_match *m, struct df_str name)
{
    struct df_str rest = m->route ? df_str_c(m->route->pattern) : DF_STR_NULL;
    size_t params = 0;

    while (rest.ptr) {
        struct df_str part, ending;
        enum kind kind;
        rest = df_str_cut(rest, '/', &part);
        if (part.len == 0 || parse_segment(part, &kind, &part, &ending) != DF_OK || kind == LITERAL)
            continue;
        if (df_str_eq(part, name))
            return m->params[params];
        params++;
    }
    return DF_STR_NULL;
}

void df_router_write_allow(unsigned allowed, struct df_buf *out)
{
    for (int m = 0; m < DF_METHOD_OTHER; m++) {
        if (!(allowed & 1U << m))
            continue;
        if (out->len > 0)
            df_buf_addz(out, ", ");
        df_buf_addz(out, method_names[m]);
    }
}
