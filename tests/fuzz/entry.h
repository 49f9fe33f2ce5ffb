/*
 * Where tests/fuzz/replay.c finds a fuzz target. The Makefile includes this before every target and
 * gives libFuzzer's functions in it other names, so that all can be linked into one program.
 */
#ifndef DF_TESTS_FUZZ_ENTRY_H
#define DF_TESTS_FUZZ_ENTRY_H

#include <stddef.h>
#include <stdint.h>

struct fuzz_entry {
    const char *name; /* fuzz_json */
    int (*run)(const uint8_t *data, size_t size);
};

#ifdef FUZZ_NAME
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct fuzz_entry *const fuzz_entry __attribute__((section("fuzz_entries"), used)) =
    &(const struct fuzz_entry){FUZZ_NAME, LLVMFuzzerTestOneInput};
#endif

#endif
