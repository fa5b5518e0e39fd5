// A pass before CLI11: flags in all their spellings, PROGRAM split off, and PET_ variables as defaults of flags.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/cli/run_line.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep::cli {
namespace {

/// torchrun's flags without a variable.
constexpr std::array<std::string_view, 3> kExempt = {"logs-specs", "numa-binding", "use-env"};

bool is_on(const std::string& variable, const std::string& value) {
  const auto number = parse_integer(value);
  if (!number) {
    fail(ErrorKind::environment, "run", "{}={} must be an integer: 0 is off, any other is on", variable, value);
  }
  return *number != 0;
}

/// Whether `text` (with dashes) contains "--flag" as a whole word.
bool mentions(std::string_view text, const std::string& flag) {
  const std::string word = "--" + flag;
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const auto end = at + word.size();
    if (end == text.size() || (std::isalnum(static_cast<unsigned char>(text[end])) == 0 && text[end] != '-'))
      return true;
  }
  return false;
}

std::string sources(std::string_view text, std::span<const PetDefault> defaults) {
  std::vector<std::string> found;
  for (const PetDefault& one : defaults) {
    if (mentions(text, with_dashes(one.flag))) found.push_back(fmt::format("{}={}", one.variable, one.value));
  }
  return found.empty() ? "" : fmt::format(" (from {})", fmt::join(found, ", "));
}

struct Flag {
  const CLI::Option* option;
  std::optional<std::string> value;  ///< in the same argument
};

std::string long_name(const CLI::Option& option) { return "--" + option.get_lnames().front(); }

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

[[noreturn]] void refuse_unknown(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) names.push_back(long_name(*option));
  fail(ErrorKind::invalid_argument, command.get_name(), "there is no option '{}'{}", word,
       did_you_mean(word, names, fmt::format("see 'lockstep {} --help'", command.get_name())));
}

/// The option with the long name `name`, else the only option whose name begins with it.
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

/// The argument after a flag.
std::string next_value(const CLI::App& command, const std::vector<std::string>& words, std::size_t& next) {
  if (next == words.size() || words[next].starts_with("--")) {
    fail(ErrorKind::invalid_argument, command.get_name(), "'{}' needs a value; see 'lockstep {} --help'",
         words[next - 1], command.get_name());
  }
  return words[next++];
}

/// The value of a flag that may lack it: a port, alone or after a host. Any other word is the next flag or PROGRAM.
std::string value_if_port(const std::vector<std::string>& words, std::size_t& next) {
  return next < words.size() && parse_listening_address(words[next]) ? words[next++] : "0";
}

/// Writes one argument with "=" if possible: in this form a value may begin with a dash, but must not be empty.
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

std::string pet_variable_of(const CLI::App& command, const CLI::Option& option) {
  if (&option == command.get_help_ptr() || option.get_lnames().empty()) return "";
  std::string name = with_dashes(option.get_lnames().front());
  if (std::find(kExempt.begin(), kExempt.end(), name) != kExempt.end()) return "";
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return "PET_" + name;
}

std::vector<PetDefault> apply_pet_defaults(CLI::App& command, std::span<const CLI::Option* const> given,
                                           const Environment& environment) {
  const auto on_command_line = [&](const CLI::Option* option) {
    return std::find(given.begin(), given.end(), option) != given.end();
  };
  std::vector<PetDefault> defaults;
  if (on_command_line(command.get_help_ptr())) return defaults;
  for (CLI::Option* option : command.get_options({})) {
    const std::string variable = pet_variable_of(command, *option);
    const auto value = variable.empty() ? std::nullopt : find(environment, variable);
    if (!value || value->empty() || on_command_line(option)) continue;
    const bool takes_value = option->get_items_expected_max() > 0;
    if (!takes_value && !is_on(variable, *value)) continue;
    option->add_result(takes_value ? *value : "true");
    defaults.push_back({option->get_lnames().front(), variable, *value});
  }
  return defaults;
}

std::string name_variables(const std::string& message, std::span<const PetDefault> defaults) {
  return message + sources(with_dashes(message), defaults);
}

Error name_variables(const Error& error, std::span<const PetDefault> defaults) {
  // An error may name its flag in where() only, not in its text.
  const std::string text = with_dashes("--" + error.where() + " " + error.message());
  return {error.kind(), error.where(), error.message() + sources(text, defaults), error.position()};
}

RunLine read_run_line(const CLI::App& command, const std::vector<std::string>& words) {
  RunLine line;
  std::size_t next = 0;
  while (next < words.size() && words[next].starts_with('-') && words[next] != "--") {
    const std::string& word = words[next++];
    Flag flag = word.starts_with("--") ? read_long(command, word) : read_short(command, word);
    if (takes_value(*flag.option) && !flag.value) {
      const bool may_lack_it = flag.option->get_items_expected_min() == 0;
      flag.value = may_lack_it ? value_if_port(words, next) : next_value(command, words, next);
    }
    spell(flag, line.flags);
    line.given.push_back(flag.option);
  }
  if (next < words.size() && words[next] == "--") ++next;
  line.program.assign(words.begin() + static_cast<std::ptrdiff_t>(next), words.end());
  return line;
}

std::vector<PetDefault> prepare_launcher(CLI::App& app, std::vector<std::string>& arguments,
                                         std::vector<std::string>& program) {
  if (arguments.empty() || (arguments.front() != "run" && arguments.front() != "launch")) return {};
  CLI::App& command = *app.get_subcommand(arguments.front());
  RunLine line = read_run_line(command, {arguments.begin() + 1, arguments.end()});
  arguments.erase(arguments.begin() + 1, arguments.end());
  arguments.insert(arguments.end(), line.flags.begin(), line.flags.end());
  program = std::move(line.program);
  return apply_pet_defaults(command, line.given, current_environment());
}

}  // namespace lockstep::cli
