#include <gtest/gtest.h>
#include <lockstep/base/json.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>

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
  EXPECT_EQ(cut_text("\x80\x80\x80\x80\x80", 4), "\\x80... (5 bytes)") << "what is not UTF-8 is cut all the same";
}

TEST(ShownText, WhatDoesNotPrintIsEscaped) {
  using namespace std::string_view_literals;
  EXPECT_EQ(cut_text("a\0b\x1b[31m\x7f"sv), R"(a\x00b\x1b[31m\x7f)");
  EXPECT_EQ(cut_text("two\r\nlines\tof it"), R"(two\r\nlines\tof it)");
  EXPECT_EQ(cut_text("img\\a.jpg"), "img\\a.jpg") << "a backslash stays, as paths have them";
  EXPECT_EQ(cut_text("K\u00f6ln \u65e5\u672c \U0001f600"), "K\u00f6ln \u65e5\u672c \U0001f600");
  EXPECT_EQ(cut_text("\ufeffa\u202eb\u009bc"), R"(\ufeffa\u202eb\u009bc)") << "marks that are not seen, and controls";
  EXPECT_EQ(cut_text("\xc3("), R"(\xc3()") << "half a character";
  EXPECT_EQ(cut_text("\xc0\x80"), R"(\xc0\x80)") << "a longer form than need be";
  EXPECT_EQ(cut_text("\xed\xa0\x80"), R"(\xed\xa0\x80)") << "a surrogate";
}

TEST(ShownText, MessagesKeepTheirLinesAndTheirEnds) {
  using namespace std::string_view_literals;
  EXPECT_EQ(shown_message("a\n\tb\0\x1b"sv), "a\n\tb\\x00\\x1b");
  const auto shown = shown_message("'" + std::string(1'000'000, 'x') + "' is no number; write one\nnext");
  EXPECT_LT(shown.size(), 3000u);
  EXPECT_TRUE(shown.starts_with("'xxx")) << shown;
  EXPECT_TRUE(shown.ends_with("' is no number; write one\nnext")) << shown;
  EXPECT_EQ(shown_message(shown), shown);
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
  EXPECT_EQ(mistake([] { json::array().at("mesh"); }), "there is a list where an object {...} should be");
  EXPECT_EQ(mistake([] { json(3).at("mesh"); }), "there is a number where an object {...} should be");
  EXPECT_EQ(mistake([] { json::object().at("mesh"); }), "it has no \"mesh\"");
  EXPECT_EQ(mistake([] { json(3).get<std::string>(); }), "there is a number where a text should be");
  EXPECT_EQ(mistake([] { json("3").get<double>(); }), "there is a text where a number should be");
  EXPECT_EQ(mistake([] { json("3").get<std::vector<int>>(); }), "there is a text where a list should be");
  EXPECT_EQ(mistake([] { integer_of<int>(json("3")); }), "a value must be an integer that fits");
  for (const auto* python : {"{'a': 1}", "[{'a': 1}]", R"({"a": None})", R"([True])"}) {
    const auto said = mistake([&] { return json::parse(python).size(); });
    EXPECT_NE(said.find("json.dumps()"), std::string::npos) << said;
  }
  const auto broken = mistake([] { return json::parse("{\n  \"a\": ]").size(); });
  EXPECT_TRUE(broken.starts_with("it is not valid JSON at line 2, column 8")) << broken;
  EXPECT_EQ(broken.find("Python"), std::string::npos) << broken;
  EXPECT_LT(mistake([] { return json::parse(std::string(100000, 'x')).size(); }).size(), 400u);
}

TEST(HostAndPort, HasBracketsWhereTheHostHasColons) {
  EXPECT_EQ(host_and_port("node-1", 29500), "node-1:29500");
  EXPECT_EQ(host_and_port("10.0.0.7", 1), "10.0.0.7:1");
  EXPECT_EQ(host_and_port("fe80::1", 65535), "[fe80::1]:65535");
}

TEST(HostAndPort, IsReadInAllForms) {
  const auto read = [](const char* text) {
    const auto place = parse_host_and_port(text);
    if (!place) return std::string("refused");
    return place->host + (place->port ? " " + std::to_string(*place->port) : "");
  };
  EXPECT_EQ(read("node-1"), "node-1");
  EXPECT_EQ(read("node-1:29500"), "node-1 29500");
  EXPECT_EQ(read("10.0.0.7:0"), "10.0.0.7 0");
  EXPECT_EQ(read("::1"), "::1");
  EXPECT_EQ(read("[::1]"), "::1");
  EXPECT_EQ(read("[fe80::1]:65535"), "fe80::1 65535");
  for (const char* bad : {"", ":", ":1", "a:", "a:65536", "a:-1", "a:x", "a b:1", "http://a", "[::1", "[::1]x:1",
                          "[]:1", "[::1]:", "[::1]:x"}) {
    EXPECT_EQ(read(bad), "refused") << bad;
  }
  EXPECT_EQ(parse_listening_address("8080")->host, "127.0.0.1");
  EXPECT_EQ(parse_listening_address("8080")->port, 8080);
  EXPECT_EQ(parse_listening_address("[::1]:0")->host, "::1");
  for (const char* bad : {"", "host", "a=1", "65536", "::1", "train.py"})
    EXPECT_FALSE(parse_listening_address(bad)) << bad;
}

}  // namespace
}  // namespace lockstep
