// Which agents are there and live, by what was read of them and when. Pure: the time is passed in.
#pragma once

#include <lockstep/cluster/elastic/decide.h>

#include <map>
#include <optional>

namespace lockstep::cluster::elastic {

/// What one agent knows of the others. Only its own clock counts: an agent lives as long as its heartbeat changes, so
/// the clocks of the hosts may differ.
class RollCall {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `silence`: after so long without a new heartbeat an agent is lost. `coordinator`: who calls.
  RollCall(std::chrono::milliseconds silence, Ticket coordinator) : silence_(silence), coordinator_(coordinator) {}

  /// Tickets up to this one have been given out.
  void expect(Ticket last, Time now);

  /// Whose description is not known yet, and whose heartbeat is to be read.
  std::vector<Ticket> undescribed() const;
  std::vector<Ticket> followed() const;

  /// The store did not answer from `begin` to `end`: whoever lived at `begin` has all the time anew.
  void excuse(Time begin, Time end);

  void describe(Ticket ticket, NodeDescription description);
  void hear(Ticket ticket, const std::string& beat, Time now);

  /// All that are described, in the order of their tickets.
  std::vector<NodeView> views(Time now) const;

  /// Nothing more is asked of those that have been lost or have left, but for `members`.
  void forget_gone(std::span<const Ticket> members, Time now);

 private:
  struct Entry {
    std::optional<NodeDescription> description;
    std::string beat;
    NodeReport report;
    Time heard;
  };

  std::chrono::milliseconds silence_;
  Ticket coordinator_;
  Ticket last_ = 0;
  std::map<Ticket, Entry> entries_;
};

}  // namespace lockstep::cluster::elastic
