// Numbers as messages between two ranks of a group of two: a worker and a parameter server.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>

#include <chrono>
#include <cstdint>
#include <span>

namespace lockstep::servers {

/// The memory must stay until the Work is complete. Nothing is sent where there are no numbers.
Work send_numbers(std::span<const std::int64_t> numbers, const Group& pair);
Work send_numbers(std::span<const float> numbers, const Group& pair);

/// As many as the memory has. Errors as Work::wait.
void receive_numbers(std::span<std::int64_t> numbers, const Group& pair, std::chrono::milliseconds limit);
void receive_numbers(std::span<float> numbers, const Group& pair, std::chrono::milliseconds limit);

}  // namespace lockstep::servers
