// `lockstep data`: makes and checks data sets.
#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/cli/command.h>
#include <lockstep/data/check.h>
#include <lockstep/data/dataset.h>
#include <lockstep/data/synthesize.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

namespace lockstep::cli {
namespace {

struct SynthesizeArguments {
  std::string name;
  std::string out;
  std::string train = "5000";
  std::string test = "1000";
  std::string seed = "1";
};

std::int64_t whole_number(const std::string& option, const std::string& text) {
  const auto value = parse_integer(text);
  if (!value || *value < 0) {
    fail(ErrorKind::invalid_argument, "data", "{} must be a whole number of at least 0; got '{}'", option, text);
  }
  return *value;
}

int synthesize(const SynthesizeArguments& arguments) {
  const std::int64_t train = whole_number("--train", arguments.train);
  const std::int64_t test = whole_number("--test", arguments.test);
  const std::int64_t seed = whole_number("--seed", arguments.seed);
  data::synthesize(arguments.name, arguments.out, train, test, static_cast<std::uint64_t>(seed));
  fmt::print("{}: wrote {} train and {} test pictures in {}'s layout (synthetic, seed {})\n", arguments.out, train,
             test, arguments.name, seed);
  return kOk;
}

void add_synthesize(CLI::App& data, Action& chosen) {
  CLI::App* command = data.add_subcommand("synthesize", "Make learnable pictures in a data set's exact file layout");
  const auto arguments = std::make_shared<SynthesizeArguments>();
  command
      ->add_option("NAME", arguments->name, fmt::format("Which layout: {}", fmt::join(data::dataset_names(), " or ")))
      ->required()
      ->type_name("");
  command
      ->add_option("--out", arguments->out, "The folder to write; files of a real data set there are not overwritten")
      ->required()
      ->type_name("DIR");
  command->add_option("--train", arguments->train, "Train pictures")->type_name("N")->capture_default_str();
  command->add_option("--test", arguments->test, "Test pictures")->type_name("N")->capture_default_str();
  command->add_option("--seed", arguments->seed, "The same seed makes the same bytes on every machine")
      ->type_name("S")
      ->capture_default_str();
  command->footer(
      "Example:\n"
      "  lockstep data synthesize cifar10 --out data/cifar10 --train 2000 --test 500");
  command->callback([=, &chosen] { chosen = [=] { return synthesize(*arguments); }; });
}

int check(const std::string& name, const std::string& folder) {
  const data::CheckReport report = data::check_dataset(name, folder);
  fmt::print("{}\n", data::to_text(report));
  if (report.ok()) return kOk;
  std::fflush(stdout);
  fmt::print(stderr, "lockstep: error: [data] {} is not a good {} data set; the problems are listed above\n", folder,
             report.dataset);
  return kFailed;
}

void add_check(CLI::App& data, Action& chosen) {
  struct CheckArguments {
    std::string folder;
    std::string name = "auto";
  };
  CLI::App* command =
      data.add_subcommand("check", "Verify a data set's layout, sizes and labels, and say what is wrong where");
  const auto arguments = std::make_shared<CheckArguments>();
  command->add_option("DIR", arguments->folder, "The folder that holds the data set's files")
      ->required()
      ->type_name("");
  command
      ->add_option("--name", arguments->name,
                   fmt::format("Which data set: auto, {}", fmt::join(data::dataset_names(), ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  command->footer("Exit code: 0 when all is well, 1 when files are damaged or missing, 2 when there is no data set.");
  command->callback([=, &chosen] { chosen = [=] { return check(arguments->name, arguments->folder); }; });
}

}  // namespace

void add_data(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("data", "Make a synthetic data set, or check one");
  command->require_subcommand(1);
  add_synthesize(*command, chosen);
  add_check(*command, chosen);
}

}  // namespace lockstep::cli
