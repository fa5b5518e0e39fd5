// Outputs of the service of launchers that wait until the state on which they depend is saved. Pure.
#pragma once

#include <lockstep/cluster/elastic/node_service.h>

#include <cstddef>
#include <deque>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::cluster::elastic {

/// Meanwhile the service goes on: what changes until the end of one save is saved by the next one.
class HeldOutputs {
 public:
  /// Takes the outputs of a step; returns those that can be carried out now.
  std::vector<NodeServiceOutput> take(std::vector<NodeServiceOutput> outputs) {
    std::vector<NodeServiceOutput> ready;
    for (auto& output : outputs) {
      if (std::holds_alternative<SaveJob>(output)) {
        changed_ = true;
      } else if (changed_ || saving_) {
        waiting_.push_back(std::move(output));
      } else {
        ready.push_back(std::move(output));
      }
    }
    return ready;
  }

  /// Whether a save is to begin now, with the state as it is.
  bool begin_save() {
    if (!changed_ || saving_) return false;
    saving_ = true;
    changed_ = false;
    waiting_for_save_ = waiting_.size();
    return true;
  }

  /// The save has succeeded; returns what waited for it. Another one may have to begin.
  std::vector<NodeServiceOutput> end_save() {
    saving_ = false;
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(changed_ ? waiting_for_save_ : waiting_.size());
    std::vector<NodeServiceOutput> ready(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    return ready;
  }

 private:
  std::deque<NodeServiceOutput> waiting_;
  std::size_t waiting_for_save_ = 0;  ///< those of them that wait for the save in progress
  bool changed_ = false;              ///< since the begin of the last save
  bool saving_ = false;
};

}  // namespace lockstep::cluster::elastic
