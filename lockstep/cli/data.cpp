// `lockstep data`: makes and checks data sets.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/cli/command.h>
#include <lockstep/data/check.h>
#include <lockstep/data/pictures.h>
#include <lockstep/data/synthesize.h>
#include <lockstep/train/config.h>
#include <lockstep/train/evaluation/check_data.h>
#include <lockstep/train/resolved_run.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr std::string_view kCriteo = "criteo";

struct SynthesizeArguments {
  std::string name;
  std::string out;
  std::optional<std::string> train;
  std::optional<std::string> test;
  std::optional<std::string> rows;
  std::optional<std::string> scale;
  std::string seed = "1";
};

std::int64_t whole_number(const std::string& option, const std::string& text) {
  const auto value = parse_integer(text);
  if (!value || *value < 0) {
    fail(ErrorKind::invalid_argument, "data", "{} must be a whole number of at least 0; got '{}'", option, text);
  }
  return *value;
}

void refuse_option(const SynthesizeArguments& arguments, std::string_view option, bool given,
                   std::string_view instead) {
  if (!given) return;
  fail(ErrorKind::invalid_argument, "data", "{} has no {}; {}", arguments.name, option, instead);
}

int synthesize_clicks(const SynthesizeArguments& arguments) {
  refuse_option(arguments, "--train", arguments.train.has_value(), "give the number of rows by --rows");
  data::CriteoRecipe recipe;
  if (arguments.rows) recipe.rows = whole_number("--rows", *arguments.rows);
  recipe.test_rows =
      arguments.test ? whole_number("--test", *arguments.test) : std::max<std::int64_t>(1, recipe.rows / 5);
  recipe.seed = static_cast<std::uint64_t>(whole_number("--seed", arguments.seed));
  if (arguments.scale) {
    const auto scale = parse_number(*arguments.scale);
    if (!scale) {
      fail(ErrorKind::invalid_argument, "data", "--scale must be a number such as 0.01; got '{}'", *arguments.scale);
    }
    recipe.scale = *scale;
  }
  const auto teacher = data::synthesize_criteo(arguments.out, recipe);
  fmt::print(
      "{}: wrote {} train and {} test rows in Criteo's format (synthetic, scale {}, seed {}); AUC of the hidden "
      "teacher on the test rows: {:.4f}\n",
      arguments.out, recipe.rows, recipe.test_rows, recipe.scale, recipe.seed, teacher.test_auc);
  return kOk;
}

int synthesize(const SynthesizeArguments& arguments) {
  if (arguments.name == kCriteo) return synthesize_clicks(arguments);
  refuse_option(arguments, "--rows", arguments.rows.has_value(), "give the number of pictures by --train");
  refuse_option(arguments, "--scale", arguments.scale.has_value(), "only criteo has it");
  const std::int64_t train = whole_number("--train", arguments.train.value_or("5000"));
  const std::int64_t test = whole_number("--test", arguments.test.value_or("1000"));
  const std::int64_t seed = whole_number("--seed", arguments.seed);
  data::synthesize(arguments.name, arguments.out, train, test, static_cast<std::uint64_t>(seed));
  fmt::print("{}: wrote {} train and {} test pictures in {}'s layout (synthetic, seed {})\n", arguments.out, train,
             test, arguments.name, seed);
  return kOk;
}

void add_synthesize(CLI::App& data, Action& chosen) {
  CLI::App* command = data.add_subcommand("synthesize", "Make learnable data in a data set's exact file layout");
  const auto arguments = std::make_shared<SynthesizeArguments>();
  command
      ->add_option(
          "NAME", arguments->name,
          fmt::format("Which layout: {} (pictures), or {} (clicks)", fmt::join(data::dataset_names(), ", "), kCriteo))
      ->required()
      ->type_name("");
  command
      ->add_option("--out", arguments->out, "The folder to write; files of a real data set there are not overwritten")
      ->required()
      ->type_name("DIR");
  command->add_option("--train", arguments->train, "Train pictures [5000]")->type_name("N");
  command->add_option("--test", arguments->test, "Test pictures [1000], or test rows [a fifth of --rows]")
      ->type_name("N");
  command->add_option("--rows", arguments->rows, "criteo: train rows [100000]")->type_name("N");
  command
      ->add_option("--scale", arguments->scale,
                   "criteo: categories of each column, as a share of those of Kaggle's set [0.01]")
      ->type_name("X");
  command->add_option("--seed", arguments->seed, "The same seed makes the same bytes on every machine")
      ->type_name("S")
      ->capture_default_str();
  command->footer(
      "Example:\n"
      "  lockstep data synthesize cifar10 --out data/cifar10 --train 2000 --test 500\n"
      "  lockstep data synthesize criteo --out data/criteo --rows 100000 --scale 0.001");
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

struct CheckArguments {
  std::vector<std::string> words;  // a folder, or the overrides of `config`
  std::string name = "auto";
  std::string config;
};

int check_config(const CheckArguments& arguments, const KnownParts& parts) {
  const auto checked = train::check_data(train::load_run_config(arguments.config, arguments.words, parts));
  fmt::print("{}\n", train::to_text(checked));
  if (checked.problem_count() == 0) return kOk;
  std::fflush(stdout);
  fmt::print(stderr, "lockstep: error: [data] the data of {} cannot all be used; the problems are listed above\n",
             arguments.config);
  return kUsage;
}

int check_any(const CheckArguments& arguments, const KnownParts& parts) {
  if (!arguments.config.empty()) return check_config(arguments, parts);
  if (arguments.words.size() != 1) {
    fail(ErrorKind::invalid_argument, "data",
         "check takes the folder of a data set, or --config FILE with what to change in it; got {} words",
         arguments.words.size());
  }
  return check(arguments.name, arguments.words.front());
}

void add_check(CLI::App& data, const KnownParts& parts, Action& chosen) {
  CLI::App* command =
      data.add_subcommand("check", "Verify a data set's layout, sizes and labels, and report what is wrong where");
  const auto arguments = std::make_shared<CheckArguments>();
  // CLI11 2.4 rejects a name with '='.
  command
      ->add_option("DIR", arguments->words,
                   "The folder that holds the data set's files; with --config KEY=VALUE, which override it")
      ->type_name("");
  command
      ->add_option("--config", arguments->config,
                   "A run's configuration: read every sample of its data, of any data.name, as the run would")
      ->type_name("FILE");
  command
      ->add_option("--name", arguments->name,
                   fmt::format("Which data set: auto, {}", fmt::join(data::dataset_names(), ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  command->footer(
      "With --config each sample of training and evaluation is read and transformed as in the run, and the table "
      "shows\n"
      "what cannot be used and why, the samples of each class, and sizes.\n"
      "\n"
      "Exit code: 0 when all is well; with a folder 1 when files are damaged or missing, 2 when there is no data set;\n"
      "with --config 2 for all that is wrong.\n"
      "\n"
      "Examples:\n"
      "  lockstep data check data/cifar10\n"
      "  lockstep data check --config run.yaml data.root=/data/imagenet");
  command->callback([=, &chosen] { chosen = [=] { return check_any(*arguments, parts); }; });
}

}  // namespace

void add_data(CLI::App& app, const KnownParts& parts, Action& chosen) {
  CLI::App* command = app.add_subcommand("data", "Make a synthetic data set, or check one");
  command->require_subcommand(1);
  add_synthesize(*command, chosen);
  add_check(*command, parts, chosen);
}

}  // namespace lockstep::cli
