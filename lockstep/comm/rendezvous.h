// The rendezvous of a job: the identities of all its ranks, collected through the store.
#pragma once

#include <lockstep/comm/rank_info.h>
#include <lockstep/comm/stores.h>

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

namespace lockstep::detail {

/// The key of a rendezvous's result, once it is over.
inline constexpr auto kOutcomeKey = "outcome";

/// Those of the ranks 0 to size - 1 that have not announced themselves in the store.
std::vector<int> absent_ranks(c10d::Store& store, int size);

/// Called repeatedly by ranks that collect others, and by all when the connection to the store breaks (as it does where
/// rank 0, which holds it, gives up); throws the reason why ranks will not come, once there is one.
using GiveUp = std::function<void()>;

/// Announces `self` in the store and returns all ranks, in order; nullopt when the rendezvous ended without it, or rank
/// 0 began another one: `store` has the keys of one rendezvous. Error(timeout) names the ranks that are missing after
/// `timeout`; and what `give_up` throws.
std::optional<std::vector<RankInfo>> meet(c10d::Store& store, const RankInfo& self, int size,
                                          std::chrono::milliseconds timeout, const GiveUp& give_up);

/// Whether `rank`, which arrives only now, is too late for this rendezvous: it is complete, or was given up.
bool is_over(c10d::Store& store, int rank);

/// Closes a rendezvous that is not complete. Ranks that wait there leave it.
void close_meeting(c10d::Store& store);

}  // namespace lockstep::detail
