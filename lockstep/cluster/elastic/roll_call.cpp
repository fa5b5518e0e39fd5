#include <lockstep/cluster/elastic/roll_call.h>

#include <algorithm>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

/// An agent that was stopped and goes on within so many times the silence is welcome again.
constexpr int kPatience = 10;

}  // namespace

void RollCall::expect(Ticket last, Time now) {
  while (last_ < last) entries_[++last_].heard = now;
}

void RollCall::excuse(Time begin, Time end) {
  for (auto& [ticket, entry] : entries_) {
    if (begin - entry.heard < silence_) entry.heard = end;
  }
}

std::vector<Ticket> RollCall::undescribed() const {
  std::vector<Ticket> tickets;
  for (const auto& [ticket, entry] : entries_) {
    if (!entry.description) tickets.push_back(ticket);
  }
  return tickets;
}

std::vector<Ticket> RollCall::followed() const {
  std::vector<Ticket> tickets;
  for (const auto& [ticket, entry] : entries_) {
    if (entry.description && entry.report.stage != Stage::left) tickets.push_back(ticket);
  }
  return tickets;
}

void RollCall::describe(Ticket ticket, NodeDescription description) {
  entries_[ticket].description = std::move(description);
}

void RollCall::hear(Ticket ticket, const std::string& beat, Time now) {
  Entry& entry = entries_[ticket];
  if (entry.beat == beat) return;
  entry.report = parse_report(beat);
  entry.beat = beat;
  entry.heard = now;
}

std::vector<NodeView> RollCall::views(Time now) const {
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

void RollCall::forget_gone(std::span<const Ticket> members, Time now) {
  std::erase_if(entries_, [&](const auto& item) {
    const auto& [ticket, entry] = item;
    const bool gone = entry.report.stage == Stage::left || now - entry.heard > kPatience * silence_;
    return gone && std::find(members.begin(), members.end(), ticket) == members.end();
  });
}

}  // namespace lockstep::cluster::elastic
