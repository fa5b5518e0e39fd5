#include <lockstep/base/yaml_text.h>

#include <string>
#include <vector>

#include "base/expect_error.h"

namespace lockstep {
namespace {

using Kind = ConfigNode::Kind;
using test::expect_error;

TEST(YamlText, KeepsTheLineOfEveryKeyAndItem) {
  const ConfigNode root =
      parse_yaml("# comment\na: 1\nb:\n  c: x\n  d:\n    - 1\n    - two\n\ne: {f: 2,\n  g: 3}\n", "f.yaml");
  ASSERT_EQ(root.kind, Kind::map);
  EXPECT_EQ(root.find("a")->position.line, 2);
  EXPECT_EQ(root.find("a")->position.file, "f.yaml");
  EXPECT_EQ(root.find("a")->scalar, "1");
  EXPECT_EQ(root.find("b")->position.line, 3);
  EXPECT_EQ(root.find("b")->find("c")->position.line, 4);
  const ConfigNode& list = *root.find("b")->find("d");
  EXPECT_EQ(list.position.line, 5);
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_EQ(list.items[0].position.line, 6);
  EXPECT_EQ(list.items[1].position.line, 7);
  EXPECT_EQ(list.items[1].scalar, "two");
  EXPECT_EQ(root.find("e")->find("g")->position.line, 10);
  EXPECT_EQ(root.find("nothing"), nullptr);
}

TEST(YamlText, TellsTextFromNothing) {
  const ConfigNode root =
      parse_yaml("a:\nb: ~\nc: null\nd: ''\ne: \"null\"\nf: '1'\ng: !!str 1\nh: 1\ni: |\n  1\n", "f");
  for (const auto* key : {"a", "b", "c"}) EXPECT_EQ(root.find(key)->kind, Kind::null) << key;
  for (const auto* key : {"d", "e", "f", "g", "i"}) EXPECT_TRUE(root.find(key)->quoted) << key;
  EXPECT_FALSE(root.find("h")->quoted);
  EXPECT_EQ(root.find("e")->scalar, "null");
}

TEST(YamlText, ReadsWindowsLinesAndByteOrderMarks) {
  EXPECT_EQ(parse_yaml("a: x\r\nb: y\r\n", "f").find("b")->scalar, "y");
  EXPECT_EQ(parse_yaml("\xEF\xBB\xBF"
                       "a: x\n",
                       "f")
                .find("a")
                ->scalar,
            "x");
}

// yaml-cpp reads a comma there as endless empty documents.
TEST(YamlText, RefusesACommaAtTheBeginning) {
  for (const auto* text : {",", ",,", "# comment\n, 1\n", "--- ,\n", "[a], b", "\xEF\xBB\xBF, a"}) {
    expect_error(ErrorKind::config, {"f.yaml", "may not begin with ','"}, [&] { parse_yaml(text, "f.yaml"); });
  }
  EXPECT_EQ(parse_yaml("a: b,,\n", "f.yaml").find("a")->scalar, "b,,");
}

TEST(YamlText, ReadsNothingAsNull) {
  for (const auto* text : {"", "\n\n", "# only a comment\n"}) EXPECT_EQ(parse_yaml(text, "f").kind, Kind::null) << text;
}

TEST(YamlText, ResolvesAnchorsAndMerges) {
  const ConfigNode root = parse_yaml(
      "base: &base {lr: 1, name: sgd}\nother: &other {lr: 5, x: 6}\n"
      "alias: *base\nmerged:\n  <<: *base\n  lr: 2\nboth:\n  <<: [*base, *other]\n",
      "f");
  EXPECT_EQ(root.find("alias")->find("lr")->scalar, "1");
  EXPECT_EQ(root.find("alias")->position.line, 3);
  EXPECT_EQ(root.find("merged")->find("lr")->scalar, "2");
  EXPECT_EQ(root.find("merged")->find("name")->scalar, "sgd");
  EXPECT_EQ(root.find("merged")->entries.size(), 2u);
  EXPECT_EQ(root.find("both")->find("lr")->scalar, "1");
  EXPECT_EQ(root.find("both")->find("x")->scalar, "6");
  const ConfigNode names = parse_yaml("a: &name lr\n*name : 2\nb: &list [1, 2]\nc: [*list, *name]\n", "f");
  EXPECT_EQ(names.find("lr")->scalar, "2");
  EXPECT_EQ(names.find("c")->items[0].items[1].scalar, "2");
  EXPECT_EQ(names.find("c")->items[1].scalar, "lr");
}

struct BadYaml {
  std::string text;
  int line;
  std::vector<std::string_view> words;
};

TEST(YamlText, ExplainsWhatIsNoYaml) {
  const std::vector<BadYaml> cases = {
      {"a:\n\tb: 1\n", 2, {"tabs are not allowed for indentation", "use spaces"}},
      {"a:\n  b: 1\n\tc: 2\n", 3, {"tabs are not allowed"}},
      {"a:\n  b:\n  \t- 1\n", 3, {"tabs are not allowed"}},
      {"\ta: 1\n", 1, {"tabs are not allowed"}},
      {"a:\n  b: 1\n c: 2\n", 3, {"not valid YAML", "indented"}},
      {"a: 1\n  b: 2\n", 2, {"not valid YAML", "indentation"}},
      {"a: b: c\n", 1, {"not valid YAML", "': '"}},
      {"a: [1, 2\nb: 3\n", 2, {"'['", "not closed"}},
      {"a: {b: 1\n", 2, {"'{'", "not closed"}},
      {"a: @x\n", 1, {"quotes"}},
      {"a: - 1\n", 1, {"list item"}},
      {"a: *x\n", 1, {"anchor"}},
      {"a: 1\nb: 2\na: 3\n", 3, {"'a'", "twice", "line 1"}},
      {"s:\n  a: 1\n  a: 1\n", 3, {"'a'", "twice", "line 2"}},
      {"a: 1\nb: \"x\nc: 3\n", 2, {"quote", "\"", "never closed"}},
      {"a: 'it''s\nb: 2\n", 1, {"quote", "never closed"}},
      {"a: 1\n---\nb: 2\n", 3, {"second YAML document"}},
      {"- a\n-b\n", 2, {"second YAML document"}},
      {"a: &x [*x]\n", 1, {"nested", "anchor"}},
      {"[1, 2]: 3\n", 1, {"key must be plain text"}},
      {"a:\n  <<: 3\n", 2, {"'<<'", "'3'"}},
      {"a: 1\nb: \x01\n", 2, {"byte 9", "0x01", "does not occur in text"}},
      {"\x7f"
       "ELF...",
       0,
       {"an ELF program", "not the text of a YAML file"}},
  };
  for (const auto& bad : cases) {
    SCOPED_TRACE(bad.text);
    const auto error = expect_error(ErrorKind::config, {}, [&] { parse_yaml(bad.text, "f.yaml"); });
    if (!error) continue;
    EXPECT_EQ(error->position().file, "f.yaml");
    EXPECT_EQ(error->position().line, bad.line) << error->what();
    for (const auto word : bad.words) test::expect_words(error->what(), {word});
  }
}

TEST(YamlText, ClosedQuotesOfAllKindsPass) {
  const ConfigNode root =
      parse_yaml("a: 'it''s'\nb: \"a \\\" b\"\nc: \"\\\\\"\nd: ''\ne: \"two\n  lines\"\nf: [ 'x', \"y\" ]\n", "f");
  EXPECT_EQ(root.find("a")->scalar, "it's");
  EXPECT_EQ(root.find("b")->scalar, "a \" b");
  EXPECT_EQ(root.find("c")->scalar, "\\");
  EXPECT_EQ(root.find("e")->scalar, "two lines");
  EXPECT_EQ(root.find("f")->items[1].scalar, "y");
}

TEST(YamlText, ATabInsideATextIsFine) {
  EXPECT_EQ(parse_yaml("a:\t1\n", "f").find("a")->scalar, "1");
  EXPECT_EQ(parse_yaml("a: |\n  x\n  \ty\n", "f").find("a")->scalar, "x\n\ty\n");
}

TEST(YamlText, RefusesAnchorsThatExplode) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    text +=
        fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  }
  expect_error(ErrorKind::config, {"100000", "anchors"}, [&] { parse_yaml(text, "f"); });
}

TEST(YamlText, RefusesWhatIsTooDeepOrTooLong) {
  for (const std::size_t depth : {60U, 600U, 20000U}) {
    const auto text = "a: " + std::string(depth, '[') + std::string(depth, ']');
    expect_error(ErrorKind::config, {"nested more than 50 deep", "f:1"}, [&] { parse_yaml(text, "f"); });
  }
  EXPECT_EQ(parse_yaml("a: " + std::string(4096, 'x'), "f").find("a")->scalar.size(), 4096U);
  expect_error(ErrorKind::config, {"4096 bytes", "'xxx", "... (5000 bytes)", "f:2"},
               [] { parse_yaml("b: 1\na: " + std::string(5000, 'x'), "f"); });
  expect_error(ErrorKind::config, {"4096 bytes", "'kkk", "... (5000 bytes)"},
               [] { parse_yaml("? " + std::string(5000, 'k') + "\n: 1", "f"); });
}

// The order of merges, as of YAML's merge keys, does not depend on how keys are looked up.
TEST(YamlText, MergesKeepTheirOrder) {
  const ConfigNode root = parse_yaml("x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz:\n  <<: [*x, *y]\n  a: 5\n", "f");
  EXPECT_EQ(print_yaml_flow(*root.find("z")), "{a: 5, b: 2, c: 4}");
}

TEST(YamlText, PrintsWhatItReads) {
  const std::string text =
      "a: 1\nb:\n  c: \"1\"\n  d: [1, 2]\n  e: ~\nf:\n  - Resize:\n      size: 32\n  - ToTensor\ng: []\nh: {}\n"
      "i: \"two\\nlines\"\n";
  EXPECT_EQ(print_yaml(parse_yaml(text, "f")), text);
}

TEST(YamlText, PrintsInOneLine) {
  EXPECT_EQ(print_yaml_flow(parse_yaml("a: [1, {b: c}]\nd: \"2\"\n", "f")), "{a: [1, {b: c}], d: \"2\"}");
  EXPECT_EQ(print_yaml_flow(parse_yaml("", "f")), "~");
}

}  // namespace
}  // namespace lockstep
