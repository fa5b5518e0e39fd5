#include <lockstep/base/parse.h>
#include <lockstep/cli/flag_names.h>
#include <lockstep/cli/pet_defaults.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>

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

/// Whether `text` (with dashes) has "--flag" as a whole word.
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
  // Where an error says which flag it is about, its text need not.
  const std::string text = with_dashes("--" + error.where() + " " + error.message());
  return {error.kind(), error.where(), error.message() + sources(text, defaults), error.position()};
}

}  // namespace lockstep::cli
