// Errors as text gathered from all ranks: each rank throws its own error, or else that of the first rank with one.
#include <lockstep/state/sharded/all_or_none.h>

#include <lockstep/comm/texts.h>

#include <fmt/format.h>

namespace lockstep::state {

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

// The kind as one character before the text.
std::string problem_text(const std::optional<Error>& problem) {
  if (!problem) return {};
  return static_cast<char>('a' + static_cast<int>(problem->kind())) + std::string(problem->what());
}

void throw_problems(const std::optional<Error>& own, const std::vector<std::string>& texts) {
  if (own) throw *own;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    throw Error(static_cast<ErrorKind>(texts[rank].front() - 'a'), "sharded checkpoint",
                fmt::format("rank {}: {}", rank, texts[rank].substr(1)));
  }
}

void all_or_none(const Group* group, const std::optional<Error>& problem) {
  throw_problems(problem, group ? gather_texts(problem_text(problem), *group) : std::vector<std::string>());
}

}  // namespace lockstep::state
