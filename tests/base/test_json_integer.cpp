#include <lockstep/base/json.h>

#include <gtest/gtest.h>

#include <cstdint>

namespace lockstep {
namespace {

using nlohmann::json;

TEST(JsonInteger, TakesWhatFits) {
  EXPECT_EQ(integer_of<int>(json::parse("-2147483648")), INT32_MIN);
  EXPECT_EQ(integer_of<std::uint16_t>(json::parse("65535")), 65535);
  EXPECT_EQ(integer_of<std::int64_t>(json::parse("9223372036854775807")), INT64_MAX);
  EXPECT_EQ(integer_of<std::uint64_t>(json::parse("18446744073709551615")), UINT64_MAX);
}

TEST(JsonInteger, RefusesAllElse) {
  for (const auto* text : {"8.8e35", "1.0", "2147483648", "-2147483649", "18446744073709551615", "1e400000", "true",
                           "null", "\"1\"", "[1]"}) {
    SCOPED_TRACE(text);
    EXPECT_THROW(integer_of<int>(json::parse(text)), json::exception);
  }
  EXPECT_THROW(integer_of<std::uint16_t>(json::parse("-1")), json::type_error);
  EXPECT_THROW(integer_of<std::uint16_t>(json::parse("65536")), json::type_error);
  EXPECT_THROW(integer_of<std::int64_t>(json::parse("9223372036854775808")), json::type_error);
}

}  // namespace
}  // namespace lockstep
