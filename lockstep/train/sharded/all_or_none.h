// The exchange of errors between ranks: an error of one rank is thrown on all of them.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

/// The Error that `work` ends with, nullopt when it ends well. Other exceptions become Error(io).
std::optional<Error> problem_of(const std::function<void()>& work);

/// Throws on all ranks when any of them has a problem: its own on those that have one, the first rank's on the others.
/// A collective; nothing is sent in a null group.
void all_or_none(const Group* group, const std::optional<Error>& problem);

/// The two halves of it, for ranks that tell each other more at the same time: a problem as text, empty for none; and
/// throwing when any of all ranks' texts is of a problem.
std::string problem_text(const std::optional<Error>& problem);
void throw_problems(const std::optional<Error>& own, const std::vector<std::string>& texts);

}  // namespace lockstep::train
