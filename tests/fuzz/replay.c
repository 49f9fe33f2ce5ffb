/*
 * All fuzz targets in one program of any build, without libFuzzer and without clang: what they once
 * found is tried again, and some inputs made from it. It explores nothing; tests/fuzz/run does.
 *
 *     replay --list         the targets, one a line
 *     replay TARGET FILE...     the target reads each file, and CHANGES inputs made from it, the
 * same every time
 *
 * If the target fails, the last line names the file and the number of the change (0: as it is).
 */
#include "entry.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHANGES   16
#define INPUT_MAX ((size_t)1 << 20)
#define ROOM      64 /* that changes may add */

/* The linker's names for the bounds of the section. */
extern const struct fuzz_entry *const __start_fuzz_entries[];
extern const struct fuzz_entry *const __stop_fuzz_entries[];

/* Only the sanitizers have it. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

/* fuzz_xlsx has a mutator of its own, which only libFuzzer calls. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    (void)data;
    (void)max_size;
    return size;
}

/* --- what was tried when it failed --- */

static const char *current_file = "none";
static char current_change[] = "00";

static void put_error(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static void name_input(void)
{
    put_error("replay: ");
    put_error(current_file);
    put_error(", change ");
    put_error(current_change);
    put_error("\n");
}

static void on_abort(int number)
{
    name_input();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void note_input(const char *file, unsigned change)
{
    current_file = file;
    current_change[0] = (char)('0' + change / 10);
    current_change[1] = (char)('0' + change % 10);
}

/* --- inputs --- */

static uint32_t state;

static size_t below(size_t bound)
{
    state = state * 1664525 + 1013904223;
    return bound ? (state >> 8) % bound : 0;
}

/* One to four small changes of a kind that parsers trip over. Returns the new size; there is ROOM.
 */
static size_t change_input(uint8_t *data, size_t size)
{
    static const char odd[] = "\"\\{}[]:,<>&;%\0\r\n\x7f\x80\xC0\xFF"
                              "09-";
    size_t end = size + ROOM;

    for (size_t n = 1 + below(4); n > 0; n--) {
        size_t at = below(size + 1), length = 1 + below(ROOM / 4);
        switch (below(5)) {
        case 0: /* one byte is another */
            if (at < size)
                data[at] = (uint8_t)odd[below(sizeof(odd) - 1)];
            break;
        case 1: /* one bit */
            if (at < size)
                data[at] ^= (uint8_t)(1U << below(8));
            break;
        case 2: /* cut off */
            size = at;
            break;
        case 3: /* some are missing */
            length = length < size - at ? length : size - at;
            memmove(data + at, data + at + length, size - at - length);
            size -= length;
            break;
        case 4: /* some stand twice */
            length = length < size - at ? length : size - at;
            if (size + length <= end) {
                memmove(data + at + length, data + at, size - at);
                size += length;
            }
            break;
        }
    }
    return size;
}

/* The target gets memory of the input's own size, so that a read beyond it is seen. */
static void run_input(const struct fuzz_entry *e, const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);

    if (!copy)
        abort();
    memcpy(copy, data, size);
    (void)e->run(copy, size);
    free(copy);
}

static bool run_file(const struct fuzz_entry *e, const char *path)
{
    uint8_t *data = malloc(INPUT_MAX), *changed = malloc(INPUT_MAX + ROOM);
    FILE *f = fopen(path, "rb");

    if (!f || !data || !changed) {
        (void)fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        free(data);
        free(changed);
        return false;
    }
    size_t size = fread(data, 1, INPUT_MAX, f);
    (void)fclose(f);
    note_input(path, 0);
    run_input(e, data, size);
    state = (uint32_t)size;
    for (unsigned change = 1; change <= CHANGES; change++) {
        memcpy(changed, data, size);
        size_t now = change_input(changed, size);
        note_input(path, change);
        run_input(e, changed, now);
    }
    free(data);
    free(changed);
    return true;
}

static const struct fuzz_entry *find_target(const char *name)
{
    for (const struct fuzz_entry *const *e = __start_fuzz_entries; e < __stop_fuzz_entries; e++)
        if (strcmp((*e)->name, name) == 0)
            return *e;
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (const struct fuzz_entry *const *e = __start_fuzz_entries; e < __stop_fuzz_entries; e++)
            puts((*e)->name);
        return EXIT_SUCCESS;
    }
    const struct fuzz_entry *e = argc > 2 ? find_target(argv[1]) : NULL;
    if (!e) {
        (void)fprintf(stderr, "usage: replay --list | TARGET FILE...\n");
        return EXIT_FAILURE;
    }
    (void)signal(SIGABRT, on_abort);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(name_input);
    for (int i = 2; i < argc; i++)
        if (!run_file(e, argv[i]))
            return EXIT_FAILURE;
    printf("ok %s (%d files, %d inputs)\n", e->name, argc - 2, (argc - 2) * (CHANGES + 1));
    return EXIT_SUCCESS;
}
