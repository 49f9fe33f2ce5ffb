/* The usual process metrics of Prometheus clients, read from /proc. */
#include "base/metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

DF_METRIC_FAMILY(cpu) = {
    .name = "process_cpu_seconds_total",
    .help = "Total user and system CPU time spent in seconds.",
    .type = DF_COUNTER,
};
DF_METRIC_FAMILY(resident) = {
    .name = "process_resident_memory_bytes",
    .help = "Resident memory size in bytes.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(virtual) = {
    .name = "process_virtual_memory_bytes",
    .help = "Virtual memory size in bytes.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(open_fds) = {
    .name = "process_open_fds",
    .help = "Number of open file descriptors.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(max_fds) = {
    .name = "process_max_fds",
    .help = "Maximum number of open file descriptors.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(start_time) = {
    .name = "process_start_time_seconds",
    .help = "Start time of the process since the Unix epoch in seconds.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(threads) = {
    .name = "dataflow_process_threads",
    .help = "Number of threads of the process.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(build_info) = {
    .name = "dataflow_build_info",
    .help = "Always 1; the label says which version runs.",
    .type = DF_GAUGE,
    .labels = {"version"},
};

static void set_gauge(struct df_metric_family *f, double v)
{
    df_metric_set(df_metric_get(f, NULL), v);
}

static double seconds_of(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* The fields of /proc/self/stat from the third on; the second is the program's name in
 * parentheses. */
static size_t read_stat(int64_t *numbers, size_t max)
{
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;

    const char *after = memrchr(text, ')', (size_t)n);
    if (!after)
        return 0;
    struct df_str rest = df_str_trim(df_str_n(after + 1, (size_t)(text + n - after - 1)));
    size_t count = 0;
    while (rest.ptr && count < max) {
        struct df_str word;
        rest = df_str_cut(rest, ' ', &word);
        if (!df_str_to_i64(word, &numbers[count]))
            numbers[count] = 0; /* the state, a letter */
        count++;
    }
    return count;
}

static size_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;
    if (!dir)
        return 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this function's own */
    for (struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count - 1; /* without the descriptor of the directory itself */
}

static void collect_process(void *arg)
{
    /* Positions in proc(5), counted from the third field. */
    enum { NUM_THREADS = 20 - 3, START_TIME = 22 - 3, VSIZE = 23 - 3, RSS = 24 - 3, COUNT };
    int64_t stat[COUNT];
    struct rlimit limit;
    (void)arg;

    set_gauge(&cpu, seconds_of(CLOCK_PROCESS_CPUTIME_ID));
    set_gauge(&open_fds, (double)count_fds());
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        set_gauge(&max_fds, (double)limit.rlim_cur);
    if (read_stat(stat, COUNT) == COUNT) {
        set_gauge(&threads, (double)stat[NUM_THREADS]);
        set_gauge(&virtual, (double)stat[VSIZE]);
        set_gauge(&resident, (double)stat[RSS] * (double)sysconf(_SC_PAGESIZE));
    }
}

/* Converts ticks since the machine started to seconds since the epoch. */
static void set_start_time(void)
{
    int64_t stat[20];
    if (read_stat(stat, 20) < 20)
        return;
    double age = seconds_of(CLOCK_BOOTTIME) - (double)stat[19] / (double)sysconf(_SC_CLK_TCK);
    set_gauge(&start_time, seconds_of(CLOCK_REALTIME) - age);
}

void df_metric_register_process(const char *version)
{
    struct df_metric_family *const all[] = {&cpu,     &resident,   &virtual, &open_fds,
                                            &max_fds, &start_time, &threads, &build_info};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        df_metric_register(all[i]);
    df_metric_set(df_metric_get(&build_info, &(struct df_str){version, strlen(version)}), 1);
    set_start_time();
    df_metric_on_collect(collect_process, NULL);
}
