#include <gtest/gtest.h>
#include <lockstep/base/error.h>

#include <set>
#include <string>

namespace lockstep {
namespace {

TEST(Error, ReadsWhereMessageAndPlace) {
  EXPECT_STREQ(Error(ErrorKind::io, "disk", "it is full").what(), "[disk] it is full");
  EXPECT_STREQ(Error(ErrorKind::config, "config", "bad", {"a.yaml", 3}).what(), "[config] bad (a.yaml:3)");
  EXPECT_STREQ(Error(ErrorKind::config, "config", "bad", {"a.yaml", 0}).what(), "[config] bad (a.yaml)");
}

TEST(Error, KeepsItsParts) {
  const Error error(ErrorKind::mismatch, "comm", "sizes differ", {"f", 2});
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_EQ(error.where(), "comm");
  EXPECT_EQ(error.message(), "sizes differ");
  EXPECT_EQ(error.position().file, "f");
  EXPECT_EQ(error.position().line, 2);
}

TEST(Error, SaysAllThatItHasToWhateverItQuotes) {
  const std::string quoted("a\0b\x1b]0;", 7);
  const Error error(ErrorKind::data, "csv", "'" + quoted + "' is no number; write one", {"t\x1b.csv", 3});
  EXPECT_STREQ(error.what(), R"([csv] 'a\x00b\x1b]0;' is no number; write one (t\x1b.csv:3))");
  EXPECT_EQ(error.message(), R"('a\x00b\x1b]0;' is no number; write one)");
}

TEST(Error, FailFormats) {
  try {
    fail(ErrorKind::data, "records", "{} of {}", 3, 4);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[records] 3 of 4");
    return;
  }
  FAIL() << "fail did not throw";
}

TEST(Error, KindsHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::numeric); ++kind) {
    names.insert(name(static_cast<ErrorKind>(kind)));
  }
  EXPECT_EQ(names.size(), 10u);
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_EQ(name(ErrorKind::peer_lost), "peer_lost");
}

}  // namespace
}  // namespace lockstep
