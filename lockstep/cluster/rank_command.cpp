// The words of a rank's command: Python before scripts and modules, --local-rank, and ${local_rank} replaced.
#include <lockstep/base/error.h>
#include <lockstep/base/process.h>
#include <lockstep/cluster/rank_command.h>

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace lockstep::cluster {
namespace {

bool needs_python(const std::string& program) {
  return program.ends_with(".py") && ::access(program.c_str(), R_OK) == 0 && ::access(program.c_str(), X_OK) != 0;
}

/// The words before the program's name.
std::vector<std::string> interpreter_of(const RankProgram& program, const Environment& environment) {
  const bool detected = program.kind == ProgramKind::detect && needs_python(program.command.front());
  if (program.kind == ProgramKind::executable || (program.kind == ProgramKind::detect && !detected)) return {};
  std::vector<std::string> words = {find(environment, "PYTHON_EXEC").value_or("python3"), "-u"};
  if (program.kind == ProgramKind::module) words.emplace_back("-m");
  return words;
}

/// "#!/usr/bin/env python3", for example.
bool names_python_first(const std::string& program) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(program, ignored)) return false;
  std::ifstream file(program);
  std::array<char, 128> first{};
  file.read(first.data(), first.size());
  const std::string_view text(first.data(), static_cast<std::size_t>(file.gcount()));
  return text.starts_with("#!") && text.substr(0, text.find('\n')).find("python") != std::string_view::npos;
}

}  // namespace

std::string replace_macros(std::string_view text, const Macros& macros) {
  std::string result;
  while (true) {
    const auto start = text.find("${");
    const auto end = start == std::string_view::npos ? start : text.find('}', start);
    if (end == std::string_view::npos) return result.append(text);
    const auto macro = macros.find(text.substr(start + 2, end - start - 2));
    if (macro == macros.end()) {
      result.append(text.substr(0, start + 2));
      text.remove_prefix(start + 2);
      continue;
    }
    result.append(text.substr(0, start)).append(macro->second);
    text.remove_prefix(end + 1);
  }
}

bool is_python(const RankProgram& program, const Environment& environment) {
  if (program.kind == ProgramKind::module || program.kind == ProgramKind::script) return true;
  const std::string& name = program.command.front();
  if (name.ends_with(".py")) return true;
  try {
    return names_python_first(lockstep::detail::find_program(name, environment));
  } catch (const Error&) {
    return false;  // no such program; the start reports the error
  }
}

std::vector<std::string> command_of_rank(const RankProgram& program, int local_rank, const Environment& environment) {
  if (program.command.empty()) fail(ErrorKind::invalid_argument, "launch", "no program to run");
  const Macros macros = {{"local_rank", std::to_string(local_rank)}};
  std::vector<std::string> words = interpreter_of(program, environment);
  words.push_back(program.command.front());
  if (!program.local_rank_option.empty()) {
    words.push_back(fmt::format("--{}={}", program.local_rank_option, local_rank));
  }
  for (std::size_t i = 1; i < program.command.size(); ++i) words.push_back(replace_macros(program.command[i], macros));
  return words;
}

}  // namespace lockstep::cluster
