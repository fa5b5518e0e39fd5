#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/cli/flag_names.h>
#include <lockstep/cli/run_line.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string_view>

namespace lockstep::cli {
namespace {

struct Flag {
  const CLI::Option* option;
  std::optional<std::string> value;  ///< in the same word
};

std::string long_name(const CLI::Option& option) { return "--" + option.get_lnames().front(); }

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

[[noreturn]] void refuse_unknown(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) names.push_back(long_name(*option));
  fail(ErrorKind::invalid_argument, command.get_name(), "there is no option '{}'{}; see 'lockstep {} --help'", word,
       did_you_mean(word, names), command.get_name());
}

/// The option whose long name is `name`, else the only one that begins so.
const CLI::Option* find_long(const CLI::App& command, const std::string& word, const std::string& name) {
  std::vector<const CLI::Option*> candidates;
  for (const CLI::Option* option : command.get_options()) {
    bool begins = false;
    for (const std::string& own : option->get_lnames()) {
      if (with_dashes(own) == name) return option;
      begins = begins || with_dashes(own).starts_with(name);
    }
    if (begins) candidates.push_back(option);
  }
  if (candidates.empty() || name.empty()) refuse_unknown(command, word);
  if (candidates.size() == 1) return candidates.front();
  std::vector<std::string> names;
  names.reserve(candidates.size());
  for (const CLI::Option* option : candidates) names.push_back(long_name(*option));
  fail(ErrorKind::invalid_argument, command.get_name(), "'{}' could be {}; write more of it", word,
       fmt::join(names, " or "));
}

Flag read_long(const CLI::App& command, const std::string& word) {
  const auto equals = word.find('=');
  const std::string name = word.substr(0, equals);
  Flag flag{find_long(command, name, with_dashes(name).substr(2)), std::nullopt};
  if (equals != std::string::npos) flag.value = word.substr(equals + 1);
  return flag;
}

Flag read_short(const CLI::App& command, const std::string& word) {
  const CLI::Option* option = word.size() < 2 ? nullptr : command.get_option_no_throw(word.substr(0, 2));
  if (option == nullptr || (word.size() > 2 && !takes_value(*option))) refuse_unknown(command, word);
  Flag flag{option, std::nullopt};
  if (word.size() > 2) flag.value = word.substr(word[2] == '=' ? 3 : 2);
  return flag;
}

/// The word behind a flag.
std::string next_value(const CLI::App& command, const std::vector<std::string>& words, std::size_t& next) {
  if (next == words.size() || words[next].starts_with("--")) {
    fail(ErrorKind::invalid_argument, command.get_name(), "'{}' needs a value; see 'lockstep {} --help'",
         words[next - 1], command.get_name());
  }
  return words[next++];
}

/// One word with "=" where there can be one: a value may begin with a dash, but not be empty in that form.
void spell(const Flag& flag, std::vector<std::string>& words) {
  const std::string name = long_name(*flag.option);
  if (!flag.value) {
    words.push_back(name);
  } else if (!flag.value->empty()) {
    words.push_back(name + "=" + *flag.value);
  } else {
    words.insert(words.end(), {name, ""});
  }
}

}  // namespace

RunLine read_run_line(const CLI::App& command, const std::vector<std::string>& words) {
  RunLine line;
  std::size_t next = 0;
  while (next < words.size() && words[next].starts_with('-') && words[next] != "--") {
    const std::string& word = words[next++];
    Flag flag = word.starts_with("--") ? read_long(command, word) : read_short(command, word);
    if (takes_value(*flag.option) && !flag.value) flag.value = next_value(command, words, next);
    spell(flag, line.flags);
    line.given.push_back(flag.option);
  }
  if (next < words.size() && words[next] == "--") ++next;
  line.program.assign(words.begin() + static_cast<std::ptrdiff_t>(next), words.end());
  return line;
}

}  // namespace lockstep::cli
