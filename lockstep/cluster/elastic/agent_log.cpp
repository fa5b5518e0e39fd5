// Lines that begin with "lockstep run:" on an agent's stderr, and the intervals between repeated ones.
#include <lockstep/cluster/elastic/agent_log.h>

#include <fmt/format.h>
#include <unistd.h>

namespace lockstep::cluster::elastic {
void AgentLog::write(std::string_view text) const {
  static_cast<void>(!::write(descriptor_, text.data(), text.size()));
}

void AgentLog::tell(std::string_view line) const { write(fmt::format("lockstep run: {}\n", line)); }

void AgentLog::tell_place(const JobState& state, const NodePlace& node_place, int ranks) const {
  const int last = node_place.first_rank + ranks - 1;
  const auto which =
      ranks == 1 ? fmt::format("rank {}", last) : fmt::format("ranks {} to {}", node_place.first_rank, last);
  tell(fmt::format("round {}: this is node {} of {}, with {} of {}", state.round, node_place.node, state.nodes, which,
                   state.ranks));
}

bool AgentLog::time_to_tell(Time since, Time now, std::chrono::seconds every) {
  if (now - since < every || now - told_ < every) return false;
  told_ = now;
  return true;
}

}  // namespace lockstep::cluster::elastic
