// Futex sleep until another rank publishes something, and waking of sleeping ranks.
//
// A sleeper sets its bit at the ranks it waits for, looks once more, and sleeps on its own futex word; a
// publisher takes the bits set at it and changes the words of those ranks. Both sides use read-modify-write
// operations on the bits: the second one sees what the first did before it, so no wake is lost. Without sleepers, a
// publisher does only one such operation on its own cache line. tests/comm/shm_model checks this.
#pragma once

#include <lockstep/comm/shm/segment.h>

#include <chrono>
#include <functional>
#include <span>

namespace lockstep::shm {

/// Call it after the stores that publish something, on the rank that published.
void wake_sleepers(const Segment& segment, int rank);

/// Sleeps until one of `publishers` publishes after `look_again` returned false, or `limit` passes; returns at once
/// when `look_again` returns true. May wake up early: look again.
void sleep_until_published(const Segment& segment, int rank, std::span<const int> publishers,
                           std::chrono::nanoseconds limit, const std::function<bool()>& look_again);

}  // namespace lockstep::shm
