// Trying the ways from this host to the others.
#pragma once

#include <lockstep/doctor/facts.h>
#include <lockstep/doctor/patience.h>

#include <chrono>
#include <vector>

namespace lockstep::doctor {

/// Connects to the greeter of `to` and reads who it is.
Link try_link(int from, const Facts& to, const Patience& patience);

/// The same for each of `targets`, many at a time, with `limit` for each.
std::vector<Link> try_links(int from, const std::vector<const Facts*>& targets, std::chrono::milliseconds limit,
                            const std::stop_token& stop = {});

}  // namespace lockstep::doctor
