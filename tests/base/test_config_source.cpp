#include <lockstep/base/config.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/yaml_text.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/expect_error.h"

namespace lockstep {
namespace {

using test::expect_error;

std::string resolve(std::string_view text, const std::vector<std::string>& overrides) {
  return print_yaml_flow(parse_config(text, "run.yaml", overrides).root);
}

TEST(ConfigSource, OverridesReplaceAndAdd) {
  constexpr auto* kText = "train:\n  epochs: 1\n  lr: 0.1\nname: x\nempty:\n";
  EXPECT_EQ(resolve(kText, {}), "{train: {epochs: 1, lr: 0.1}, name: x, empty: ~}");
  EXPECT_EQ(resolve(kText, {"train.epochs=3"}), "{train: {epochs: 3, lr: 0.1}, name: x, empty: ~}");
  EXPECT_EQ(resolve(kText, {"name=a", "name=b"}), "{train: {epochs: 1, lr: 0.1}, name: b, empty: ~}");
  EXPECT_EQ(resolve(kText, {"empty.deep.er=1"}), "{train: {epochs: 1, lr: 0.1}, name: x, empty: {deep: {er: 1}}}");
  EXPECT_EQ(resolve(kText, {"train={epochs: 2}"}), "{train: {epochs: 2}, name: x, empty: ~}");
  EXPECT_EQ(resolve("", {"a.b=[1, 2]"}), "{a: {b: [1, 2]}}");
  EXPECT_EQ(resolve("a: 1", {"a="}), "{a: ~}");
  EXPECT_EQ(resolve("a: 1", {"a=x=y"}), "{a: x=y}");
  EXPECT_EQ(resolve("a: 1", {"a='1'"}), "{a: \"1\"}");
}

TEST(ConfigSource, OverridesSayWhereTheyComeFrom) {
  const std::vector<std::string> overrides = {"train.epochs=3"};
  const ConfigSource source = parse_config("train:\n  lr: 1\n", "run.yaml", overrides);
  EXPECT_EQ(source.root.find("train")->find("epochs")->position.file, "override 'train.epochs=3'");
  EXPECT_EQ(source.root.find("train")->find("epochs")->position.line, 0);
  EXPECT_EQ(source.root.find("train")->find("lr")->position.file, "run.yaml");
}

TEST(ConfigSource, RefusesBadOverrides) {
  const std::vector<std::pair<std::string, std::string_view>> cases = {
      {"epochs", "key.path=value"},
      {"=3", "key.path=value"},
      {".a=3", "empty part"},
      {"a.=3", "empty part"},
      {"a..b=3", "empty part"},
      {"train.lr.x=3", "'train.lr' is not a section but '1'"},
      {"train.list.0=3", "'train.list' is not a section but a list"},
      {"a=[1", "'['"},
      {"a={b: 1, b: 2}", "twice"},
      {"a='x", "never closed"},
  };
  for (const auto& [text, words] : cases) {
    const std::vector<std::string> overrides = {text};
    const auto error = expect_error(ErrorKind::config, {words, "override '" + text + "'"},
                                    [&] { parse_config("train:\n  lr: 1\n  list: [1]\n", "run.yaml", overrides); });
    if (error) {
      EXPECT_EQ(error->position().line, 0) << error->what();
    }
  }
}

TEST(ConfigSource, RefusesAFileThatIsNoSection) {
  expect_error(ErrorKind::config, {"key: value", "a list", "run.yaml"}, [] { parse_config("- 1\n", "run.yaml"); });
  expect_error(ErrorKind::config, {"key: value", "'words'"}, [] { parse_config("words\n", "run.yaml"); });
}

TEST(ConfigSource, ReadsAFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "run.yaml";
  std::ofstream(path) << "a: 1\nb: 2\n";
  const ConfigSource source = load_config(path);
  EXPECT_EQ(source.file, path.string());
  EXPECT_EQ(source.root.find("b")->position.line, 2);
  EXPECT_EQ(source.root.find("b")->position.file, path.string());
}

TEST(ConfigSource, NamesAFileThatCannotBeRead) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::config, {"/no/such.yaml", "No such file"}, [] { load_config("/no/such.yaml"); });
  expect_error(ErrorKind::config, {folder.path().c_str(), "folder"}, [&] { load_config(folder.path()); });
  const auto big = folder.path() / "big.yaml";
  std::ofstream(big) << "a: 1\n";
  std::filesystem::resize_file(big, 1u << 30);
  expect_error(ErrorKind::config, {big.c_str(), "1073741824"}, [&] { load_config(big); });
  expect_error(ErrorKind::config, {"/dev/zero", "more than 16777216 bytes"}, [] { load_config("/dev/zero"); });
}

}  // namespace
}  // namespace lockstep
