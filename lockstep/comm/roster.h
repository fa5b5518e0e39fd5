// How the ranks of a job find out through the store who all of them are.
#pragma once

#include <lockstep/comm/rank_info.h>
#include <lockstep/comm/stores.h>

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

namespace lockstep::detail {

/// What a meeting came to, once it is over.
inline constexpr auto kRosterKey = "roster";

/// Those of the ranks 0 to size - 1 that have not announced themselves in the store.
std::vector<int> absent_ranks(c10d::Store& store, int size);

/// Called again and again by ranks that collect others, and by all when the store breaks off (as it does where rank 0,
/// which holds it, gives up); throws the reason why they will not come, once there is one.
using GiveUp = std::function<void()>;

/// Announces `self` in the store and returns all ranks, in order; nullopt when they met without it, or rank 0 began
/// another meeting: `store` has the keys of one meeting. Error(timeout) names the ranks that were not there after
/// `timeout`; and what `give_up` throws.
std::optional<std::vector<RankInfo>> meet(c10d::Store& store, const RankInfo& self, int size,
                                          std::chrono::milliseconds timeout, const GiveUp& give_up);

/// Whether `rank`, which comes only now, is too late for this meeting: the ranks have met, or it was given up.
bool is_over(c10d::Store& store, int rank);

/// Ends a meeting in which nobody has met. Ranks that wait there leave it.
void close_meeting(c10d::Store& store);

}  // namespace lockstep::detail
