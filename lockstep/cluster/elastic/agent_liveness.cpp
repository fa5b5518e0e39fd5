#include <lockstep/cluster/elastic/agent_liveness.h>

#include <algorithm>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

/// An agent that was stopped and goes on within so many times the silence is welcome again.
constexpr int kPatience = 10;

}  // namespace

void AgentLiveness::expect(Ticket last, Time now) {
  while (last_ < last) entries_[++last_].heard = now;
}

void AgentLiveness::excuse(Time begin, Time end) {
  for (auto& [ticket, entry] : entries_) {
    if (begin - entry.heard < silence_) entry.heard = end;
  }
}

std::vector<Ticket> AgentLiveness::undescribed() const {
  std::vector<Ticket> tickets;
  for (const auto& [ticket, entry] : entries_) {
    if (!entry.description) tickets.push_back(ticket);
  }
  return tickets;
}

std::vector<Ticket> AgentLiveness::followed() const {
  std::vector<Ticket> tickets;
  for (const auto& [ticket, entry] : entries_) {
    if (entry.description && entry.report.stage != Stage::left) tickets.push_back(ticket);
  }
  return tickets;
}

void AgentLiveness::describe(Ticket ticket, NodeDescription description) {
  entries_[ticket].description = std::move(description);
}

void AgentLiveness::hear(Ticket ticket, const std::string& heartbeat, Time now) {
  Entry& entry = entries_[ticket];
  if (entry.heartbeat == heartbeat) return;
  entry.report = parse_report(heartbeat);
  entry.heartbeat = heartbeat;
  entry.heard = now;
}

std::vector<NodeView> AgentLiveness::views(Time now) const {
  std::vector<NodeView> views;
  for (const auto& [ticket, entry] : entries_) {
    if (!entry.description) continue;
    views.push_back({.ticket = ticket,
                     .description = *entry.description,
                     .report = entry.report,
                     .alive = now - entry.heard < silence_,
                     .current = entry.report.heard == coordinator_});
  }
  return views;
}

void AgentLiveness::forget_gone(std::span<const Ticket> members, Time now) {
  std::erase_if(entries_, [&](const auto& item) {
    const auto& [ticket, entry] = item;
    const bool gone = entry.report.stage == Stage::left || now - entry.heard > kPatience * silence_;
    return gone && std::find(members.begin(), members.end(), ticket) == members.end();
  });
}

}  // namespace lockstep::cluster::elastic
