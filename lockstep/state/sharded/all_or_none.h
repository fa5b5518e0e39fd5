// The exchange of errors between ranks: an error of one rank is thrown on all of them.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::state {

/// Returns the Error of `work`, nullopt if there was none. Other exceptions become Error(io).
std::optional<Error> problem_of(const std::function<void()>& work);

/// Throws on all ranks when any of them has a problem: a rank throws its own problem, or else that of the first rank
/// with one. A collective, without communication in a null group.
void all_or_none(const Group* group, const std::optional<Error>& problem);

/// The two halves of that function, for ranks that exchange more data at the same time: the conversion of a problem to
/// text, empty for none; and the throw if any of all ranks' texts has a problem.
std::string problem_text(const std::optional<Error>& problem);
void throw_problems(const std::optional<Error>& own, const std::vector<std::string>& texts);

}  // namespace lockstep::state
