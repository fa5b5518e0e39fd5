// The text of a problem in a data set's files: file, record, broken rule.
#include <lockstep/data/problem.h>

namespace lockstep::data {

std::string to_text(const Problem& problem) {
  if (problem.record < 0) return fmt::format("{}: {}", problem.file.string(), problem.rule);
  return fmt::format("{}: record {} (counted from 0): {}", problem.file.string(), problem.record, problem.rule);
}

}  // namespace lockstep::data
