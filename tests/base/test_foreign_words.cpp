// A reader that is given words of other programs, and what it says about them.
#include <lockstep/base/config_reader.h>
#include <lockstep/base/nearest.h>

#include <gtest/gtest.h>

#include <array>

#include "base/expect_error.h"
#include "base/sample_config.h"

namespace lockstep::test {
namespace {

constexpr std::array<ForeignWord, 4> kKeys{{{"learning_rate", "optimizer.lr"},
                                            {"batch_size", "data.batch_size"},
                                            {"optimizer.rule", "optimizer.name"},
                                            {"eval.*", "here nothing is evaluated; remove the section"}}};
constexpr std::array<ForeignWord, 3> kValues{
    {{"SGDMomentum", "momentum"}, {"SGDMomentum", "sgd"}, {"graph", "there are no graphs; remove it"}}};
constexpr ForeignWords kWords{.keys = kKeys, .values = kValues};

void read(const std::string& line) {
  SampleConfig config;
  read_fields(parse_config("root: x\n" + line + "\n", "run.yaml").root, "", kWords,
              [&](ConfigFields& fields) { describe(fields, config); });
}

TEST(ForeignWords, AReaderTranslatesThoseThatItIsGiven) {
  const std::vector<std::pair<std::string, std::string_view>> cases = {
      {"optimizer: {learning_rate: 1}", "no key 'optimizer.learning_rate'; here it is called 'optimizer.lr' (keys of"},
      {"Learning-Rate: 1", "no key 'Learning-Rate'; here it is called 'optimizer.lr' (keys at the top"},
      {"optimizer: {rule: sgd}", "no key 'optimizer.rule'; here it is called 'optimizer.name' (keys of"},
      {"eval: {every: 1}", "no key 'eval'; here nothing is evaluated; remove the section (keys at the top"},
      {"optimizer: {name: sgd_momentum}",
       "'sgd_momentum' is not one of sgd, momentum, adam; here it is called 'momentum'"},
      {"optimizer: {name: GRAPH}", "'GRAPH' is not one of sgd, momentum, adam; there are no graphs; remove it"},
  };
  for (const auto& [line, words] : cases) {
    SCOPED_TRACE(line);
    expect_error(ErrorKind::config, {words}, [&, &text = line] { read(text); });
  }
}

TEST(ForeignWords, OfKeysThatTheConfigurationDoesNotHaveNothingIsSaid) {
  expect_error(ErrorKind::config, {"no key 'batchSize' (keys at the top"}, [] { read("batchSize: 1"); });
  EXPECT_EQ(here_instead_of("batchSize", {}, kWords), "; here it is called 'data.batch_size'") << "all keys are known";
  const std::vector<std::string> choices = {"sgd", "adam"};
  EXPECT_EQ(value_here("sgd_momentum", choices, kWords), "; here it is called 'sgd'") << "the first that is a choice";
  EXPECT_EQ(value_here("other", choices, kWords), "");
}

}  // namespace
}  // namespace lockstep::test
