#include <gtest/gtest.h>
#include <lockstep/base/json_integer.h>
#include <lockstep/base/json_words.h>
#include <lockstep/base/shown_text.h>

#include <functional>
#include <string>

namespace lockstep {
namespace {

TEST(ShownText, LongTextsAreCutAndCounted) {
  EXPECT_EQ(cut_text("short"), "short");
  EXPECT_EQ(cut_text(std::string(80, 'a')), std::string(80, 'a'));
  EXPECT_EQ(cut_text(std::string(81, 'a')), std::string(80, 'a') + "... (81 bytes)");
  EXPECT_EQ(cut_text("abc", 2), "ab... (3 bytes)");
  EXPECT_EQ(cut_text("aä€", 2), "a... (6 bytes)") << "a character is not cut in two";
  EXPECT_EQ(cut_text("aä€", 3), "aä... (6 bytes)");
  EXPECT_EQ(cut_text("\x80\x80\x80\x80\x80", 4), "\x80... (5 bytes)") << "what is not UTF-8 is cut all the same";
}

TEST(ShownText, FilesAreKnownByTheirFirstBytes) {
  using namespace std::string_view_literals;
  EXPECT_EQ(kind_of_file("PK\x03\x04...."), "a zip archive");
  EXPECT_EQ(kind_of_file("\x1f\x8b\x08"), "a gzip file");
  EXPECT_EQ(kind_of_file("\x80\x02}q"), "a Python pickle");
  EXPECT_EQ(kind_of_file("\x7f"
                         "ELF\x02"),
            "an ELF program");
  EXPECT_EQ(kind_of_file("model: {}"), "");
  EXPECT_EQ(kind_of_file(""), "");
  EXPECT_EQ(kind_of_file("\x00\x00"sv), "");
}

TEST(JsonWords, SayWhatIsWrongWithoutTheLibrarysNames) {
  using nlohmann::json;
  const auto mistake = [](const std::function<void()>& code) -> std::string {
    try {
      code();
    } catch (const json::exception& error) {
      return json_mistake(error);
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(mistake([] { json::array().at("mesh"); }), "a list stands where an object {...} should be");
  EXPECT_EQ(mistake([] { json(3).at("mesh"); }), "a number stands where an object {...} should be");
  EXPECT_EQ(mistake([] { json::object().at("mesh"); }), "it has no \"mesh\"");
  EXPECT_EQ(mistake([] { json(3).get<std::string>(); }), "a number stands where a text should be");
  EXPECT_EQ(mistake([] { json("3").get<double>(); }), "a text stands where a number should be");
  EXPECT_EQ(mistake([] { json("3").get<std::vector<int>>(); }), "a text stands where a list should be");
  EXPECT_EQ(mistake([] { integer_of<int>(json("3")); }), "a value must be an integer that fits");
  const auto broken = mistake([] { return json::parse("{\n  \"a\": ]").size(); });
  EXPECT_TRUE(broken.starts_with("it is not valid JSON at line 2, column 8")) << broken;
  EXPECT_LT(mistake([] { return json::parse(std::string(100000, 'x')).size(); }).size(), 400u);
}

TEST(HostAndPort, HasBracketsWhereTheHostHasColons) {
  EXPECT_EQ(host_and_port("node-1", 29500), "node-1:29500");
  EXPECT_EQ(host_and_port("10.0.0.7", 1), "10.0.0.7:1");
  EXPECT_EQ(host_and_port("fe80::1", 65535), "[fe80::1]:65535");
}

}  // namespace
}  // namespace lockstep
