#include <string>
#include <vector>

#include "base/expect_error.h"
#include "base/sample_config.h"

namespace lockstep {
namespace {

using test::expect_error;
using test::SampleConfig;

SampleConfig read(std::string_view text, const std::vector<std::string>& overrides = {}) {
  return read_config<SampleConfig>(parse_config(text, "run.yaml", overrides));
}

TEST(Config, FillsEveryKindOfField) {
  const SampleConfig c = read(
      "root: /data\nepochs: 7\nhidden: [1, 2, 3]\nmean: [0.5, 1, -2e-1]\nfiles: [a, 'b c', 3]\nseed: 0\nnote: yes\n"
      "shuffle: off\ntransforms: [Crop, {Pad: {by: 4}}]\n"
      "optimizer:\n  name: adam\n  lr: 1\n  momentum: 0\n  clip_norm: 2.5\n  nesterov: true\n  warmup: {steps: 9}\n");
  EXPECT_EQ(c.root, "/data");
  EXPECT_EQ(c.epochs, 7);
  EXPECT_EQ(c.hidden, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(c.mean, (std::vector<double>{0.5, 1, -0.2}));
  EXPECT_EQ(c.files, (std::vector<std::string>{"a", "b c", "3"}));
  EXPECT_EQ(c.seed, 0);
  EXPECT_EQ(c.note, "yes");
  EXPECT_EQ(c.shuffle, false);
  EXPECT_EQ(c.transforms.items.size(), 2u);
  EXPECT_EQ(c.optimizer, (test::SampleOptimizer{"adam", 1, 0, 2.5, true, test::SampleWarmup{9}}));
}

TEST(Config, AbsentKeysKeepTheirDefaults) {
  const SampleConfig c = read("root: x\noptimizer:\nhidden: []\n");
  EXPECT_EQ(c.epochs, 3);
  EXPECT_TRUE(c.hidden.empty());
  EXPECT_EQ(c.seed, std::nullopt);
  EXPECT_EQ(c.optimizer, test::SampleOptimizer{});
}

TEST(Config, NullEmptiesWhatMayBeEmpty) {
  SampleConfig c;
  c.seed = 3;
  c.note = "x";
  c.optimizer.warmup.emplace();
  read_config(parse_config("root: x\nseed: ~\nnote: null\noptimizer:\n  warmup: null\n", "run.yaml"), c);
  EXPECT_EQ(c.seed, std::nullopt);
  EXPECT_EQ(c.note, std::nullopt);
  EXPECT_EQ(c.optimizer.warmup, std::nullopt);
}

TEST(Config, NothingBehindTheSignOfAnOverrideIsTheEmptyText) {
  for (const auto* written : {"root=", "root=''", "root=\"\"", "root=~"}) {
    EXPECT_EQ(read("root: x\n", {written}).root, "") << written;
  }
  EXPECT_EQ(read("root: x\nseed: 3\n", {"seed="}).seed, std::nullopt);
  expect_error(ErrorKind::config, {"root: expected text, found nothing"}, [] { read("root:\n"); });
  expect_error(ErrorKind::config, {"epochs: expected an integer, found nothing"},
               [] { read("root: x\n", {"epochs="}); });
}

TEST(Config, AnEmptyOptionalSectionIsThere) {
  EXPECT_EQ(read("root: x\noptimizer: {warmup: {}}\n").optimizer.warmup, test::SampleWarmup{});
  EXPECT_EQ(read("root: x\n").optimizer.warmup, std::nullopt);
  EXPECT_EQ(read("root: x\n", {"optimizer.warmup.steps=2"}).optimizer.warmup, test::SampleWarmup{2});
}

struct BadConfig {
  std::string line;  ///< line 2 of the file
  std::vector<std::string_view> words;
};

TEST(Config, NamesPlaceRuleAndFixOfAMistake) {
  const std::vector<BadConfig> cases = {
      {"epochs: [1]", {"epochs", "expected an integer", "found a list"}},
      {"epochs: {a: 1}", {"expected an integer", "found a section"}},
      {"epochs: ten", {"expected an integer", "found 'ten'"}},
      {"epochs: 1.0", {"expected an integer", "found '1.0'", "write 1"}},
      {"epochs: 1e2", {"found '1e2'", "write 100"}},
      {"epochs: 1.5", {"expected an integer", "found '1.5'"}},
      {"epochs: 010", {"found '010'", "write 10 or 8", "octal"}},
      {"epochs: 08", {"found '08'", "write 8"}},
      {"epochs: 1_000", {"found '1_000'", "write 1000"}},
      {"epochs: 0x10", {"found '0x10'", "write 16"}},
      {"epochs: 0o17", {"found '0o17'", "write 15"}},
      {"optimizer: {lr: 1_0.5}", {"found '1_0.5'", "write 10.5"}},
      {"optimizer: {lr: 010}", {"found '010'", "write 10 or 8"}},
      {"epochs: '3'", {"the text \"3\"", "remove the quotes"}},
      {"epochs:", {"expected an integer", "found nothing", "leave the key out"}},
      {"epochs: 0", {"epochs: 0 is out of range", "from 1 to 1000"}},
      {"epochs: 1001", {"1001 is out of range"}},
      {"epochs: 99999999999999999999", {"expected an integer"}},
      {"hidden: 64", {"hidden: expected a list", "'64'", "write [64]"}},
      {"hidden: [1, x]", {"hidden[1]: expected an integer", "'x'"}},
      {"hidden: [1, 0]", {"hidden[1]: 0 is out of range", "at least 1"}},
      {"mean: [.nan]", {"mean[0]: expected a number", "'.nan'"}},
      {"mean: 3,5", {"expected a list"}},
      {"files: [[a]]", {"files[0]: expected text", "a list"}},
      {"seed: -1", {"-1 is out of range", "at least 0"}},
      {"note: [a]", {"note: expected text", "a list"}},
      {"shuffle: maybe", {"shuffle: expected true or false", "'maybe'"}},
      {"optimizer: adam", {"optimizer: expected a section", "'adam'"}},
      {"optimizer: {lr: 0}", {"optimizer.lr: 0 is out of range", "above 0"}},
      {"optimizer: {lr: fast}", {"optimizer.lr: expected a number", "'fast'"}},
      {"optimizer: {momentum: 1}", {"1 is out of range", "at least 0 and below 1"}},
      {"optimizer: {name: momentm}",
       {"optimizer.name: 'momentm' is not one of sgd, momentum, adam", "did you mean 'momentum'?"}},
      {"optimizer: {warmup: 3}", {"optimizer.warmup: expected a section", "'3'"}},
      {"optimizer: {warmup: {step: 3}}", {"'optimizer.warmup.step'", "did you mean 'steps'?"}},
      {"epoch: 3", {"no key 'epoch'", "did you mean 'epochs'?", "keys at the top: root, epochs, hidden"}},
      {"optimizer: {zzz: 3}", {"no key 'optimizer.zzz'", "keys of optimizer: name, lr, momentum"}},
  };
  for (const auto& bad : cases) {
    SCOPED_TRACE(bad.line);
    const auto error = expect_error(ErrorKind::config, {}, [&] { read("root: x\n" + bad.line + "\n"); });
    if (!error) continue;
    EXPECT_EQ(error->position().file, "run.yaml");
    EXPECT_EQ(error->position().line, 2);
    for (const auto word : bad.words) test::expect_words(error->what(), {word});
    test::expect_words(error->what(), {"(run.yaml:2)"});
  }
}

TEST(Config, NamesTheOverrideThatIsWrong) {
  expect_error(ErrorKind::config, {"[config] epochs: 0 is out of range", "(override 'epochs=0')"},
               [] { read("root: x\n", {"epochs=0"}); });
  expect_error(ErrorKind::config, {"no key 'optimiser'", "did you mean 'optimizer'?", "(override 'optimiser.lr=1')"},
               [] { read("root: x\n", {"optimiser.lr=1"}); });
}

TEST(Config, NamesAMisspeltKeyBeforeTheRequiredOneThatIsMissing) {
  const auto error = expect_error(ErrorKind::config, {"no key 'rooot'", "did you mean 'root'?", "root is missing"},
                                  [] { read("epochs: 3\nrooot: x\n"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->position().line, 2);
}

TEST(Config, TellsWhereAKeyOfAnotherSectionBelongs) {
  expect_error(ErrorKind::config, {"no key 'nesterov'; did you mean 'optimizer.nesterov'?"},
               [] { read("root: x\nnesterov: true\n"); });
}

TEST(Config, ManyMistakesAreCountedAndTheFirstTenShown) {
  std::string text = "root: x\n";
  for (int i = 0; i < 30; ++i) text += fmt::format("optimizer{0}: 1\nkey{0}: 1\n", i);
  const auto error = expect_error(ErrorKind::config, {"61 mistakes:", "run.yaml:2: ", "run.yaml:11: ", "and 51 more"},
                                  [&] { read(text, {"another=1"}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message().find("run.yaml:12"), std::string::npos) << error->message();
  EXPECT_EQ(error->message().find("another"), std::string::npos) << error->message();
  // All in one line, or all on the command line.
  std::string line = "{root: x";
  std::vector<std::string> overrides;
  for (int i = 0; i < 30; ++i) line += fmt::format(", key{}: 1", i);
  for (int i = 0; i < 30; ++i) overrides.push_back(fmt::format("key{}=1", i));
  expect_error(ErrorKind::config, {"30 mistakes:", "'key0'", "'key9'", "and 20 more"}, [&] { read(line + "}\n"); });
  expect_error(ErrorKind::config, {"30 mistakes:", "'key0'", "'key9'", "and 20 more"},
               [&] { read("root: x\n", overrides); });
}

TEST(Config, ARequiredKeyMustBeGiven) {
  expect_error(ErrorKind::config, {"root is missing", "folder of the data", "(run.yaml)"}, [] { read("epochs: 3\n"); });
}

TEST(Config, ReportsAllMistakesInTheOrderOfTheFile) {
  const auto error = expect_error(ErrorKind::config, {},
                                  [] { read("optimizer:\n  lr: x\n  nam: sgd\nepochs: 0\nroot: [1]\n", {"seed=-1"}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->position().line, 2);
  const std::string text = error->message();
  std::size_t last = 0;
  for (const auto* part : {"5 mistakes:", "run.yaml:2: optimizer.lr", "run.yaml:3: there is no key 'optimizer.nam'",
                           "run.yaml:4: epochs", "run.yaml:5: root", "override 'seed=-1': seed"}) {
    const auto found = text.find(part, last);
    EXPECT_NE(found, std::string::npos) << part << " is missing or too early in: " << text;
    if (found != std::string::npos) last = found;
  }
}

TEST(Config, ShowsTenMistakesAndCountsTheRest) {
  std::string text = "root: x\n";
  for (int i = 0; i < 13; ++i) text += fmt::format("unknown{}: 1\n", i);
  const auto error = expect_error(ErrorKind::config, {"13 mistakes", "'unknown9'", "and 3 more"}, [&] { read(text); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message().find("unknown10"), std::string::npos);
}

TEST(Config, AMistakeLeavesTheFieldAlone) {
  SampleConfig c;
  expect_error(ErrorKind::config, {"hidden[0]", "hidden[2]"},
               [&] { read_config(parse_config("root: x\nhidden: [0, 5, a]\nepochs: 9\n", "run.yaml"), c); });
  EXPECT_EQ(c.hidden, (std::vector<std::int64_t>{64, 32}));
  EXPECT_EQ(c.epochs, 9);
}

struct Crop {
  std::int64_t size = 0;
  std::int64_t padding = 0;
};

void describe(ConfigFields& fields, Crop& c) {
  fields.field("size", c.size, required(at_least(1)), "edge in pixels");
  fields.field("padding", c.padding, at_least(0), "zeros around");
}

TEST(Config, ListsOfNamesWithArguments) {
  const SampleConfig c =
      read("root: x\ntransforms:\n  - Crop: {size: 32,\n           pading: 4}\n  - Flip\n  - Crop:\n");
  const auto steps = read_named_list(c.transforms, "transforms");
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].name, "Crop");
  EXPECT_EQ(steps[0].position.line, 3);
  EXPECT_EQ(steps[1].name, "Flip");
  EXPECT_EQ(steps[1].arguments.kind, ConfigNode::Kind::null);
  EXPECT_EQ(steps[1].position.line, 5);
  expect_error(ErrorKind::config, {"'transforms[0].pading'", "did you mean 'padding'?", "(run.yaml:4)"},
               [&] { read_config<Crop>(steps[0].arguments, "transforms[0]"); });
  expect_error(ErrorKind::config, {"transforms[2].size is missing", "(run.yaml:6)"},
               [&] { read_config<Crop>(steps[2].arguments, "transforms[2]"); });
}

TEST(Config, RefusesOtherLists) {
  const std::vector<std::pair<std::string, std::string_view>> cases = {
      {"transforms: Crop", "transforms: expected a list"},
      {"transforms: [[Crop]]", "transforms[0]: expected a name"},
      {"transforms: [Flip, {Crop: {size: 1}, Pad: {by: 2}}]", "a section with 2 keys"},
      {"transforms: [Crop: 32]", "transforms[0]: expected the arguments of Crop"},
      {"transforms: [~]", "transforms[0]: expected a name"},
  };
  for (const auto& [line, words] : cases) {
    const SampleConfig c = read("root: x\n" + line + "\n");
    expect_error(ErrorKind::config, {words, "(run.yaml:2)"}, [&] { read_named_list(c.transforms, "transforms"); });
  }
  EXPECT_TRUE(read_named_list(read("root: x\n").transforms, "transforms").empty());
}

struct Width {
  std::int64_t width = 1;
};
void describe(ConfigFields& fields, Width& options) { fields.field("width", options.width, at_least(1), "of a layer"); }
struct Other : Width {};

TEST(PartOptions, AnotherTypeIsAnErrorWithBothTypes) {
  const auto options = PartOptions::of(Width{3}, "net");
  EXPECT_EQ(options.as<Width>().width, 3);
  expect_error(ErrorKind::invalid_argument, {"'net'", "Width", "Other"}, [&] { options.as<Other>(); });
  expect_error(ErrorKind::invalid_argument, {"has no options", "Width"}, [&] { PartOptions().as<Width>(); });
}

/// As values that a program has set.
TEST(Config, ChecksValuesByTheRulesOfTheirKeys) {
  const auto check = [](SampleConfig config) { check_fields([&](ConfigFields& fields) { describe(fields, config); }); };
  auto good = read("root: x\n");
  EXPECT_NO_THROW(check(good));
  auto bad = good;
  bad.root = "";
  bad.epochs = -1;
  expect_error(ErrorKind::config, {"2 mistakes", "epochs: ", "root is missing"}, [&] { check(bad); });
  bool flag = true;
  expect_error(ErrorKind::config, {"shuffle is a key of its section and an option of the part"}, [&] {
    check_fields([&](ConfigFields& fields) {
      fields.field("shuffle", flag, anything(), "");
      fields.field("shuffle", flag, anything(), "");
    });
  });
}

}  // namespace
}  // namespace lockstep
