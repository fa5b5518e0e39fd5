// Requests to parameter servers: what is written is read, and nothing else is taken.
#include <lockstep/base/error.h>
#include <lockstep/parameter_servers/wire.h>

#include <gtest/gtest.h>

#include <bit>
#include <limits>

namespace lockstep::parameter_servers {
namespace {

std::vector<TableSpec> two_tables() {
  return {{.name = "wide.weight", .rows = 100, .dim = 1, .seed = 1, .deviation = 0, .key = key_of("wide.weight")},
          {.name = "deep.weight", .rows = 100, .dim = 16, .seed = 2, .deviation = 0.1, .key = key_of("deep.weight")}};
}

const Header kPull{.request = Request::pull, .step = 7, .table = 1, .ids = 3};
const Header kPush{.request = Request::push, .step = 7, .ids = 5, .lr = 0.1, .scale = 0.5};
const Header kPushOfCopy{.request = Request::push, .step = 7, .ids = 5, .lr = 0.1, .scale = 0.5, .copy = true};

TEST(Requests, AreReadAsWritten) {
  for (const auto& header : {kPull, kPush, kPushOfCopy, Header{.request = Request::save, .step = 1},
                             Header{.request = Request::confirm, .step = 2},
                             Header{.request = Request::finish, .step = std::numeric_limits<std::int64_t>::max()}}) {
    EXPECT_EQ(decode(encode(header), two_tables()), header);
  }
}

TEST(Requests, WithAWrongWordAreRefused) {
  const auto refused = [](Header header, std::size_t word, std::int64_t value) {
    auto words = encode(header);
    words.at(word) = value;
    EXPECT_THROW(decode(words, two_tables()), Error) << word << " " << value;
  };
  refused(kPull, 0, 1);
  for (const std::int64_t kind : {-1, 0, 6}) refused(kPull, 1, kind);
  refused(kPull, 2, -1);
  for (const std::int64_t table : {-1, 2}) refused(kPull, 3, table);
  for (const std::int64_t ids : {std::int64_t{-1}, std::int64_t{0}, kMostIds + 1}) refused(kPull, 4, ids);
  refused(kPull, 4, kMostNumbers / 16 + 1);
  refused(kPush, 5, std::bit_cast<std::int64_t>(std::numeric_limits<double>::quiet_NaN()));
  refused(kPush, 6, std::bit_cast<std::int64_t>(std::numeric_limits<double>::infinity()));
  refused(kPull, 7, 1);
  for (const std::int64_t copy : {-1, 2}) refused(kPush, 7, copy);
}

TEST(Requests, HaveTheCountsOfTheirTables) {
  const std::vector<PushedTable> pushed{{true, 2}, {true, 3}};
  const auto tables = two_tables();
  EXPECT_EQ(decode_counts(encode(pushed), kPush, tables), pushed);
  EXPECT_EQ(numbers_of(pushed, tables), 2 + 3 * 16);
  const auto refused = [&](const std::vector<std::int64_t>& words) {
    EXPECT_THROW(decode_counts(words, kPush, tables), Error) << testing::PrintToString(words);
  };
  refused({1, 2});
  refused({1, 2, 1, 3, 1, 0});
  refused({2, 2, 1, 3});
  refused({0, 2, 1, 3});
  refused({1, 2, 1, 2});
  refused({1, 2, 1, 4});
  refused({1, -1, 1, 6});
}

TEST(Requests, HaveIdsThatAscendInsideTheirTable) {
  const auto table = two_tables().front();
  const auto check = [&](const std::vector<std::int64_t>& ids) { require_ids(ids, table); };
  EXPECT_NO_THROW(check({}));
  EXPECT_NO_THROW(check({0, 5, 99}));
  for (const auto& ids : std::vector<std::vector<std::int64_t>>{{-1}, {100}, {3, 3}, {4, 2}}) {
    EXPECT_THROW(check(ids), Error) << testing::PrintToString(ids);
  }
}

TEST(Partition, GivesEachRowToOneServerAndAllSomething) {
  auto table = two_tables().back();
  table.rows = 10'007;
  for (const auto partition : {Partition::hash, Partition::range}) {
    for (const int servers : {1, 2, 3, 7}) {
      std::vector<int> rows(static_cast<std::size_t>(servers));
      for (std::int64_t id = 0; id < table.rows; ++id) {
        const int server = server_of(partition, table, id, servers);
        ASSERT_GE(server, 0);
        ASSERT_LT(server, servers);
        ++rows[static_cast<std::size_t>(server)];
      }
      for (const int count : rows) EXPECT_NEAR(count, table.rows / servers, 0.1 * table.rows / servers);
    }
  }
}

TEST(Partition, OfARangeHasItsFirstPartsARowLonger) {
  auto table = two_tables().back();
  table.rows = 8;
  std::vector<int> servers;
  for (std::int64_t id = 0; id < 8; ++id) servers.push_back(server_of(Partition::range, table, id, 3));
  EXPECT_EQ(servers, (std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2}));
}

TEST(Partition, HasTwoNames) {
  EXPECT_EQ(parse_partition("hash"), Partition::hash);
  EXPECT_EQ(parse_partition("range"), Partition::range);
  EXPECT_THROW(parse_partition("modulo"), Error);
}

}  // namespace
}  // namespace lockstep::parameter_servers
