// Tests of the links from this host to the others.
#pragma once

#include <lockstep/doctor/facts.h>
#include <lockstep/doctor/wait_limit.h>

#include <chrono>
#include <string_view>
#include <vector>

namespace lockstep::doctor {

/// The beginning of Link::problem when packets are dropped on the way.
inline constexpr std::string_view kNoAnswer = "no answer";

/// Connects to the probe server of `to` and reads its identity.
Link try_link(int from, const Facts& to, const WaitLimit& wait_limit);

/// The same for each of `targets`, many at a time, with `limit` for each.
std::vector<Link> try_links(int from, const std::vector<const Facts*>& targets, std::chrono::milliseconds limit,
                            const std::stop_token& stop = {});

}  // namespace lockstep::doctor
