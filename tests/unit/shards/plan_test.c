/* What a process takes and hands over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shards/plan.h"
#include "shards/shards.h"

#include <string.h>

static void all_shards_have_an_owner_and_shares_differ_by_one(void **state)
{
    (void)state;
    for (unsigned owners = 1; owners <= 40; owners++) {
        unsigned sum = 0;
        for (unsigned rank = 0; rank < owners; rank++) {
            unsigned share = shard_share(owners, rank);
            assert_in_range(share, DF_SHARDS / owners, DF_SHARDS / owners + 1);
            assert_true(rank == 0 || share <= shard_share(owners, rank - 1));
            sum += share;
        }
        assert_int_equal(sum, DF_SHARDS);
        assert_int_equal(shard_share(owners, owners), 0);
    }
    assert_int_equal(shard_share(0, 0), 0);
}

static const struct {
    const char *name;
    struct shard_look look;
    struct shard_plan want;
} cases[] = {
    {"alone: everything", {.free = 0xffff, .owners = 1}, {.take = 0xffff}},
    {"alone: what is lost too", {.mine = 0xff, .lost = 0xf00, .owners = 1}, {.take = 0xf00}},
    {"a half", {.free = 0xffff, .owners = 2, .rank = 1}, {.take = 0xff}},
    {"what is lost comes first", {.free = 0xff, .lost = 0xff00, .owners = 2}, {.take = 0xff00}},
    {"up to the share, with what it has",
     {.mine = 0x0f, .free = 0xfff0, .owners = 2},
     {.take = 0xf0}},
    {"the share is full", {.mine = 0xff, .free = 0xff00, .owners = 2}, {0}},
    {"one joins", {.mine = 0xffff, .owners = 2}, {.leaving = 0xff}},
    {"idle ones go first", {.mine = 0xffff, .busy = 0xff, .owners = 2}, {.leaving = 0xff00}},
    {"busy ones go if they must",
     {.mine = 0xffff, .busy = 0xfff0, .owners = 2},
     {.leaving = 0x00ff}},
    {"what was leaving goes on leaving",
     {.mine = 0xffff, .busy = 0xff00, .leaving = 0xff00, .owners = 2},
     {.leaving = 0xff00}},
    {"a joiner left again", {.mine = 0xffff, .leaving = 0xff00, .owners = 1}, {0}},
    {"what is leaving counts until it is gone",
     {.mine = 0xffff, .leaving = 0xff, .free = 0, .owners = 2},
     {.leaving = 0xff}},
    {"strays beyond the share, others leave",
     {.mine = 0xff, .stray = 0x300, .owners = 2},
     {.take = 0x300, .leaving = 0x03}},
    {"three: the first has one more", {.mine = 0xffff, .owners = 3, .rank = 0}, {.leaving = 0x3ff}},
    {"three: the last", {.free = 0xffff, .owners = 3, .rank = 2}, {.take = 0x1f}},
    {"does not serve the channel", {.free = 0xffff, .owners = 2, .rank = 2}, {0}},
    {"serves it no longer", {.mine = 0xf0, .owners = 1, .rank = 1}, {.leaving = 0xf0}},
    {"more processes than shards", {.free = 0xffff, .owners = 17, .rank = 16}, {0}},
};

static void takes_and_hands_over(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct shard_plan got = shard_plan_make(&cases[i].look);
        if (got.take != cases[i].want.take || got.leaving != cases[i].want.leaving)
            fail_msg("%s: take %x, leaving %x", cases[i].name, got.take, got.leaving);
    }
}

/* Each decides by itself, one after the other, as processes come and go. */
static void processes_agree_in_the_end(void **state)
{
    enum { MOST = 20 };
    uint32_t mine[MOST] = {0};
    static const unsigned counts[] = {1, 2, 3, 5, 16, 20, 7, 2, 1, 9};

    (void)state;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        unsigned owners = counts[c];
        for (unsigned gone = owners; gone < MOST; gone++)
            mine[gone] = 0;
        for (unsigned turn = 0; turn < 3 * MOST; turn++) {
            unsigned rank = turn % owners;
            uint32_t others = 0;
            for (unsigned i = 0; i < MOST; i++)
                others |= i == rank ? 0 : mine[i];
            struct shard_plan plan =
                shard_plan_make(&(struct shard_look){.mine = mine[rank],
                                                     .free = DF_SHARDS_ALL & ~(others | mine[rank]),
                                                     .owners = owners,
                                                     .rank = rank});
            assert_int_equal(plan.take & others, 0);
            mine[rank] = (mine[rank] | plan.take) & ~plan.leaving;
        }
        uint32_t all = 0;
        for (unsigned i = 0; i < owners; i++) {
            assert_int_equal(__builtin_popcount(mine[i]), shard_share(owners, i));
            all |= mine[i];
        }
        assert_int_equal(all, DF_SHARDS_ALL);
    }
}

static void ids_have_the_shards_that_queries_give_them(void **state)
{
    static const struct {
        const char *id;
        unsigned shard;
    } ids[] = {
        {"0", 0},
        {"15", 15},
        {"16", 0},
        {"9223372036854775807", 15},
        {"9223372036854775806", 14},
        {"-1", 15},
        {"0190a0b0-1111-7222-8333-444455556660", 0},
        {"0190a0b0-1111-7222-8333-44445555666f", 15},
        {"0190a0b0-1111-7222-8333-44445555666A", 10},
        {"", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        assert_int_equal(df_shard_of(df_str_c(ids[i].id)), ids[i].shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shards_have_an_owner_and_shares_differ_by_one),
        cmocka_unit_test(takes_and_hands_over),
        cmocka_unit_test(processes_agree_in_the_end),
        cmocka_unit_test(ids_have_the_shards_that_queries_give_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
