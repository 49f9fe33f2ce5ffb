# DataFlow. `make help` lists the targets.
#
# One non-recursive makefile. Objects of each BUILD live in a tree of their own, so that switching
# between release and asan rebuilds nothing. Headers are tracked by dependency files (-MMD).

BUILD    ?= release
PYTHON   ?= /usr/bin/python3
PREFIX   ?= /usr/local
V        ?= 0
VERSION  := 0.1.0

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif

# --- what is installed ------------------------------------------------------------------------------
# A stamp file saves the check on every run. Reading this file installs nothing and needs no package: pkg-config runs
# once, for the first command that needs its output, and after the stamp.

PACKAGES := libmicrohttpd gnutls libcurl sqlite3 libpq odbc libsodium libcrypto libssl zlib libxml-2.0 xlsxwriter librabbitmq rdkafka hiredis
DEPS     := build/.deps-build
PKG_CFLAGS = $(eval PKG_CFLAGS := $$(shell pkg-config --cflags $(PACKAGES)))$(PKG_CFLAGS)
PKG_LIBS   = $(eval PKG_LIBS := $$(shell pkg-config --libs $(PACKAGES)))$(PKG_LIBS)

# --- flags ------------------------------------------------------------------------------------------

# Where ccache is installed, what it has compiled before is taken from it: the same bytes, with -ffile-prefix-map too.
# CC=gcc does without.
ifeq ($(origin CC),default)
CCACHE   := $(if $(shell command -v ccache 2>/dev/null),ccache)
CC       := $(strip $(CCACHE) gcc)
endif
B        := build/$(BUILD)
G        := build/gen
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-qual -Wwrite-strings \
            -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Wswitch-enum \
            -Wimplicit-fallthrough -Wno-sign-conversion
CFLAGS   += -std=gnu17 $(WARNINGS) -Werror -fno-common -fstack-protector-strong -fPIE -pthread -g \
            -fno-plt -ffunction-sections -fdata-sections
CPPFLAGS += -D_GNU_SOURCE -DDF_VERSION='"$(VERSION)"' -Isrc -I$(G) $(PKG_CFLAGS)
LDFLAGS  += -pie -pthread -Wl,-z,relro,-z,now -Wl,--gc-sections -Wl,--as-needed
LDLIBS   += $(PKG_LIBS) -lm

ifeq ($(BUILD),release)
# C needs no tables to unwind the stack: 180 KB. Debuggers find theirs in .debug_frame, which strip takes away.
CFLAGS   += -O2 -fno-asynchronous-unwind-tables
# No path of this machine in the program: the same sources give the same bytes in whatever directory.
CFLAGS   += -ffile-prefix-map='$(subst ','\'',$(CURDIR))'=.
CPPFLAGS += -D_FORTIFY_SOURCE=3
# Every pointer in a table (queries, settings, routes) needs a relocation: packed, they take 2 KB instead of 140.
LDFLAGS  += -Wl,-z,pack-relative-relocs
else ifeq ($(BUILD),debug)
CFLAGS   += -Og
CPPFLAGS += -DDF_ARENA_DEBUG
else ifeq ($(BUILD),asan)
CFLAGS   += -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
LDFLAGS  += -fsanitize=address,undefined -fuse-ld=gold # links in a third of the time
CPPFLAGS += -DDF_ARENA_DEBUG
else ifeq ($(BUILD),tsan)
CFLAGS   += -O1 -g1 -fno-omit-frame-pointer -fsanitize=thread
LDFLAGS  += -fsanitize=thread -fuse-ld=gold
else ifeq ($(BUILD),coverage)
CFLAGS   += -O0 --coverage -fprofile-update=atomic
LDFLAGS  += --coverage
else ifeq ($(BUILD),fuzz)
CC       := $(strip $(CCACHE) clang)
CFLAGS   += -O1 -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link \
            -fno-sanitize-recover=all -Wno-gnu-zero-variadic-macro-arguments
LDFLAGS  += -fsanitize=address,undefined
CPPFLAGS += -DDF_ARENA_DEBUG
else
$(error BUILD is release, debug, asan, tsan, coverage or fuzz, not "$(BUILD)")
endif

# One word and a name for each step; V=1 shows the commands.
ifeq ($(V),0)
Q = @printf '  %-5s %s\n' '$(1)' '$@';
endif

# --- sources ----------------------------------------------------------------------------------------

SRC      := $(sort $(wildcard src/*/*.c src/*/*/*.c))
MAIN     := src/app/main.c
SQL      := $(sort $(wildcard src/*/*.sql src/*/*/*.sql))
SQLT     := $(sort $(wildcard src/*/*.sqlt))
SCRIPTS  := $(sort $(wildcard scripts/sqlite/*.sql scripts/postgres/*.sql scripts/sqlserver/*.sql))
CONSOLE  := $(filter-out %.md,$(sort $(wildcard console/*.* console/*/*.*)))

EMBED    := tools/embed_sql.py tools/embed_files.py
GEN_SQL  := $(SQL:src/%.sql=$(G)/%.sql.c)
GEN_ROWS := $(SQLT:src/%.sqlt=$(G)/%.sqlt.h)
LANG_TXT := lang/pt-BR.txt
GEN      := $(G)/lang_texts.c $(GEN_SQL) $(G)/all_queries.c $(G)/schema_scripts.c $(G)/schema_joined.c $(G)/console_files.c $(G)/table_rights.c
LIB_OBJ  := $(patsubst %.c,$(B)/obj/%.o,$(filter-out $(MAIN),$(SRC))) $(GEN:build/%.c=$(B)/obj/%.o)
MAIN_OBJ := $(B)/obj/$(MAIN:.c=.o)
LIB      := $(B)/libdataflow.a
BIN      := $(B)/dataflow
BENCH    := $(B)/dataflow-bench
BENCH_GEN := $(G)/bench/bench.sql.c
BENCH_OBJ := $(patsubst %.c,$(B)/obj/%.o,$(sort $(wildcard bench/src/*.c))) $(BENCH_GEN:build/%.c=$(B)/obj/%.o)

UNIT     := $(B)/unit
UNIT_SRC := $(sort $(wildcard tests/unit/*/*_test.c))
# Programs of their own, because they define functions of the C library (clock_gettime, getaddrinfo), which in a program
# of all tests would be called by all.
UNIT_ALONE := net/age net/client
# Left out under the thread sanitizer: tests of one thread, which it would only make slow; and of Kafka, whose library
# starts its threads by thrd_create(), which the sanitizer does not know: it crashes in them.
UNTHREADED := access/maintenance base/base64 base/config base/mem base/str base/utf16 base/zone files/crypt imports/policy \
              imports/report imports/upload interface/payload json/% net/multipart net/router relay/kafka relay/rabbitmq \
              resilience/retry store/schema% tabular/%
ifeq ($(BUILD),tsan)
UNIT_SRC := $(filter-out $(UNTHREADED:%=tests/unit/%_test.c),$(UNIT_SRC))
endif
UNIT_OBJ := $(UNIT_SRC:%.c=$(B)/%.o)
UNIT_BIN := $(UNIT_ALONE:%=$(B)/tests/unit/%_test)
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BIN := $(FUZZ_SRC:%.c=$(B)/%)
REPLAY   := $(B)/replay
REPLAY_OBJ := $(FUZZ_SRC:%.c=$(B)/%.o)

.PHONY: all run check check-all soak cluster docs lint bench fuzz fuzz-merge coverage install clean help deps format unit deb image dist fuzz-bin replay \
        compile-commands FORCE

all: $(BIN)
ifeq ($(BUILD),release)
	@ln -sf release/dataflow build/dataflow
endif

$(BIN): $(MAIN_OBJ) $(LIB)
	$(call Q,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# The benchmark program, which some tests use too.
$(BENCH): $(BENCH_OBJ) $(LIB)
	$(call Q,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
ifeq ($(BUILD),release)
	@ln -sf release/dataflow-bench build/dataflow-bench
endif

$(LIB): $(LIB_OBJ)
	@rm -f $@
	@ar rcs $@ $^

$(B)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call Q,CC)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/obj/gen/%.o: $(G)/%.c Makefile
	@mkdir -p $(@D)
	$(call Q,CC)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# Packages and generated headers must exist before the first compilation; later the dependency files list them.
$(LIB_OBJ) $(MAIN_OBJ) $(BENCH_OBJ) $(UNIT_OBJ): | $(GEN) $(GEN_ROWS)
$(BENCH_OBJ): | $(BENCH_GEN)
$(GEN) $(GEN_ROWS) $(BENCH_GEN) $(B)/tests/kafka_mock: | $(DEPS)

$(DEPS): tools/install-deps
	@mkdir -p $(@D)
	@tools/install-deps build
	@pkg-config --exists --print-errors $(PACKAGES)
	@touch $@

# Two makes may write generated sources at the same time, each for another BUILD: every file gets its name when it is
# whole, and both write the same.
# This one changes when a file is added or removed, which timestamps alone do not show.
$(G)/.inputs: FORCE
	@mkdir -p $(@D)
	@echo '$(SQL) $(SCRIPTS) $(CONSOLE)' | cmp -s - $@ || { echo '$(SQL) $(SCRIPTS) $(CONSOLE)' > $@.$$$$ && mv $@.$$$$ $@; }

$(G)/%.sql.c: src/%.sql $(SQLT) $(EMBED)
	@mkdir -p $(@D)
	$(call Q,GEN)$(PYTHON) tools/embed_sql.py $< $@ $(@:.c=.h)

$(BENCH_GEN): bench/src/bench.sql $(EMBED)
	@mkdir -p $(@D)
	$(call Q,GEN)$(PYTHON) tools/embed_sql.py --plain $< $@ $(@:.c=.h)

$(G)/%.sqlt.h: src/%.sqlt $(EMBED)
	@mkdir -p $(@D)
	$(call Q,GEN)$(PYTHON) tools/embed_sql.py --shapes $< $@

$(G)/all_queries.c: $(SQL) $(SQLT) $(G)/.inputs $(EMBED)
	@mkdir -p $(@D)
	$(call Q,GEN)$(PYTHON) tools/embed_sql.py --all $@ $(SQL)

$(G)/schema_scripts.c: $(SCRIPTS) $(G)/.inputs tools/embed_files.py
	@mkdir -p $(@D)
	$(call Q,GEN)$(PYTHON) tools/embed_files.py df_schema_scripts scripts $@ $(SCRIPTS)

$(G)/schema_joined.c: $(SCRIPTS) $(G)/.inputs tools/join_scripts.py $(EMBED)
	@mkdir -p $(G)/joined
	$(call Q,GEN)$(PYTHON) tools/join_scripts.py $(G)/joined/sqlite.sql $(filter scripts/sqlite/%,$(SCRIPTS)) && \
		$(PYTHON) tools/embed_files.py df_schema_joined $(G)/joined $@ $(G)/joined/sqlite.sql

$(G)/console_files.c: $(CONSOLE) $(G)/.inputs tools/embed_files.py
	@mkdir -p $(@D)
	$(call Q,GEN)$(PYTHON) tools/embed_files.py df_console_files console $@ $(CONSOLE)

$(G)/lang_texts.c: $(LANG_TXT) tools/embed_lang.py tools/embed_files.py
	@mkdir -p $(@D)
	$(call Q,GEN)$(PYTHON) tools/embed_lang.py $< $@

$(G)/table_rights.c: $(SQL) $(SQLT) $(SCRIPTS) $(G)/.inputs tools/rights.py tools/check_tsql.py tools/tsql.py tools/embed_files.py
	@mkdir -p $(@D)
	$(call Q,GEN)$(PYTHON) tools/rights.py --c $@

# --- tests ------------------------------------------------------------------------------------------

# Every file has its own main(), which tests/unit/runner.c calls by its name.
UNIT_LIBS := -lcmocka -ljansson
$(UNIT_OBJ): UNIT_FLAGS = -include tests/unit/entry.h -DUNIT_NAME='"$*"' -Dmain=unit_$(subst /,_,$*)
$(UNIT_BIN:=.o): UNIT_FLAGS =

$(B)/tests/unit/%_test.o: tests/unit/%_test.c Makefile
	@mkdir -p $(@D)
	$(call Q,CC)$(CC) $(CPPFLAGS) $(CFLAGS) -Itests/unit $(UNIT_FLAGS) -MMD -MP -c -o $@ $<

$(B)/tests/unit/runner.o: tests/unit/runner.c Makefile
	@mkdir -p $(@D)
	$(call Q,CC)$(CC) $(CPPFLAGS) $(CFLAGS) -DUNIT_ALONE='$(foreach name,$(UNIT_ALONE),"$(name)",)' -MMD -MP -c -o $@ $<

# Changes when a file of tests is added or removed.
$(B)/tests/unit/.inputs: FORCE
	@mkdir -p $(@D)
	@echo '$(UNIT_OBJ)' | cmp -s - $@ || echo '$(UNIT_OBJ)' > $@

# What a file of tests defines besides its main() acts on all others: such a file belongs to UNIT_ALONE.
$(UNIT): $(B)/tests/unit/runner.o $(filter-out $(UNIT_BIN:=.o),$(UNIT_OBJ)) $(LIB) $(B)/tests/unit/.inputs
	@! nm -A -g --defined-only $(filter %_test.o,$^) | grep -v ' unit_'
	$(call Q,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(LDLIBS) $(UNIT_LIBS)

$(UNIT_BIN): %: %.o $(LIB)
	$(call Q,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(LDLIBS) $(UNIT_LIBS)

# The reference that the JSON scanner is compared with.
$(B)/tests/fuzz/fuzz_json: TEST_LIBS += -ljansson

$(B)/tests/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(LIB)
	@mkdir -p $(@D)
	$(call Q,LD)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -MF $@.d $(LDFLAGS) -fsanitize=fuzzer -o $@ $< $(LIB) $(LDLIBS) $(TEST_LIBS)

# The fuzz targets without libFuzzer, in one program.
$(REPLAY_OBJ): REPLAY_FLAGS = -include tests/fuzz/entry.h -DFUZZ_NAME='"$(*F)"' -DLLVMFuzzerTestOneInput=$(*F) \
    -DLLVMFuzzerCustomMutator=$(*F)_mutate -DLLVMFuzzerCustomCrossOver=$(*F)_cross
$(REPLAY_OBJ): | $(GEN) $(GEN_ROWS)

$(B)/tests/fuzz/%.o: tests/fuzz/%.c Makefile
	@mkdir -p $(@D)
	$(call Q,CC)$(CC) $(CPPFLAGS) $(CFLAGS) $(REPLAY_FLAGS) -MMD -MP -c -o $@ $<

$(REPLAY): $(B)/tests/fuzz/replay.o $(REPLAY_OBJ) $(LIB)
	$(call Q,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS) -ljansson

# A Kafka broker for tests, in a process of its own.
$(B)/tests/kafka_mock: tests/kafka_mock.c Makefile
	@mkdir -p $(@D)
	$(call Q,LD)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< -lrdkafka

unit: $(UNIT) $(UNIT_BIN)
# What black-box tests start besides the server; none of those that run under the thread sanitizer does.
ifneq ($(BUILD),tsan)
unit: $(B)/tests/kafka_mock $(BENCH)
endif
fuzz-bin: $(FUZZ_BIN)
replay: $(REPLAY)

# --- what people type -------------------------------------------------------------------------------

run: all ## install what is missing, build, and start on embedded SQLite with a sandbox beside it
	build/dataflow serve --demo $(ARGS)

check: ## install what is missing, build, and run what a change can have broken
	@tools/install-deps build test
	$(PYTHON) tests/run.py $(ARGS)

check-all: ## the same, and every other pass: all rows of all tables on every build and database; before a release
	@tools/install-deps build test
	$(PYTHON) tests/run.py --all $(ARGS)

soak: ## crashes, outages, a cluster and a year of traffic in their long sizes: 10,000 documents; an hour or two
	@tools/install-deps build test
	$(PYTHON) tests/run.py --soak $(ARGS)

cluster: all ## a whole cluster on this machine, under load, until Ctrl-C; ARGS="--minutes 5 --chaos" breaks it meanwhile
	@tools/install-deps build test
	$(PYTHON) tests/cluster/cluster.py $(ARGS)

lint: all $(BENCH) ## formatting, static analysis, locks, direction of includes
	@tools/install-deps build test
	PYTHON=$(PYTHON) B=$(B) tools/lint $(ARGS)

format: ## rewrite the sources in the house's format
	clang-format -i $$(git ls-files '*.c' '*.h')

bench: all $(BENCH) ## measure; see bench/README.md
	@tools/install-deps build test bench
	bench/run $(ARGS)

fuzz: ## run every fuzz target for FUZZ_SECONDS (default 60) each; tests/fuzz/README.md
	@tools/install-deps build test
	$(MAKE) BUILD=fuzz fuzz-bin
	tests/fuzz/run $(or $(FUZZ_SECONDS),60) $(ARGS)

fuzz-merge: ## remove inputs that add nothing from the fuzz corpus
	$(MAKE) BUILD=fuzz fuzz-bin
	tests/fuzz/run --merge $(ARGS)

coverage: ## line coverage of unit and black-box tests, as HTML under build/coverage
	@tools/install-deps build test
	$(PYTHON) tests/run.py --coverage

install: all ## copy the binary, its man page, unit and completions to $(DESTDIR)$(PREFIX)
	install -D -m 0755 $(BIN) "$(DESTDIR)$(PREFIX)/bin/dataflow"
	install -D -m 0644 docs/dataflow.1 "$(DESTDIR)$(PREFIX)/share/man/man1/dataflow.1"
	install -d "$(DESTDIR)$(PREFIX)/lib/systemd/system"
	sed 's|/usr/local/bin/|$(PREFIX)/bin/|' deploy/systemd/dataflow.service > "$(DESTDIR)$(PREFIX)/lib/systemd/system/dataflow.service"
	install -D -m 0644 deploy/systemd/dataflow.sysusers "$(DESTDIR)$(PREFIX)/lib/sysusers.d/dataflow.conf"
	install -d "$(DESTDIR)$(PREFIX)/share/bash-completion/completions" "$(DESTDIR)$(PREFIX)/share/zsh/site-functions" \
	    "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d"
	$(BIN) completion bash > "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/dataflow"
	$(BIN) completion zsh > "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_dataflow"
	$(BIN) completion fish > "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/dataflow.fish"

deb: all ## the Debian packages: build/dist/dataflow_VERSION_ARCH.deb and one with its debug symbols
	@tools/install-deps build package
	@tools/make-deb $(VERSION)

image: deb ## a container image (OCI) of the same program: build/dist/dataflow-VERSION-ARCH.oci.tar
	@$(PYTHON) tools/make_image.py $(VERSION)

dist: ## the sources of the last commit: build/dist/dataflow-VERSION.tar.xz
	@mkdir -p build/dist
	@git diff --quiet HEAD || echo 'make dist: what is not committed is not in it' >&2
	@git archive --format=tar --prefix=dataflow-$(VERSION)/ -o build/dist/dataflow-$(VERSION).tar HEAD
	@xz -6 --threads=1 --force build/dist/dataflow-$(VERSION).tar
	@ls -l build/dist/dataflow-$(VERSION).tar.xz

docs: all ## write what is made from tables: docs/configuration.md, docs/metrics.md, docs/dataflow.1, the rights on tables
	@{ printf '# Configuration\n\n'; \
	   printf 'An INI file (`--config FILE` or `DATAFLOW_CONFIG`), overridden by the environment (`DATAFLOW_<SECTION>_<KEY>`),\n'; \
	   printf 'overridden by `--set section.key=value`. `dataflow check-config` shows what is in force; `make docs` writes this page.\n\n'; \
	   $(BIN) help config; } > docs/configuration.md
	@$(BIN) help man > docs/dataflow.1
	@{ sed '/^| metric | type |/,$$d' docs/metrics.md; $(BIN) help metrics; } > docs/metrics.md.new && mv docs/metrics.md.new docs/metrics.md
	@$(PYTHON) tools/rights.py --docs

deps: ## install every package that build, tests and benchmarks need
	tools/install-deps build test bench

clean: ## remove what was built
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile
	@echo '  BUILD=release|debug|asan|tsan|coverage|fuzz chooses the flags; objects live in build/$$BUILD'

-include $(LIB_OBJ:.o=.d) $(MAIN_OBJ:.o=.d) $(BENCH_OBJ:.o=.d) $(UNIT_OBJ:.o=.d) $(B)/tests/unit/runner.d $(FUZZ_BIN:=.d) $(REPLAY_OBJ:.o=.d) $(B)/tests/fuzz/replay.d
