// Configurations of several files: the key `base`.
#include <lockstep/base/config.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/yaml_text.h>

#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/expect_error.h"
#include "base/sample_config.h"

namespace lockstep {
namespace {

using test::expect_error;

class ConfigFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const auto path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string merged(const std::string& name) const { return print_yaml_flow(load_config(path(name)).root); }

  TemporaryFolder folder_;
};

TEST_F(ConfigFiles, AFileCountsMoreThanItsBases) {
  write("common/sgd.yaml", "optimizer:\n  name: momentum\n  lr: 0.1\n  betas: [0.9, 0.99]\n");
  write("common/long.yaml", "optimizer: {lr: 0.2}\ntrain: {epochs: 90}\n");
  write("runs/run.yaml", "base: [../common/sgd.yaml, ../common/long.yaml]\noptimizer: {betas: [0.5]}\nname: x\n");
  EXPECT_EQ(merged("runs/run.yaml"),
            "{optimizer: {name: momentum, lr: 0.2, betas: [0.5]}, train: {epochs: 90}, name: x}");
}

TEST_F(ConfigFiles, OneBaseNeedsNoList) {
  write("a.yaml", "x: 1\n");
  write("b.yaml", "base: a.yaml\ny: 2\n");
  write("c.yaml", "base: " + path("b.yaml") + "\nz: 3\n");
  EXPECT_EQ(merged("c.yaml"), "{x: 1, y: 2, z: 3}");
  EXPECT_EQ(load_config(path("c.yaml")).files,
            (std::vector<std::string>{path("a.yaml"), path("b.yaml"), path("c.yaml")}));
  write("none.yaml", "base:\ny: 2\n");
  EXPECT_EQ(merged("none.yaml"), "{y: 2}");
}

TEST_F(ConfigFiles, AnyValueButAMapTakesThePlaceOfTheOneBefore) {
  write("a.yaml", "one: {a: 1}\ntwo: [1, 2]\nthree: 3\nfour: {a: {b: 1, c: 2}}\n");
  write("b.yaml", "base: a.yaml\none: ~\ntwo: [3]\nthree: {x: 1}\nfour: {a: {b: 7}}\n");
  EXPECT_EQ(merged("b.yaml"), "{one: ~, two: [3], three: {x: 1}, four: {a: {b: 7, c: 2}}}");
}

TEST_F(ConfigFiles, KeysOfABaseAreForWhatTheBaseNames) {
  write("a.yaml", "root: x\noptimizer: {name: adam, beta: 0.9}\n");
  write("b.yaml", "base: a.yaml\noptimizer: {name: sgd}\n");
  const auto words = "optimizer.name is sgd by " + path("b.yaml") + ":2";
  expect_error(ErrorKind::config, {"no key 'optimizer.beta'", words, "a base file that has no section optimizer"},
               [&] { read_config<test::SampleConfig>(load_config(path("b.yaml"))); });
  const std::vector<std::string> override = {"optimizer.name=sgd"};
  expect_error(ErrorKind::config, {"optimizer.name is sgd by override 'optimizer.name=sgd'"},
               [&] { read_config<test::SampleConfig>(load_config(path("a.yaml"), override)); });
  write("c.yaml", "base: d.yaml\noptimizer: {momentun: 0.9}\n");
  write("d.yaml", "root: x\noptimizer: {name: sgd}\n");
  expect_error(ErrorKind::config, {"no key 'optimizer.momentun'", "did you mean 'momentum'"},
               [&] { read_config<test::SampleConfig>(load_config(path("c.yaml"))); });
}

TEST_F(ConfigFiles, TwoBasesMayShareOne) {
  write("a.yaml", "x: 1\n");
  write("b.yaml", "base: a.yaml\nx: 2\n");
  write("c.yaml", "base: a.yaml\n");
  write("d.yaml", "base: [b.yaml, c.yaml]\n");
  EXPECT_EQ(merged("d.yaml"), "{x: 1}");
}

TEST_F(ConfigFiles, ValuesKeepTheirPlace) {
  const auto base = write("a.yaml", "x:\n  y: 1\n");
  const auto file = write("b.yaml", "base: a.yaml\nx:\n  z: 1\n");
  const std::vector<std::string> overrides = {"x.w=1"};
  const auto source = load_config(file, overrides);
  const auto* x = source.root.find("x");
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->find("y")->position.file, base);
  EXPECT_EQ(x->find("y")->position.line, 2);
  EXPECT_EQ(x->find("z")->position.file, file);
  EXPECT_EQ(describe_origins(source), "# configuration: " + base + ", then " + file + "\n# " + base + " gives x.y\n# " +
                                          file + " gives x.z\n# the command line gives x.w\n");
  EXPECT_EQ(describe_origins(load_config(base)), "");
}

TEST_F(ConfigFiles, AFileCannotBuildOnItself) {
  const auto a = write("a.yaml", "\nbase: [b.yaml]\n");
  const auto b = write("b.yaml", "base: ./sub/../a.yaml\n");
  std::filesystem::create_directories(folder_.path() / "sub");
  expect_error(ErrorKind::config, {b + ":1", "cannot be its own base", a + " -> " + b + " -> " + a},
               [&] { load_config(a); });
  const auto self = write("self.yaml", "x: 1\nbase: self.yaml\n");
  expect_error(ErrorKind::config, {self + ":2", self + " -> " + self}, [&] { load_config(self); });
}

TEST_F(ConfigFiles, NamesTheFileThatIsMissingAndTheChain) {
  const auto a = write("a.yaml", "x: 1\nbase:\n  - b.yaml\n");
  const auto b = write("b.yaml", "base: no.yaml\n");
  expect_error(ErrorKind::config, {b + ":1", "there is no file", "no.yaml", a + " -> " + b}, [&] { load_config(a); });
}

TEST_F(ConfigFiles, RefusesBadBases) {
  write("words.yaml", "words\n");
  write("broken.yaml", "a: [1\n");
  std::filesystem::create_directories(folder_.path() / "folder");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"base: {a: b}\n", "expected the name of a file, or a list of such names"},
      {"base: [[a]]\n", "found a list"},
      {"base: ['']\n", "found the text"},
      {"base: folder\n", "is a folder"},
      {"base: words.yaml\n", "words.yaml:1"},
      {"base: broken.yaml\n", "broken.yaml:"},
      {"base: /dev/zero\n", "not a configuration file"},
      {"_base_: words.yaml\n", "here it is called 'base'"},
  };
  for (const auto& [text, words] : cases) {
    const auto file = write("run.yaml", text);
    expect_error(ErrorKind::config, {words}, [&] { load_config(file); });
  }
  const auto run = write("run.yaml", "x: 1\n");
  const std::vector<std::string> overrides = {"base=a.yaml"};
  expect_error(ErrorKind::config, {"override 'base=a.yaml'", "key for files"}, [&] { load_config(run, overrides); });
}

TEST_F(ConfigFiles, DoublingBasesEnd) {
  write("0.yaml", "x: 1\n");
  for (int i = 1; i < 30; ++i) {
    const auto below = std::to_string(i - 1) + ".yaml";
    write(std::to_string(i) + ".yaml", "base: [" + below + ", " + below + "]\n");
  }
  expect_error(ErrorKind::config, {"more than 64 files"}, [&] { load_config(path("29.yaml")); });
}

}  // namespace
}  // namespace lockstep
