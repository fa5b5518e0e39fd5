// Sleeping until another rank publishes something, and waking those who sleep.
//
// A sleeper leaves its bit with the ranks it waits for, looks once more, and sleeps on its own futex word; who
// publishes takes the bits left with it and changes the words of those ranks. Both sides use read-modify-write
// operations on the bits: whichever comes second sees what the first did before it, so no wake is lost. Nobody who is
// awake costs a publisher more than one such operation on a line of its own. tests/comm/shm_model checks this.
#pragma once

#include <lockstep/comm/shm/segment.h>

#include <chrono>
#include <functional>
#include <span>

namespace lockstep::shm {

/// Call after the stores that publish something, by the rank that did.
void wake_sleepers(const Segment& segment, int rank);

/// Sleeps until one of `publishers` publishes after `look_again` returned false, or `limit` passes; returns at once
/// when `look_again` returns true. Wakes up early now and then: look again.
void sleep_until_published(const Segment& segment, int rank, std::span<const int> publishers,
                           std::chrono::nanoseconds limit, const std::function<bool()>& look_again);

}  // namespace lockstep::shm
