#include <lockstep/train/sharded/all_or_none.h>

#include <lockstep/comm/texts.h>

#include <fmt/format.h>

namespace lockstep::train {

std::optional<Error> problem_of(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorKind::io, "sharded checkpoint", error.what());
  }
}

void all_or_none(const Group* group, const std::optional<Error>& problem) {
  std::vector<std::string> problems;
  if (group) {
    // The kind as one character before the text.
    const char kind = problem ? static_cast<char>('a' + static_cast<int>(problem->kind())) : ' ';
    problems = gather_texts(problem ? kind + std::string(problem->what()) : std::string(), *group);
  }
  if (problem) throw *problem;
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    if (problems[rank].empty()) continue;
    throw Error(static_cast<ErrorKind>(problems[rank].front() - 'a'), "sharded checkpoint",
                fmt::format("rank {}: {}", rank, problems[rank].substr(1)));
  }
}

}  // namespace lockstep::train
