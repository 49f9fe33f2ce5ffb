/*
 * The JSON reader against other libraries, on the same file, each doing the same work: read the
 * file, check it, and look at every top-level field of every record, strings unescaped. All must
 * come to the same sum.
 *
 *     bench_json FILE [--rounds N] [--bytes N] [--only NAME,...]
 *
 * Parsers take turns, each turn in a process of its own, so that the memory of one is not the
 * memory of another and a busy moment of the machine does not hit one parser alone.
 */
#include "leads.h"

extern "C" {
#include "json/reader.h"
#include "json/scan.h"
}

#include <cjson/cJSON.h>
#include <jansson.h>
#include <simdjson.h>
#include <yajl/yajl_parse.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace
{

struct Sum {
    uint64_t records = 0;
    uint64_t fields = 0;
    uint64_t text_bytes = 0; // of top-level strings, unescaped
    uint64_t name_bytes = 0; // of top-level names

    bool operator==(const Sum &o) const
    {
        return records == o.records && fields == o.fields && text_bytes == o.text_bytes &&
               name_bytes == o.name_bytes;
    }
};

/* By the clock on the wall, and by what the processor did for us alone. */
struct Time {
    double wall = 0;
    double cpu = 0;
};

/* What a parser's turn does not count: getting warm. */
Time uncounted;

struct Turn {
    Sum sum;
    Time time;
    long peak_kib = 0; // growth of the peak over what the process had before
    bool ok = false;
};

[[noreturn]] void die(const char *what)
{
    std::fprintf(stderr, "bench_json: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

double seconds(clockid_t clock)
{
    timespec t;
    clock_gettime(clock, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

Time since(const Time &start)
{
    return {seconds(CLOCK_MONOTONIC) - start.wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - start.cpu};
}

long peak_kib()
{
    FILE *f = std::fopen("/proc/self/status", "r");
    char line[256];
    long kib = 0;
    if (!f)
        die("/proc/self/status");
    while (std::fgets(line, sizeof(line), f))
        if (std::sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    std::fclose(f);
    return kib;
}

std::string read_all(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        die(path);
    std::string text(size_t(st.st_size), '\0');
    for (size_t have = 0; have < text.size();) {
        ssize_t n = read(fd, &text[have], text.size() - have);
        if (n <= 0)
            die(path);
        have += size_t(n);
    }
    close(fd);
    return text;
}

enum df_code read_fd(void *arg, char *ptr, size_t len, size_t *ret_len, struct df_err *err)
{
    ssize_t n = read(*static_cast<int *>(arg), ptr, len);
    if (n < 0)
        return df_err_errno(err, "read");
    *ret_len = size_t(n);
    return DF_OK;
}

bool run_dataflow_with(const char *path, Sum &sum, unsigned flags)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die(path);
    df_json_reader *r = df_json_reader_new({read_fd, &fd}, flags, nullptr);
    const df_json_record *record;
    df_err err;
    df_code rc;
    while ((rc = df_json_reader_next(r, &record, &err)) == DF_ROW) {
        sum.records++;
        for (const df_json *f = record->fields; f < record->fields + record->count; f++) {
            sum.fields++;
            sum.name_bytes += f->key.len;
            if (f->type == DF_JSON_STRING)
                sum.text_bytes += f->text.len;
        }
    }
    if (rc != DF_DONE)
        std::fprintf(stderr, "dataflow: %s\n", err.detail);
    df_json_reader_free(r);
    close(fd);
    return rc == DF_DONE;
}

bool run_dataflow(const char *path, Sum &sum)
{
    return run_dataflow_with(path, sum, DF_JSON_NO_NUL);
}

bool run_dataflow_unique(const char *path, Sum &sum)
{
    return run_dataflow_with(path, sum, DF_JSON_NO_NUL | DF_JSON_UNIQUE_KEYS);
}

bool run_jansson(const char *path, Sum &sum)
{
    json_error_t err;
    json_t *doc = json_load_file(path, 0, &err);
    if (!doc)
        return false;
    size_t i;
    json_t *record;
    json_array_foreach(doc, i, record)
    {
        const char *name;
        json_t *v;
        sum.records++;
        json_object_foreach(record, name, v)
        {
            sum.fields++;
            sum.name_bytes += std::strlen(name);
            if (json_is_string(v))
                sum.text_bytes += json_string_length(v);
        }
    }
    return true;
}

bool run_cjson(const char *path, Sum &sum)
{
    std::string text = read_all(path);
    cJSON *doc = cJSON_ParseWithLength(text.data(), text.size());
    if (!doc)
        return false;
    for (const cJSON *record = doc->child; record; record = record->next) {
        sum.records++;
        for (const cJSON *f = record->child; f; f = f->next) {
            sum.fields++;
            sum.name_bytes += std::strlen(f->string);
            if (cJSON_IsString(f))
                sum.text_bytes += std::strlen(f->valuestring);
        }
    }
    return true;
}

struct Events {
    Sum *sum;
    int depth = 0;

    int value()
    {
        sum->fields += depth == 2;
        return 1;
    }
    int open()
    {
        value();
        depth++;
        return 1;
    }
    int close()
    {
        depth--;
        return 1;
    }
};

bool run_yajl(const char *path, Sum &sum)
{
    static const yajl_callbacks callbacks = {
        [](void *e) { return static_cast<Events *>(e)->value(); },
        [](void *e, int) { return static_cast<Events *>(e)->value(); },
        nullptr,
        nullptr,
        [](void *e, const char *, size_t) { return static_cast<Events *>(e)->value(); },
        [](void *e, const unsigned char *, size_t len) {
            auto *events = static_cast<Events *>(e);
            if (events->depth == 2)
                events->sum->text_bytes += len;
            return events->value();
        },
        [](void *e) {
            auto *events = static_cast<Events *>(e);
            events->sum->records += events->depth == 1;
            return events->open();
        },
        [](void *e, const unsigned char *, size_t len) {
            auto *events = static_cast<Events *>(e);
            if (events->depth == 2)
                events->sum->name_bytes += len;
            return 1;
        },
        [](void *e) { return static_cast<Events *>(e)->close(); },
        [](void *e) { return static_cast<Events *>(e)->open(); },
        [](void *e) { return static_cast<Events *>(e)->close(); },
    };
    Events events{&sum};
    std::vector<unsigned char> buf(256 << 10);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    yajl_handle h = yajl_alloc(&callbacks, nullptr, &events);
    yajl_status s = yajl_status_ok;
    while (s == yajl_status_ok && (n = read(fd, buf.data(), buf.size())) > 0)
        s = yajl_parse(h, buf.data(), size_t(n));
    if (s == yajl_status_ok)
        s = yajl_complete_parse(h);
    yajl_free(h);
    close(fd);
    return s == yajl_status_ok;
}

bool sum_simdjson(const simdjson::dom::element &doc, Sum &sum)
{
    simdjson::dom::array records;
    if (doc.get(records) != simdjson::SUCCESS)
        return false;
    for (simdjson::dom::element record : records) {
        simdjson::dom::object object;
        if (record.get(object) != simdjson::SUCCESS)
            return false;
        sum.records++;
        for (simdjson::dom::key_value_pair f : object) {
            std::string_view text;
            sum.fields++;
            sum.name_bytes += f.key.size();
            if (f.value.get(text) == simdjson::SUCCESS)
                sum.text_bytes += text.size();
        }
    }
    return true;
}

bool run_simdjson(const char *path, Sum &sum)
{
    simdjson::dom::parser parser;
    simdjson::dom::element doc;
    return parser.load(path).get(doc) == simdjson::SUCCESS && sum_simdjson(doc, sum);
}

/* The second time with the same memory: what it costs a process that parses such files all day. */
bool run_simdjson_again(const char *path, Sum &sum)
{
    Time start = since({});
    simdjson::dom::parser parser;
    simdjson::dom::element doc;
    if (parser.load(path).get(doc) != simdjson::SUCCESS)
        return false;
    uncounted = since(start);
    return parser.load(path).get(doc) == simdjson::SUCCESS && sum_simdjson(doc, sum);
}

struct Parser {
    const char *name;
    const char *label;
    bool (*run)(const char *path, Sum &sum);
};

const Parser parsers[] = {
    {"dataflow", "DataFlow reader", run_dataflow},
    {"unique", "DataFlow reader, duplicate names refused", run_dataflow_unique},
    {"simdjson", "simdjson DOM", run_simdjson},
    {"simdjson2", "simdjson DOM, memory kept from a first parse", run_simdjson_again},
    {"yajl", "yajl SAX", run_yajl},
    {"cjson", "cJSON", run_cjson},
    {"jansson", "jansson", run_jansson},
};

Turn take_turn(const Parser &parser, const char *path)
{
    auto *shared = static_cast<Turn *>(
        mmap(nullptr, sizeof(Turn), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (shared == MAP_FAILED)
        die("mmap");
    new (shared) Turn();
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        long before = peak_kib();
        Time start = since({});
        shared->ok = parser.run(path, shared->sum);
        shared->time = since({start.wall + uncounted.wall, start.cpu + uncounted.cpu});
        shared->peak_kib = peak_kib() - before;
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    Turn turn = *shared;
    munmap(shared, sizeof(Turn));
    turn.ok = turn.ok && WIFEXITED(status);
    return turn;
}

double median(std::vector<double> v)
{
    std::sort(v.begin(), v.end());
    return v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

bool chosen(const std::string &only, const char *name)
{
    return only.empty() ||
           ("," + only + ",").find("," + std::string(name) + ",") != std::string::npos;
}

} // namespace

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : nullptr;
    int rounds = 5;
    long long bytes = 300000000;
    std::string only;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (!std::strcmp(argv[i], "--rounds"))
            rounds = std::atoi(argv[i + 1]);
        else if (!std::strcmp(argv[i], "--bytes"))
            bytes = std::atoll(argv[i + 1]);
        else if (!std::strcmp(argv[i], "--only"))
            only = argv[i + 1];
    }
    if (!path || rounds < 1) {
        std::fprintf(stderr, "usage: bench_json FILE [--rounds N] [--bytes N] [--only NAME,...]\n");
        return 2;
    }
    struct stat st;
    if (stat(path, &st) != 0 || st.st_size < bytes) {
        if (bench_leads_write(path, bytes) != 0 || stat(path, &st) != 0)
            die(path);
    }
    read_all(path); // into the page cache

    std::vector<const Parser *> field;
    for (const Parser &p : parsers)
        if (chosen(only, p.name))
            field.push_back(&p);
    std::vector<std::vector<double>> rates(field.size()), cpu_rates(field.size());
    std::vector<long> peaks(field.size());
    Sum expected;
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < field.size(); i++) {
            Turn turn = take_turn(*field[i], path);
            if (!turn.ok) {
                std::fprintf(stderr, "bench_json: %s failed\n", field[i]->name);
                return 1;
            }
            if (round == 0 && i == 0)
                expected = turn.sum;
            if (!(turn.sum == expected)) {
                std::fprintf(stderr, "bench_json: %s comes to another sum\n", field[i]->name);
                return 1;
            }
            rates[i].push_back(double(st.st_size) / 1e6 / turn.time.wall);
            cpu_rates[i].push_back(double(st.st_size) / 1e6 / turn.time.cpu);
            peaks[i] = std::max(peaks[i], turn.peak_kib);
        }
    }

    std::printf("%.1f MB, %llu records, %llu fields, %llu bytes of text; %d rounds\n\n",
                double(st.st_size) / 1e6, (unsigned long long)expected.records,
                (unsigned long long)expected.fields, (unsigned long long)expected.text_bytes,
                rounds);
    std::printf(
        "Medians. By the clock a busy machine counts; by processor time it hardly does.\n\n");
    std::printf("| parser | MB/s | min - max | %s against it | MB a CPU second | %s against it | "
                "peak memory, MB |\n",
                field[0]->name, field[0]->name);
    std::printf("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for (size_t i = 0; i < field.size(); i++)
        std::printf("| %s | %.0f | %.0f - %.0f | %.2f x | %.0f | %.2f x | %.1f |\n",
                    field[i]->label, median(rates[i]),
                    *std::min_element(rates[i].begin(), rates[i].end()),
                    *std::max_element(rates[i].begin(), rates[i].end()),
                    median(rates[0]) / median(rates[i]), median(cpu_rates[i]),
                    median(cpu_rates[0]) / median(cpu_rates[i]), double(peaks[i]) / 1024);
    return 0;
}
