// Flags of MMEngine's and MindOCR's scripts, translated into overrides KEY=VALUE; misplaced flags are refused.
#include <lockstep/base/error.h>
#include <lockstep/base/foreign_words.h>
#include <lockstep/runner/foreign_arguments.h>
#include <lockstep/train/keys/refused_words.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <string_view>

namespace lockstep::runner {
namespace {

constexpr const char* kGroup = "Flags of MMEngine and MindOCR (docs/coming_from.md)";

void warn(const std::string& words) {
  fmt::print(stderr, "warning: unknown and ignored (--ignore-unknown): {}\n", words);
}

/// The Lockstep names of the flags among `words`, as the end of a message: "; here it is called 'system.seed'
/// (--seed)".
std::string meant_by(const std::vector<std::string>& words) {
  for (const auto& word : words) {
    if (!word.starts_with("--")) continue;
    const auto flag = word.substr(0, word.find('='));
    const auto meant = here_instead_of(flag.substr(2), {}, train::refused_words());
    if (!meant.empty()) return fmt::format("{} ({})", meant, flag);
  }
  return "";
}

/// Errors for keys with dashes, and for launcher flags after the program that it starts.
void refuse_misplaced(const std::string& command, const std::string& word) {
  if (!word.starts_with("--")) return;
  auto name = word.substr(2, word.find('=') - 2);
  if (name.find('.') != std::string::npos) {
    fail(ErrorKind::invalid_argument, command, "{} is a key of the configuration, and keys have no dashes; write {}{}",
         word, word.substr(2), word.find('=') == std::string::npos ? "=VALUE" : "");
  }
  constexpr std::array<std::string_view, 9> kLaunchers{"nproc-per-node", "nnodes",      "node-rank",
                                                       "rdzv-backend",   "rdzv-id",     "rdzv-endpoint",
                                                       "master-addr",    "master-port", "max-restarts"};
  std::ranges::replace(name, '_', '-');
  if (std::ranges::find(kLaunchers, name) == kLaunchers.end()) return;
  fail(ErrorKind::invalid_argument, command,
       "{} is a flag of the launcher, and belongs before the program: lockstep run {} ... lockstep train ...", word,
       word);
}

/// A shell splits `train.epochs = 3` into three arguments.
void refuse_blanks(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with('=')) continue;
    const auto key = i > 0 ? words[i - 1] : std::string("KEY");
    const auto value = words[i].size() > 1 ? words[i].substr(1) : i + 1 < words.size() ? words[i + 1] : "VALUE";
    fail(ErrorKind::invalid_argument, "train", "there are blanks around the = of {0}; write {0}={1}", key, value);
  }
}

bool is_key_value(const std::string& word) { return word.find('=') != std::string::npos; }

}  // namespace

void add_foreign_options(CLI::App& app, ForeignArguments& arguments) {
  app.add_option("--cfg-options,--opt,-o", arguments.options, "KEY=VALUE, as above")
      ->type_name("KEY=VALUE")
      ->group(kGroup);
  app.add_option("--work-dir,--work_dir", arguments.work_dir, "The same as system.work_dir=DIR")
      ->type_name("DIR")
      ->group(kGroup);
  app.add_option("--resume", arguments.resume, "Continues from the newest checkpoint, or from checkpoint.resume=FILE")
      ->type_name("FILE")
      ->expected(0, 1)
      ->group(kGroup);
  app.add_flag("--auto-scale-lr,--auto_scale_lr", arguments.scales_lr, "The same as auto_scale_lr.enable=true")
      ->group(kGroup);
  app.add_option("--local-rank,--local_rank", arguments.local_rank, "Ignored: a launcher's variables set it")
      ->type_name("N")
      ->group(kGroup);
  app.add_flag("--ignore-unknown,--ignore_unknown", arguments.ignores_unknown,
               "Ignores arguments that a platform adds (--data_url=...), with a warning")
      ->group(kGroup);
  app.allow_extras();
  app.parse_complete_callback([&app, &arguments] {
    arguments.resumes = app.count("--resume") > 0;
    const auto unknown = app.remaining();
    if (unknown.empty()) return;
    if (!arguments.ignores_unknown) {
      for (const auto& word : unknown) refuse_misplaced(app.get_name(), word);
      const CLI::ExtrasError error(app.get_name(), unknown);
      throw CLI::ExtrasError(error.what() + meant_by(unknown), CLI::ExitCodes::ExtrasError);
    }
    warn(fmt::format("{}", fmt::join(unknown, " ")));
  });
}

std::vector<std::string> with_foreign(const std::vector<std::string>& overrides, const ForeignArguments& arguments) {
  refuse_blanks(overrides);
  std::vector<std::string> all;
  for (const auto& word : overrides) {
    if (!arguments.ignores_unknown || is_key_value(word)) {
      all.push_back(word);
    } else {
      warn(word);
    }
  }
  all.insert(all.end(), arguments.options.begin(), arguments.options.end());
  if (!arguments.work_dir.empty()) all.push_back("system.work_dir=" + arguments.work_dir);
  if (arguments.scales_lr) all.push_back("auto_scale_lr.enable=true");
  if (arguments.resumes) {
    const auto file = arguments.resume.empty() ? std::string() : arguments.resume.front();
    if (is_key_value(file)) all.push_back(file);
    all.push_back("checkpoint.resume=" + (file.empty() || is_key_value(file) ? "auto" : file));
  }
  return all;
}

}  // namespace lockstep::runner
